"""Checks of a built dataset: its hash, counts and splits, and every label and score, computed again.

A dataset is compared with what lies beside its papers: the citation graph and its `PAPERS`, or the published columns.
For a sample of papers the counts behind the CD index are also computed with plain sets, without the kernels.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from .errors import BadInput
from .graph.citation_graph import CitationGraph
from .labels.graph_labels import PAPERS
from .near_duplicates import later_copies
from .openalex.shards import part_names, written_works
from .paper import DISRUPTION_ORDER, Paper, disruption_label, is_hit, side_of
from .splits import CUTOFF_VIEWS, SPLITS, SplitYears, is_post_cutoff
from .store import Tally, load_card, read_rows, split_file
from .title_changes import scrambled_titles
from .verify_labels import (
    Check,
    Row,
    cuts_of,
    differ,
    labels_from_graph,
    labels_from_published,
    novelty_from_graph,
    recounted,
)

CARD = {"content_hash": str, "splits": dict, "split": dict, "labels": dict, "not_labelled": dict, "works_in_graph": int}
"""What the checks need of a card, whatever its source."""


def verify(folder: Path, *, sample: int = 200, seed: int = 0, previous: Path | None = None) -> list[Check]:
    """Check a dataset folder against its own card and graph.

    Parameters
    ----------
    sample : int
        Papers whose counts are computed again with sets; all, if there are fewer.
    seed : int
        Which papers those are.
    previous : Path, optional
        An earlier build. Its titles are compared with those of this one; see `scrambled_titles`.

    Raises
    ------
    FileNotFoundError
        If the folder is not a dataset.
    BadInput
        If its card is damaged, or works were to be compared with those of `previous` and are not there.
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
        return [*checks, *labels_from_published(folder, card, rows)]
    try:
        graph = CitationGraph.load(folder / "graph")
        graph_check = _graph(card, graph)
        checks.append(graph_check)
        chosen = np.sort(np.random.default_rng(seed).permutation(len(rows))[:sample])
        checks.append(recounted(graph, card, [rows[i] for i in chosen]))
        # The kernels trust the arrays of a graph: inconsistent ones could end the process.
        if graph_check.holds:
            if card.get("source", {}).get("kind") == "openalex":
                checks.append(_collection(folder, card, graph, rows))
            papers = pq.read_table(folder / "graph" / PAPERS)
            checks += [*labels_from_graph(card, graph, papers, rows), *novelty_from_graph(card, graph, papers, rows)]
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
    rules, cuts, wrong = card["labels"], cuts_of(card), []
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
    wrong = [f"the training papers give {share}, the dataset says {value}" for value in stated if differ(share, value)]
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
    from .openalex.api.replay import collection_differences  # here, because only this source needs pyalex

    wrong = collection_differences(folder, card["source"], graph, rows)
    return Check("collection from the stored pages", f"{card['works_in_graph']:,} works", wrong)
