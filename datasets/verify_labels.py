"""What a dataset says about its papers, computed again from its graph or from the columns that were published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .graph.citation_graph import CitationGraph
from .labels.eligibility import LabelRules
from .labels.graph_labels import NoveltyScores, graph_labels
from .labels.published import recomputed_scores
from .labels.schemes import half_sample_agreement, tertile_cuts
from .novelty.atypicality import Atypicality, atypicality_of_year
from .novelty.venue_pairs import checked_venues
from .positions import positions_of

Row = dict[str, Any]
Cuts = dict[tuple[str, int], tuple[float, float]]


@dataclass(frozen=True)
class Check:
    """One claim that was checked: its name, what was looked at, and what does not hold (empty where all does)."""

    name: str
    looked_at: str
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def recount(graph: CitationGraph, paper: int, window: int | None) -> tuple[int, int, int]:
    """``(n_i, n_j, n_k)`` of one paper, by the definition, with sets.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([2, 2, 3, 4, 4, 5], [0, 1, 2, 2, 0, 1], [1990, 1990, 1992, 1994, 1994, 1995])
    >>> recount(graph, 2, 5)
    (1, 1, 1)
    """
    year = int(graph.years[paper])

    def later(papers: np.ndarray) -> Iterator[int]:
        for citing in papers.tolist():
            if year < graph.years[citing] and (window is None or graph.years[citing] <= year + window):
                yield citing

    of_paper = set(later(graph.citers(paper)))
    of_references = {citing for cited in graph.references(paper).tolist() for citing in later(graph.citers(cited))}
    of_references.discard(paper)
    both = len(of_paper & of_references)
    return len(of_paper) - both, both, len(of_references) - both


def recounted(graph: CitationGraph, card: Row, rows: list[Row]) -> Check:
    """The counts of a sample of papers, by the definition."""

    def again(node: int) -> Row:
        n_i, n_j, n_k = recount(graph, node, card["labels"]["window"])
        cd = (n_i - n_j) / (n_i + n_j + n_k) if n_i + n_j + n_k else np.nan
        counts = {"n_i": n_i, "n_j": n_j, "n_k": n_k, "cd_index": cd, "reference_count": len(graph.references(node))}
        return {**counts, "publication_year": int(graph.years[node])}

    pairs = list(zip(rows, _nodes(graph, rows).tolist(), strict=True))
    wrong = [f"{row['openalex_id']} is not in the graph" for row, node in pairs if node < 0]
    wrong += _differences((row, again(node)) for row, node in pairs if node >= 0)
    return Check("labels from the graph", f"a sample of {len(rows):,} papers, counted again", wrong)


def labels_from_graph(card: Row, graph: CitationGraph, papers: pa.Table, rows: list[Row]) -> list[Check]:
    """Cuts, CD indices and their counts, disruption labels, fields and citation percentiles of all papers."""
    rules, names = _rules(card), papers["field"].cast(pa.string()).to_numpy(zero_copy_only=False).astype(str)
    labels = graph_labels(graph, rules, names, excluded=[("excluded", papers["excluded"].to_numpy())])
    disruption = labels.disruption.astype(object)
    disruption[~labels.eligible] = None
    percentiles = labels.percentiles
    if percentiles is None or "hits" not in card:  # neighbourhoods are no field to compare citation counts with
        percentiles = np.full(names.size, np.nan)
    columns = {"primary_field": names, "disruption_label": disruption, "cd_index": labels.cd}
    columns |= dict(zip(("n_i", "n_j", "n_k"), labels.counts, strict=True))
    columns |= {"reference_count": graph.reference_counts, "publication_year": graph.years}
    return [
        *_cuts(card, tertile_cuts(labels.cd, names, graph.years, rules.min_group, among=labels.eligible)),
        _unlabelled(card, labels.reasons),
        _columns("disruption labels from the graph", ", CD indices, eligibility and fields too", graph, rows, columns),
        _columns("citation percentiles from the graph", "", graph, rows, {"citation_percentile": percentiles}),
    ]


def _unlabelled(card: Row, reasons: Mapping[str, int]) -> Check:
    """The card counts the papers that have no label for each reason that lies in the graph."""
    wrong = [
        f"{count:,} papers have no label because of {reason}, the card says {card['not_labelled'].get(reason, 0):,}"
        for reason, count in reasons.items()
        if reason != "excluded" and count != card["not_labelled"].get(reason, 0)
    ]
    return Check("papers without a label", f"{sum(reasons.values()):,} papers", wrong)


def novelty_from_graph(card: Row, graph: CitationGraph, papers: pa.Table, rows: list[Row]) -> list[Check]:
    """Novelty scores and labels of all papers, from the stored venues and the same null networks."""
    novelty = card.get("novelty")
    if novelty is None:
        return []
    venues = checked_venues(graph, papers["venue"].to_numpy())
    drawn = (novelty["null"], novelty["samples"], novelty["seed"])
    nodes = _nodes(graph, rows)
    years = np.unique(graph.years[nodes[nodes >= 0]])
    papers_of = [(int(year), np.flatnonzero(graph.years == year)) for year in years]
    by_year = ((of, *atypicality_of_year(graph, venues, year, of, *drawn)) for year, of in papers_of)
    result = Atypicality.of_years(graph.n_papers, by_year)
    scores = NoveltyScores.of(result, graph.years)
    given = scores.labels.astype(object)
    given[given == ""] = None
    columns = {
        "novelty_score": scores.novelty,
        "conventionality_score": scores.conventionality,
        "novelty_label": given,
        "novelty_withheld": scores.withheld,
    }
    stated = {row[0]: tuple(row) for row in novelty["agreement"]}
    wrong = [
        f"halves of the null networks agree by {row} (year, papers, z10, z_median), the card says {stated.get(row[0])}"
        for row in half_sample_agreement(result, graph.years)
        if row != stated.get(row[0])
    ]
    check = _columns("novelty from the graph", "", graph, rows, columns)
    return [replace(check, wrong=wrong + check.wrong)]


def _columns(name: str, besides: str, graph: CitationGraph, rows: list[Row], columns: dict[str, np.ndarray]) -> Check:
    """The rows hold what was computed again for all papers of the graph."""
    nodes = _nodes(graph, rows)
    present = [row for row, node in zip(rows, nodes, strict=True) if node >= 0]
    again = zip(*(values[nodes[nodes >= 0]].tolist() for values in columns.values()), strict=True)
    pairs = [(row, dict(zip(columns, values, strict=True))) for row, values in zip(present, again, strict=True)]
    return Check(name, f"{len(rows):,} papers{besides}", _differences(pairs))


def labels_from_published(folder: Path, card: Row, rows: list[Row]) -> list[Check]:
    """Scores and labels of a source without a graph, from the published columns that were kept beside the dataset."""
    name = "labels from the published columns"
    try:
        scores, cuts = recomputed_scores(folder, [row["openalex_id"] for row in rows], _rules(card))
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        return [Check(name, "published.parquet", [f"cannot be read: {error}"])]
    if "novelty" not in card:
        for again in scores.values():
            for column in ("novelty_score", "conventionality_score", "novelty_label"):
                del again[column]
    wrong = [f"{row['openalex_id']} is not published" for row in rows if row["openalex_id"] not in scores]
    wrong += _differences((row, scores[row["openalex_id"]]) for row in rows if row["openalex_id"] in scores)
    return [*_cuts(card, cuts), Check(name, f"{len(rows):,} papers", wrong)]


def _cuts(card: Row, cuts: Cuts) -> list[Check]:
    """The cuts in the card are those of the eligible papers."""
    if card["labels"]["scheme"] != "quantile":
        return []
    stated = cuts_of(card)
    wrong = [
        f"{name} {year}: the tertiles are cut at {cuts.get((name, year))}, the card says {stated.get((name, year))}"
        for name, year in sorted({*cuts, *stated})
        if cuts.get((name, year)) != stated.get((name, year))
    ]
    return [Check("cuts between tertiles", f"{len(cuts):,} fields and years", wrong)]


def cuts_of(card: Row) -> Cuts:
    """The cuts between tertiles that a card states, for each field and year."""
    return {(name, year): (low, high) for name, year, low, high in card.get("cuts", [])}


def _rules(card: Row) -> LabelRules:
    return LabelRules(**{part.name: card["labels"][part.name] for part in fields(LabelRules)})


def _nodes(graph: CitationGraph, rows: list[Row]) -> np.ndarray:
    """Positions of papers in the graph, -1 where they are not in it."""
    ids = np.asarray(graph.node_ids)
    if ids.dtype.kind in "iu":
        return positions_of(np.array([int(row["openalex_id"][1:]) for row in rows], np.int64), ids)
    return positions_of(np.array([row["openalex_id"] for row in rows], str), ids)


def _differences(pairs: Iterable[tuple[Row, Row]]) -> list[str]:
    """Sentences about the values of rows that differ from those that were computed again."""
    return [
        f"{row['openalex_id']}: {name} comes out as {value}, the row says {row[name]}"
        for row, again in pairs
        for name, value in again.items()
        if differ(value, row[name])
    ]


def differ(computed: Any, stored: Any) -> bool:
    """Whether two values differ; a NaN is stored as None."""
    if isinstance(computed, float) and computed != computed:
        return stored is not None
    if isinstance(computed, str) or computed is None or stored is None:
        return computed != stored
    return abs(computed - stored) > 1e-9
