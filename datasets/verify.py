"""Checks of a built dataset: its hash, counts and splits, and every label and score, computed again.

A dataset is compared with what lies beside its papers: the citation graph and its `PAPERS`, or the published columns.
For a sample of papers the counts behind the CD index are also computed with plain sets, without the kernels.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .disruption.cd_index import ratio
from .errors import BadInput
from .graph.citation_graph import CitationGraph
from .labels.eligibility import LabelRules
from .labels.graph_labels import PAPERS, NoveltyScores, graph_labels
from .labels.published import recomputed_scores
from .labels.schemes import half_sample_agreement, tertile_cuts
from .near_duplicates import later_copies
from .novelty.atypicality import Atypicality, atypicality_of_year
from .novelty.venue_pairs import checked_venues
from .openalex.shards import part_names, written_works
from .paper import DISRUPTION_ORDER, Paper, disruption_label, is_hit, side_of
from .positions import positions_of
from .splits import CUTOFF_VIEWS, SPLITS, SplitYears, is_post_cutoff
from .store import Tally, load_card, read_rows, split_file
from .title_changes import scrambled_titles

CARD = {"content_hash": str, "splits": dict, "split": dict, "labels": dict, "not_labelled": dict, "works_in_graph": int}
"""What the checks need of a card, whatever its source."""
NOVELTY = ("novelty_score", "conventionality_score", "novelty_label")
Row = dict[str, Any]
Cuts = dict[tuple[str, int], tuple[float, float]]


class Check(NamedTuple):
    """One claim that was checked: its name, what was looked at, and what does not hold (empty where all does)."""

    name: str
    looked_at: str
    wrong: list[str]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def verify(folder: Path, *, sample: int = 200, seed: int = 0, previous: Path | None = None) -> list[Check]:
    """Check a dataset folder against its own card and graph.

    The counts of `sample` papers, drawn with the `seed`, are also computed with sets. Titles are compared with those of
    the earlier build `previous`, if there is one; see `scrambled_titles`. Raises `FileNotFoundError` if the folder is
    not a dataset, and `BadInput` if its card is damaged, or works that were to be compared are not there.
    """
    card = load_card(folder, CARD)
    titles = [] if previous is None else [_titles(folder, previous, seed)]
    try:
        rows_of = {name: list(read_rows(folder, name)) for name in SPLITS}
    except (OSError, BadInput) as error:
        return [Check("files", "the parquet files of the splits", [str(error)])]
    rows = [row for split in rows_of.values() for row in split]
    checks = [*titles, *_hash_and_counts(card, rows_of), _labels_follow(card, rows), _split_rules(card, rows_of)]
    if "cutoff" in card:
        checks.append(_cutoff_views(card, folder, rows_of["test"]))
    checks.append(_hit_share(card, rows_of))
    if "citations" not in card:
        return [*checks, *_labels_from_published(folder, card, rows)]
    try:
        graph = CitationGraph.load(folder / "graph")
        graph_check = _graph(card, graph)
        checks.append(graph_check)
        chosen = np.sort(np.random.default_rng(seed).permutation(len(rows))[:sample])
        checks.append(_recounted(graph, card, [rows[i] for i in chosen]))
        # The kernels trust the arrays of a graph: inconsistent ones could end the process.
        if graph_check.holds:
            if card.get("source", {}).get("kind") == "openalex":
                checks.append(_collection(folder, card, graph, rows))
            papers = pq.read_table(folder / "graph" / PAPERS)
            checks += [*_labels_from_graph(card, graph, papers, rows), *_novelty_from_graph(card, graph, papers, rows)]
    except (OSError, ValueError, KeyError, IndexError) as error:
        checks.append(Check("graph", "the stored citation graph", [f"cannot be read: {error}"]))
    return checks


def _titles(folder: Path, previous: Path, seed: int) -> Check:
    """Works have the titles that they had in an earlier build, apart from corrections."""
    load_card(previous)
    before, after = (written_works(build / "works") for build in (previous, folder))
    drawn, wrong = scrambled_titles(before, after, part_names(folder / "works"), seed=seed)
    return Check("titles as in the previous build", f"{drawn:,} works of both", wrong)


def _hash_and_counts(card: Row, rows_of: dict[str, list[Row]]) -> list[Check]:
    tally = Tally()
    for name, rows in rows_of.items():
        tally.start(name)
        tally.add(rows)
    result, wrong_hash = tally.result(), []
    if result.content_hash != card["content_hash"]:
        wrong_hash = [f"the papers hash to {result.content_hash}, the card says {card['content_hash']}"]
    wrong_counts = [
        f"{name} holds {share}, the card says {card['splits'].get(name)}"
        for name, share in result.splits.items()
        if share != card["splits"].get(name)
    ]
    return [
        Check("content hash", f"{sum(map(len, rows_of.values())):,} papers, every field", wrong_hash),
        Check("label counts", ", ".join(f"{name} {len(rows):,}" for name, rows in rows_of.items()), wrong_counts),
    ]


def _labels_follow(card: Row, rows: list[Row]) -> Check:
    """Every row is a valid `Paper` of the card's label rules, and its disruption label follows from its CD index."""
    rules, cuts, wrong = card["labels"], _cuts_of(card), []
    # Prompts say what a label means by these.
    stated = {
        "label_scheme": rules["scheme"],
        "cd_threshold": rules["threshold"],
        "cd_window": None if rules.get("published") else rules["window"],
    }
    for row in rows:
        wrong += [
            f"{row['openalex_id']}: {name} is {row[name]!r}, the card says {value!r}"
            for name, value in stated.items()
            if row[name] != value
        ]
        try:
            Paper.from_row(row)
        except ValueError as error:
            wrong.append(f"{row['openalex_id']}: {error}")
            continue
        cut = cuts.get((row["primary_field"], row["publication_year"]))
        if rules["scheme"] == "threshold":
            implied = disruption_label(row["cd_index"], rules["threshold"])
        else:
            implied = None if cut is None else DISRUPTION_ORDER[1 + side_of(row["cd_index"], *cut)]
        if implied != row["disruption_label"]:
            wrong.append(f"{row['openalex_id']} is {row['disruption_label']}, its cd_index says {implied}")
    return Check("labels follow from scores", f"{len(rows):,} papers", wrong)


def _split_rules(card: Row, rows_of: dict[str, list[Row]]) -> Check:
    years = SplitYears(*(card["split"][part.name] for part in fields(SplitYears)))
    rows = [row for split_rows in rows_of.values() for row in split_rows]
    wrong = [
        f"{row['openalex_id']} of {row['publication_year']} is in {name}"
        for name, split_rows in rows_of.items()
        for row in split_rows
        if years.of(row["publication_year"]) != name
    ]
    closes = years.validation_to + card["labels"]["window"]
    if card["split"]["kind"] == "closed" and closes >= years.test_from:
        wrong.append(f"label windows reach {closes}, test papers start in {years.test_from}")
    repeated = len(rows) - len({row["openalex_id"] for row in rows})
    if repeated:
        wrong.append(f"{repeated} papers share an id with another")
    copies = later_copies([row["doi"] for row in rows], [row["title"] for row in rows])
    wrong += [f"{rows[i]['openalex_id']} is a copy of an earlier paper" for i in np.flatnonzero(copies)]
    return Check("splits", "years, closed windows, copies", wrong)


def _cutoff_views(card: Row, folder: Path, test: list[Row]) -> Check:
    cutoff, wrong = date.fromisoformat(card["cutoff"]), []
    for name, is_post in zip(CUTOFF_VIEWS, (False, True), strict=True):
        expected = [
            row for row in test if is_post_cutoff(row["publication_date"], row["publication_year"], cutoff) is is_post
        ]
        stored = list(read_rows(folder, name)) if split_file(folder, name).is_file() else []
        if stored != expected:
            wrong.append(f"{name} has {len(stored):,} papers that are not the {len(expected):,} of the test set")
    return Check("cutoff views", f"before {card['cutoff']} and since", wrong)


def _hit_share(card: Row, rows_of: dict[str, list[Row]]) -> Check:
    """Every paper and the card state the share of hits in the training split."""
    train = [row["citation_percentile"] for row in rows_of["train"]]
    share = None if "hits" not in card else sum(is_hit(p) for p in train if p is not None) / len(train)
    stated = {row["hit_share"] for rows in rows_of.values() for row in rows}
    stated.add(card.get("hits", {}).get("share_of_train"))
    wrong = [f"the training papers give {share}, the dataset says {value}" for value in stated if _differ(share, value)]
    return Check("share of hits", f"{len(train):,} training papers", wrong)


def _graph(card: Row, graph: CitationGraph) -> Check:
    wrong = []
    if graph.n_papers != card["works_in_graph"] or graph.n_citations != card["citations"]["kept"]:
        wrong.append(
            f"the graph has {graph.n_papers:,} works and {graph.n_citations:,} citations, the card says "
            f"{card['works_in_graph']:,} and {card['citations']['kept']:,}"
        )
    rebuilt = CitationGraph.from_edges(*graph.edges(), graph.years)
    for name in ("ref_indptr", "ref_indices", "cit_indptr", "cit_indices"):
        if not np.array_equal(getattr(graph, name), getattr(rebuilt, name)):
            wrong.append(f"{name} is not what the citations of the graph give")
    return Check("graph", repr(graph), wrong)


def _collection(folder: Path, card: Row, graph: CitationGraph, rows: list[Row]) -> Check:
    """The stored pages of the API give the collection that the card describes."""
    from .openalex.api.neighbourhood import collection_differences  # here, because only this source needs pyalex

    wrong = collection_differences(folder, card["source"], graph, rows)
    return Check("collection from the stored pages", f"{card['works_in_graph']:,} works", wrong)


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


def _recounted(graph: CitationGraph, card: Row, rows: list[Row]) -> Check:
    """The counts of a sample of papers, by the definition."""
    nodes, there, missing = _in_graph(graph, rows)
    counted = [recount(graph, node, card["labels"]["window"]) for node in nodes.tolist()]
    n_i, n_j, n_k = np.array(counted, np.int64).reshape(-1, 3).T
    columns = {"n_i": n_i, "n_j": n_j, "n_k": n_k, "cd_index": ratio(n_i - n_j, n_i + n_j + n_k)}
    columns |= {"reference_count": graph.reference_counts[nodes], "publication_year": graph.years[nodes]}
    wrong = [f"{row['openalex_id']} is not in the graph" for row in missing]
    looked_at = f"a sample of {len(rows):,} papers, counted again"
    return Check("labels from the graph", looked_at, wrong + _differences(there, columns))


def _labels_from_graph(card: Row, graph: CitationGraph, papers: pa.Table, rows: list[Row]) -> list[Check]:
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


def _novelty_from_graph(card: Row, graph: CitationGraph, papers: pa.Table, rows: list[Row]) -> list[Check]:
    """Novelty scores and labels of all papers, from the stored venues and the same null networks."""
    novelty = card.get("novelty")
    if novelty is None:
        return []
    venues = checked_venues(graph, papers["venue"].to_numpy())
    drawn = (novelty["null"], novelty["samples"], novelty["seed"])
    years = np.unique(graph.years[_in_graph(graph, rows)[0]])
    papers_of = [(int(year), np.flatnonzero(graph.years == year)) for year in years]
    by_year = ((of, *atypicality_of_year(graph, venues, year, of, *drawn)) for year, of in papers_of)
    result = Atypicality.of_years(graph.n_papers, by_year)
    scores = NoveltyScores.of(result, graph.years)
    columns = {"novelty_score": scores.novelty, "conventionality_score": scores.conventionality}
    columns |= {"novelty_label": _none_for_empty(scores.labels), "novelty_withheld": scores.withheld}
    stated = {row[0]: tuple(row) for row in novelty["agreement"]}
    wrong = [
        f"halves of the null networks agree by {row} (year, papers, z10, z_median), the card says {stated.get(row[0])}"
        for row in half_sample_agreement(result, graph.years)
        if row != stated.get(row[0])
    ]
    check = _columns("novelty from the graph", "", graph, rows, columns)
    return [check._replace(wrong=wrong + check.wrong)]


def _columns(name: str, besides: str, graph: CitationGraph, rows: list[Row], columns: dict[str, np.ndarray]) -> Check:
    """The rows hold what was computed again for all papers of the graph."""
    nodes, there, _ = _in_graph(graph, rows)
    wrong = _differences(there, {column: values[nodes] for column, values in columns.items()})
    return Check(name, f"{len(rows):,} papers{besides}", wrong)


def _labels_from_published(folder: Path, card: Row, rows: list[Row]) -> list[Check]:
    """Scores and labels of a source without a graph, from the published columns that were kept beside the dataset."""
    name = "labels from the published columns"
    try:
        is_published, columns, cuts = recomputed_scores(folder, [row["openalex_id"] for row in rows], _rules(card))
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        return [Check(name, "published.parquet", [f"cannot be read: {error}"])]
    columns["novelty_label"] = _none_for_empty(columns["novelty_label"])
    if "novelty" not in card:
        columns = {column: values for column, values in columns.items() if column not in NOVELTY}
    there, missing = _parted(rows, is_published)
    wrong = [f"{row['openalex_id']} is not published" for row in missing]
    return [*_cuts(card, cuts), Check(name, f"{len(rows):,} papers", wrong + _differences(there, columns))]


def _cuts(card: Row, cuts: Cuts) -> list[Check]:
    """The cuts in the card are those of the eligible papers."""
    if card["labels"]["scheme"] != "quantile":
        return []
    stated = _cuts_of(card)
    wrong = [
        f"{name} {year}: the tertiles are cut at {cuts.get((name, year))}, the card says {stated.get((name, year))}"
        for name, year in sorted({*cuts, *stated})
        if cuts.get((name, year)) != stated.get((name, year))
    ]
    return [Check("cuts between tertiles", f"{len(cuts):,} fields and years", wrong)]


def _cuts_of(card: Row) -> Cuts:
    """The cuts between tertiles that a card states, for each field and year."""
    return {(name, year): (low, high) for name, year, low, high in card.get("cuts", [])}


def _rules(card: Row) -> LabelRules:
    return LabelRules(**{part.name: card["labels"][part.name] for part in fields(LabelRules)})


def _in_graph(graph: CitationGraph, rows: list[Row]) -> tuple[np.ndarray, list[Row], list[Row]]:
    """Positions in the graph of the rows that are in it, these rows, and the others."""
    ids, names = np.asarray(graph.node_ids), [row["openalex_id"] for row in rows]
    if ids.dtype.kind in "iu":
        nodes = positions_of(np.array([int(name[1:]) for name in names], np.int64), ids)
    else:
        nodes = positions_of(np.array(names, str), ids)
    return nodes[nodes >= 0], *_parted(rows, nodes >= 0)


def _parted(rows: list[Row], chosen: np.ndarray) -> tuple[list[Row], list[Row]]:
    return [rows[i] for i in np.flatnonzero(chosen)], [rows[i] for i in np.flatnonzero(~chosen)]


def _none_for_empty(labels: np.ndarray) -> np.ndarray:
    texts = labels.astype(object)
    texts[labels == ""] = None
    return texts


def _differences(rows: list[Row], columns: dict[str, np.ndarray]) -> list[str]:
    """Sentences about the values of rows that differ from those that were computed again, arrays with a place a row."""
    again = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [
        f"{row['openalex_id']}: {name} comes out as {value}, the row says {row[name]}"
        for row, values in zip(rows, again, strict=True)
        for name, value in zip(columns, values, strict=True)
        if _differ(value, row[name])
    ]


def _differ(computed: Any, stored: Any) -> bool:
    """Whether two values differ; a NaN is stored as None."""
    if isinstance(computed, float) and computed != computed:
        return stored is not None
    if isinstance(computed, str) or computed is None or stored is None:
        return computed != stored
    return abs(computed - stored) > 1e-9
