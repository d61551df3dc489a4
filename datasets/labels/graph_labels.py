"""The labels that follow from a citation graph: the one road that `labels`, `build`, the synthetic corpus and `data
verify` take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..disruption.cd_index import disruption_counts, ratio
from ..graph.citation_graph import CitationGraph
from .citation_impact import citation_percentile
from .eligibility import LabelRules, first_failures, number_checks
from .schemes import disruption_labels

PAPERS = "papers.parquet"
"""Beside a dataset's graph: what the labels were computed from that the graph does not hold."""


@dataclass(frozen=True, eq=False)
class GraphLabels:
    """Labels of the N papers of a graph, and what they follow from.

    Parameters
    ----------
    counts : three int64 arrays (N,)
        n_i, n_j, n_k inside the window.
    cd : float64 (N,)
        CD index, NaN where undefined.
    eligible : bool (N,)
        Who can carry a label.
    reasons : Counter
        The others, each under the first rule that it fails.
    disruption : str (N,)
        See `disruption_labels`. Papers that are not eligible are held against the cuts of those that are.
    percentiles : float64 (N,) or None
        `citation_percentile`; None without fields.
    last_complete_year : int
    """

    counts: tuple[np.ndarray, np.ndarray, np.ndarray]
    cd: np.ndarray
    eligible: np.ndarray
    reasons: Counter[str]
    disruption: np.ndarray
    percentiles: np.ndarray | None
    last_complete_year: int


def graph_labels(
    graph: CitationGraph,
    rules: LabelRules,
    fields: Sequence[Any] | np.ndarray | None = None,
    *,
    excluded: Sequence[tuple[str, np.ndarray]] = (),
    counts: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> GraphLabels:
    """Disruption labels, eligibility and citation percentiles of the papers of a graph.

    Parameters
    ----------
    graph : CitationGraph
    rules : LabelRules
    fields : array-like (N,), optional
        For tertiles and percentiles.
    excluded : sequence of (reason, bool (N,))
        Rules of eligibility that the graph does not know, such as `content_checks`.
    counts : three int64 arrays (N,), optional
        n_i, n_j, n_k, if they were computed elsewhere.

    Raises
    ------
    ValueError
        The scheme ``quantile`` without fields.
    """
    n_i, n_j, n_k = counts = disruption_counts(graph, rules.window) if counts is None else counts
    cd = ratio(n_i - n_j, n_i + n_j + n_k)
    closed_by = rules.closed_by(graph.years)
    checks = [*excluded, *number_checks(graph.years, graph.reference_counts, n_i + n_j, cd, rules, closed_by)]
    eligible, reasons = first_failures(checks, graph.n_papers)
    disruption = disruption_labels(cd, rules, fields=fields, years=graph.years, among=eligible)
    percentiles = None if fields is None else citation_percentile(graph, fields, rules.window, closed_by)
    return GraphLabels(counts, cd, eligible, reasons, disruption, percentiles, closed_by)


def save_papers(
    folder: Path, graph: CitationGraph, fields: pa.Array, excluded: np.ndarray, venues: np.ndarray | None
) -> None:
    """Write `PAPERS` into a graph's folder; ``scisci-gym labels GRAPH --papers GRAPH/papers.parquet`` reads it.

    Parameters
    ----------
    fields : string or dictionary array (N,)
    excluded : bool (N,)
        Papers that cannot carry a label for what they are: retracted, without abstract, in another language, ...
    venues : int32 (N,) or None
        -1 where unknown.
    """
    columns = {"id": graph.node_ids, "field": fields, "excluded": excluded}
    if venues is not None:
        columns["venue"] = venues
    pq.write_table(pa.table(columns), folder / PAPERS, compression="zstd")
