"""Does a built dataset hold? Its hash, counts and splits, and everything it says about its papers, computed again.

What lies beside the papers (the citation graph and its `PAPERS`, or the published columns) is what a dataset is held
against. The counts behind the CD index are recomputed with plain sets too, for a sample, not with the kernels that made
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .graph.citation_graph import CitationGraph
from .labels.eligibility import LabelRules
from .labels.graph_labels import PAPERS, graph_labels
from .labels.published import recomputed_scores
from .labels.schemes import conventionality_score, half_sample_agreement, novelty_score, sampled_labels, tertile_cuts
from .near_duplicates import later_copies
from .novelty.atypicality import Atypicality, atypicality_of_year
from .novelty.venue_pairs import checked_venues
from .paper import DISRUPTION_ORDER, Paper, disruption_label, is_hit, side_of
from .positions import positions_of
from .splits import CUTOFF_VIEWS, SPLITS, SplitYears, is_post_cutoff
from .store import Tally, load_card, read_rows, split_file


@dataclass(frozen=True)
class Check:
    """One thing that was checked: its name, what was looked at, and what does not hold (nothing, if all does)."""

    name: str
    looked_at: str
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def verify(folder: Path, *, sample: int = 200, seed: int = 0) -> list[Check]:
    """Check a dataset folder against its own card and graph.

    Parameters
    ----------
    folder : Path
    sample : int
        Papers whose counts and label are computed again; all, if there are fewer.
    seed : int
        Which papers those are.

    Raises
    ------
    FileNotFoundError
        If the folder is not a dataset.
    """
    card = load_card(folder)
    try:
        rows = {name: list(read_rows(folder, name)) for name in SPLITS}
    except (OSError, pa.ArrowInvalid) as error:
        return [Check("files", "the parquet files of the splits", [str(error)])]
    everything = [row for name in SPLITS for row in rows[name]]
    chosen = np.random.default_rng(seed).permutation(len(everything))[:sample]
    sampled = [everything[at] for at in sorted(chosen.tolist())]
    checks = [
        _hash(card, rows),
        _counts(card, rows),
        _papers(card, everything),
        _split_rules(card, rows),
    ]
    if "cutoff" in card:
        checks.append(_views(card, folder, rows["test"]))
    checks.append(_hit_share(card, rows))
    if "citations" not in card:
        return [*checks, *_published(folder, card, everything)]
    try:
        graph = CitationGraph.load(folder / "graph")
        checks += [_graph(card, graph), _counts_again(graph, card, sampled)]
        if not checks[-2].holds:
            # The kernels trust a graph's arrays: one that does not hold together could end the process.
            return checks
        if card.get("source", {}).get("kind") == "openalex":
            checks.append(_collection(folder, card, graph, everything))
        papers = pq.read_table(folder / "graph" / PAPERS)
        return [*checks, *_labels_again(card, graph, papers, everything), *_novelty(card, graph, papers, everything)]
    except (OSError, ValueError, KeyError, IndexError) as error:
        return [*checks, Check("graph", "the stored citation graph", [f"cannot be read: {error}"])]


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


def _hash(card: dict[str, Any], rows: dict[str, list[dict]]) -> Check:
    found = _tally(rows).content_hash
    wrong = (
        [] if found == card["content_hash"] else [f"the papers hash to {found}, the card says {card['content_hash']}"]
    )
    return Check("content hash", f"{sum(map(len, rows.values())):,} papers, every field", wrong)


def _tally(rows: dict[str, list[dict]]) -> Any:
    tally = Tally()
    for name, papers in rows.items():
        tally.start(name)
        tally.add(papers)
    return tally.result()


def _counts(card: dict[str, Any], rows: dict[str, list[dict]]) -> Check:
    found = _tally(rows).splits
    wrong = [
        f"{name} holds {found[name]}, the card says {card['splits'].get(name)}"
        for name in SPLITS
        if found[name] != card["splits"].get(name)
    ]
    return Check("label counts", ", ".join(f"{name} {len(rows[name]):,}" for name in SPLITS), wrong)


def _papers(card: dict[str, Any], rows: list[dict]) -> Check:
    """Every row is a valid `Paper`, and its label follows from its score."""
    rules, wrong = card["labels"], []
    cuts = {(name, year): (low, high) for name, year, low, high in card.get("cuts", [])}
    for row in rows:
        try:
            Paper.from_row(row)
        except ValueError as error:
            wrong.append(f"{row['openalex_id']}: {error}")
            continue
        implied = _label(row, rules, cuts)
        if implied != row["disruption_label"]:
            wrong.append(f"{row['openalex_id']} is {row['disruption_label']}, its cd_index says {implied}")
    return Check("labels follow from scores", f"{len(rows):,} papers", wrong)


def _label(row: dict[str, Any], rules: dict[str, Any], cuts: dict[tuple[str, int], tuple[float, float]]) -> str | None:
    if rules["scheme"] == "threshold":
        return disruption_label(row["cd_index"], rules["threshold"])
    cut = cuts.get((row["primary_field"], row["publication_year"]))
    return None if cut is None else DISRUPTION_ORDER[1 + side_of(row["cd_index"], *cut)]


def _split_rules(card: dict[str, Any], rows: dict[str, list[dict]]) -> Check:
    split, window = card["split"], card["labels"]["window"]
    years = SplitYears(*(split[name] for name in ("train_to", "validation_to", "test_from", "test_to")))
    wrong = [
        f"{row['openalex_id']} of {row['publication_year']} is in {name}"
        for name, papers in rows.items()
        for row in papers
        if years.of(row["publication_year"]) != name
    ]
    if split["kind"] == "closed" and years.validation_to + window >= years.test_from:
        wrong.append(f"label windows reach {years.validation_to + window}, test papers start in {years.test_from}")
    everything = [row for name in SPLITS for row in rows[name]]
    for name, keys in (("id", [row["openalex_id"] for row in everything]),):
        repeated = len(keys) - len(set(keys))
        if repeated:
            wrong.append(f"{repeated} papers share an {name} with another")
    copies = later_copies([row["doi"] for row in everything], [row["title"] for row in everything])
    wrong += [f"{everything[at]['openalex_id']} is a copy of an earlier paper" for at in np.flatnonzero(copies)]
    return Check("splits", "years, closed windows, copies", wrong)


def _views(card: dict[str, Any], folder: Path, test: list[dict]) -> Check:
    cutoff, wrong = date.fromisoformat(card["cutoff"]), []
    for name, wanted in zip(CUTOFF_VIEWS, (False, True), strict=True):
        expected = [
            row for row in test if is_post_cutoff(row["publication_date"], row["publication_year"], cutoff) is wanted
        ]
        found = list(read_rows(folder, name)) if split_file(folder, name).is_file() else []
        if found != expected:
            wrong.append(f"{name} has {len(found):,} papers that are not the {len(expected):,} of the test set")
    return Check("cutoff views", f"before {card['cutoff']} and since", wrong)


def _graph(card: dict[str, Any], graph: CitationGraph) -> Check:
    wrong = []
    if graph.n_papers != card["works_in_graph"] or graph.n_citations != card["citations"]["kept"]:
        wrong.append(
            f"the graph has {graph.n_papers:,} works and {graph.n_citations:,} citations, the card says "
            f"{card['works_in_graph']:,} and {card['citations']['kept']:,}"
        )
    again = CitationGraph.from_edges(*graph.edges(), graph.years)
    for name in ("ref_indptr", "ref_indices", "cit_indptr", "cit_indices"):
        if not np.array_equal(getattr(graph, name), getattr(again, name)):
            wrong.append(f"{name} is not what the citations of the graph give")
    return Check("graph", repr(graph), wrong)


def _collection(folder: Path, card: dict[str, Any], graph: CitationGraph, rows: list[dict]) -> Check:
    """The stored pages of the API give the collection that the card describes."""
    from .openalex.api.replay import collection_differences  # here, because only this source needs pyalex

    wrong = collection_differences(folder, card["source"], graph, rows)
    return Check("collection from the stored pages", f"{card['works_in_graph']:,} works", wrong)


def _counts_again(graph: CitationGraph, card: dict[str, Any], sampled: list[dict]) -> Check:
    window, wrong = card["labels"]["window"], []
    nodes = _nodes(graph, sampled)
    for row, node in zip(sampled, nodes, strict=True):
        if node < 0:
            wrong.append(f"{row['openalex_id']} is not in the graph")
            continue
        n_i, n_j, n_k = recount(graph, node, window)
        cd = (n_i - n_j) / (n_i + n_j + n_k) if n_i + n_j + n_k else float("nan")
        found = (n_i, n_j, n_k, cd, len(graph.references(node)), int(graph.years[node]))
        told = tuple(row[name] for name in ("n_i", "n_j", "n_k", "cd_index", "reference_count", "publication_year"))
        if found != told:
            names = "(n_i, n_j, n_k, cd_index, references, year)"
            wrong.append(f"{row['openalex_id']}: the graph gives {names} = {found}, the row says {told}")
    return Check("labels from the graph", f"a sample of {len(sampled):,} papers, counted again", wrong)


def _nodes(graph: CitationGraph, rows: list[dict]) -> list[int]:
    ids = np.asarray(graph.node_ids)
    return positions_of(np.array([int(row["openalex_id"][1:]) for row in rows], np.int64), ids).tolist()


def _rules(card: dict[str, Any]) -> LabelRules:
    return LabelRules(**{name: card["labels"][name] for name in LabelRules.__dataclass_fields__})


def _labels_again(card: dict[str, Any], graph: CitationGraph, papers: pa.Table, rows: list[dict]) -> list[Check]:
    """Cuts, disruption labels, fields, citation percentiles and hits of all papers."""
    rules, names = _rules(card), papers["field"].cast(pa.string()).to_numpy(zero_copy_only=False).astype(str)
    excluded = papers["excluded"].to_numpy()
    found = graph_labels(graph, rules, names, excluded=[("excluded", excluded)])
    nodes = _nodes(graph, rows)
    labels, percentiles = [], []
    for row, node in zip(rows, nodes, strict=True):
        if node < 0:
            continue
        told = {name: row[name] for name in ("primary_field", "disruption_label")}
        again = {
            "primary_field": names[node],
            "disruption_label": found.disruption[node] if found.eligible[node] else None,
        }
        labels += [f"{row['openalex_id']}: {name} comes out as {again[name]}, the row says {told[name]}"
                   for name in told if again[name] != told[name]]  # fmt: skip
        # A dataset of neighbourhoods has nothing to compare citations with.
        share = found.percentiles[node] if found.percentiles is not None and "hits" in card else float("nan")
        if _differ(float(share), row["citation_percentile"]):
            percentiles.append(
                f"{row['openalex_id']}: citation_percentile comes out as {share:.6g}, the row says "
                f"{row['citation_percentile']}"
            )
    return [
        *_cuts(card, tertile_cuts(found.cd, names, graph.years, rules.min_group, among=found.eligible)),
        Check("disruption labels from the graph", f"{len(rows):,} papers, eligibility and fields too", labels),
        Check("citation percentiles from the graph", f"{len(rows):,} papers", percentiles),
    ]


def _cuts(card: dict[str, Any], found: dict[tuple[str, int], tuple[float, float]]) -> list[Check]:
    """The cuts in the card are those of the eligible papers."""
    if card["labels"]["scheme"] != "quantile":
        return []
    told = {(name, year): (low, high) for name, year, low, high in card.get("cuts", [])}
    wrong = [
        f"{name} {year}: the tertiles are cut at {found.get((name, year))}, the card says {told.get((name, year))}"
        for name, year in sorted({*found, *told})
        if found.get((name, year)) != told.get((name, year))
    ]
    return [Check("cuts between tertiles", f"{len(found):,} fields and years", wrong)]


def _hit_share(card: dict[str, Any], rows: dict[str, list[dict]]) -> Check:
    """Every paper and the card state the share of hits in the training split."""
    train = [row["citation_percentile"] for row in rows["train"]]
    share = None if "hits" not in card else sum(is_hit(p) for p in train if p is not None) / len(train)
    told = {row["hit_share"] for papers in rows.values() for row in papers} | {
        card.get("hits", {}).get("share_of_train")
    }
    wrong = [f"the training papers give {share}, the dataset says {value}" for value in told if _differ(share, value)]
    return Check("share of hits", f"{len(train):,} training papers", wrong)


def _novelty(card: dict[str, Any], graph: CitationGraph, papers: pa.Table, rows: list[dict]) -> list[Check]:
    """Novelty scores and labels of all papers, from the stored venues and the same null networks."""
    novelty = card.get("novelty")
    if novelty is None:
        return []
    venues = checked_venues(graph, papers["venue"].to_numpy())
    nodes = np.array(_nodes(graph, rows))
    drawn = (novelty["null"], novelty["samples"], novelty["seed"])
    years = [(year, np.flatnonzero(graph.years == year)) for year in np.unique(graph.years[nodes[nodes >= 0]]).tolist()]
    result = Atypicality.of_years(
        graph.n_papers, [(of, *atypicality_of_year(graph, venues, year, of, *drawn)) for year, of in years]
    )
    scores = {
        "novelty_score": novelty_score(result.z10, graph.years),
        "conventionality_score": conventionality_score(result.z_median, graph.years),
    }
    labels, withheld = sampled_labels(result, graph.years)
    told = {row[0]: tuple(row) for row in novelty["agreement"]}
    wrong = [
        f"halves of the null networks agree by {row} (year, papers, z10, z_median), the card says {told.get(row[0])}"
        for row in half_sample_agreement(result, graph.years)
        if row != told.get(row[0])
    ]
    for row, node in zip(rows, nodes.tolist(), strict=True):
        if node < 0:
            continue
        again = {
            **{name: float(values[node]) for name, values in scores.items()},
            "novelty_label": labels[node] or None,
            "novelty_withheld": bool(withheld[node]),
        }
        wrong += [
            f"{row['openalex_id']}: {name} comes out as {found}, the row says {row[name]}"
            for name, found in again.items()
            if _differ(found, row[name])
        ]
    return [Check("novelty from the graph", f"{len(rows):,} papers", wrong)]


def _published(folder: Path, card: dict[str, Any], rows: list[dict]) -> list[Check]:
    """For a source without a graph: scores against the published columns that were kept beside the dataset."""
    name = "labels from the published columns"
    try:
        scores, cuts = recomputed_scores(folder, [row["openalex_id"] for row in rows], _rules(card))
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        return [Check(name, "published.parquet", [f"cannot be read: {error}"])]
    # The novelty columns are checked only where the dataset was asked to have them.
    skipped = () if "novelty" in card else ("novelty_score", "conventionality_score", "novelty_label")
    wrong = [
        f"{row['openalex_id']}: {name} is published as {found}, the row says {row[name]}"
        for row in rows
        for name, found in scores.get(row["openalex_id"], {"openalex_id": "missing"}).items()
        if name not in skipped and _differ(found, row[name])
    ]
    return [*_cuts(card, cuts), Check(name, f"{len(rows):,} papers", wrong)]


def _differ(found: Any, told: Any) -> bool:
    if isinstance(found, float) and found != found:
        return told is not None
    if isinstance(found, str) or found is None or told is None:
        return found != told
    return abs(found - told) > 1e-9
