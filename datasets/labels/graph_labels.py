"""All labels that follow from a citation graph, for every command that needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..disk_arrays import held
from ..disruption.cd_index import cd_of_counts, disruption_counts
from ..graph.citation_graph import CitationGraph
from ..novelty.atypicality import DEFAULT_SAMPLES, Atypicality, atypicality
from ..novelty.venue_pairs import checked_venues
from .citation_impact import citation_percentile
from .eligibility import LabelRules, first_failures, number_checks
from .schemes import (
    NOVELTY_NAMES,
    DisruptionCuts,
    conventionality_score,
    half_sample_agreement,
    novelty_score,
    sampled_codes,
)

PAPERS = "papers.parquet"
"""Beside a dataset's graph: what the labels were computed from that the graph does not hold."""
NULL = "shuffle"
"""Null model of the novelty scores of datasets."""


@dataclass(frozen=True, eq=False)
class GraphLabels:
    """Labels of the N papers of a graph, and what they follow from."""

    counts: tuple[np.ndarray, np.ndarray, np.ndarray]
    """n_i, n_j, n_k inside the window, int64 (N,)."""
    cd: np.ndarray
    """CD index, float64 (N,), NaN where undefined."""
    eligible: np.ndarray
    """Who can carry a label, bool (N,)."""
    reasons: Counter[str]
    """How many others there are, each under the first rule that it fails."""
    cuts: DisruptionCuts
    percentiles: np.ndarray | None
    """See `citation_percentile`, float64 (N,); None without fields."""
    last_complete_year: int

    @property
    def disruption(self) -> np.ndarray:
        """See `disruption_labels`, str (N,). Papers that are not eligible are compared with the cuts of those that are.

        It takes 52 bytes a paper; ``labels.cuts.labels(labels.cd[papers], papers)`` are those of some papers.
        """
        return self.cuts.labels(self.cd)


def graph_labels(
    graph: CitationGraph,
    rules: LabelRules,
    fields: Sequence[Any] | np.ndarray | None = None,
    *,
    excluded: Sequence[tuple[str, np.ndarray]] = (),
    counts: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    on_disk: bool = False,
) -> GraphLabels:
    """Disruption labels, eligibility and citation percentiles of the papers of a graph.

    Parameters
    ----------
    fields : array-like (N,), optional
        For tertiles and percentiles.
    excluded : sequence of (reason, bool (N,))
        Rules of eligibility that the graph does not know, such as `content_checks`.
    counts : three int64 arrays (N,), optional
        n_i, n_j, n_k, if they were computed elsewhere.
    on_disk : bool
        Keep CD index and percentiles in temporary files.

    Raises `ValueError` for the scheme ``quantile`` without fields.
    """
    n_i, n_j, _ = counts = disruption_counts(graph, rules.window) if counts is None else counts
    cd = cd_of_counts(counts, on_disk)
    closed_by = rules.closed_by(graph.years)
    checks = [*excluded, *number_checks(graph.years, graph.reference_counts, n_i + n_j, cd, rules, closed_by)]
    eligible, reasons = first_failures(checks, graph.n_papers)
    del checks
    cuts = DisruptionCuts.of(cd, rules, fields, graph.years, eligible)
    if fields is None:
        percentiles = None
    else:
        percentiles = held(citation_percentile(graph, fields, rules.window, closed_by), on_disk)
    return GraphLabels(counts, cd, eligible, reasons, cuts, percentiles, closed_by)


@dataclass(frozen=True, eq=False)
class NoveltyScores:
    """Where the atypicality of the N papers of a graph stands among the papers of their year: arrays (N,)."""

    novelty: np.ndarray
    """float64, see `novelty_score`."""
    conventionality: np.ndarray
    """float64, see `conventionality_score`."""
    codes: np.ndarray
    """int8, places of the labels in `NOVELTY_NAMES`: see `sampled_codes`."""
    withheld: np.ndarray
    """bool."""

    @property
    def labels(self) -> np.ndarray:
        """str, "" where undefined or withheld."""
        return NOVELTY_NAMES[self.codes]

    @classmethod
    def of(cls, result: Atypicality, years: np.ndarray) -> NoveltyScores:
        """Scores and labels of what `atypicality` returned."""
        codes, withheld = sampled_codes(result, years)
        scores = novelty_score(result.z10, years), conventionality_score(result.z_median, years)
        return cls(*scores, codes, withheld)


class DatasetNovelty(NamedTuple):
    """The novelty scores of a dataset, the venues that they follow from, and what its card says about them."""

    scores: NoveltyScores
    venues: np.ndarray
    """int32 (N,), see `checked_venues`."""
    facts: dict[str, Any]


def novelty_of_dataset(
    graph: CitationGraph, venue_ids: np.ndarray, seed: int = 0, memory: int | None = None
) -> DatasetNovelty | None:
    """The novelty scores of a dataset; None where fewer than two venues are known.

    `venue_ids` is int (N,), any numbers from 0 and -1 where unknown; `seed` is that of the null networks, and `memory`
    that of `atypicality`.
    """
    venues = checked_venues(graph, venue_ids).astype(np.int32)
    if venues.max(initial=-1) < 1:
        return None
    result = atypicality(graph, venues, null=NULL, seed=seed, memory=memory)
    scores = NoveltyScores.of(result, graph.years)
    facts = {
        "null": NULL,
        "samples": DEFAULT_SAMPLES[NULL],
        "seed": seed,
        "scored": int((~np.isnan(scores.novelty)).sum()),
        "withheld": int(scores.withheld.sum()),
        "agreement": half_sample_agreement(result, graph.years),
    }
    return DatasetNovelty(scores, venues, facts)


def save_papers(
    folder: Path, graph: CitationGraph, fields: pa.Array, excluded: np.ndarray, venues: np.ndarray | None
) -> None:
    """Write `PAPERS` into a graph's folder; ``scisci-gym labels GRAPH --papers GRAPH/papers.parquet`` reads it.

    `excluded`, bool (N,), marks papers that cannot carry a label for what they are: retracted, without abstract, in
    another language, ...; `fields` is a string or dictionary array (N,), and `venues` int32 (N,), -1 where unknown.
    """
    columns = {"id": graph.node_ids, "field": fields, "excluded": excluded}
    if venues is not None:
        columns["venue"] = venues
    pq.write_table(pa.table(columns), folder / PAPERS, compression="zstd")
