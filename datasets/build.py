"""From works to a dataset on disk: citation graph, labels, papers, splits by time, for every source of works."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .atomic_files import scratch_folder
from .card import write_card
from .dataset_folder import dataset_files, dataset_folder, finish, start_over
from .disk_arrays import held
from .disruption.cd_index import disruption_counts
from .errors import BadInput
from .graph.citation_graph import CitationGraph
from .labels.eligibility import LabelRules, content_checks
from .labels.graph_labels import graph_labels, novelty_of_dataset, save_papers
from .labels.schemes import DISRUPTION_NAMES, tertile_cuts
from .near_duplicates import copies_among
from .openalex.mapped_rows import MappedRows
from .openalex.notices import title_as_published
from .openalex.works_table import WorksTable, citation_graph
from .paper import Paper, is_hit
from .splits import (
    CUTOFF_VIEWS,
    NoRoomForSplit,
    SplitYears,
    balanced,
    certainly_before,
    is_post_cutoff,
    split_years_for,
)
from .store import read_rows, save_dataset, save_view

__all__ = ["BadInput", "BuildOptions", "NoRoomForSplit", "build_dataset", "citation_graph"]
ROWS_AT_A_TIME = 4096
AS_RECORDED = (
    "title", "abstract", "publication_year", "publication_date", "venue", "authors_count", "doi", "cited_by_count"
)  # fmt: skip
"""Fields of a paper that are columns of the works table."""


@dataclass(frozen=True)
class BuildOptions:
    """How a dataset is cut out of its works."""

    rules: LabelRules = field(default_factory=LabelRules)
    split: str = "closed"
    """``closed``: the label windows of training and validation papers close before the first test paper appears;
    ``publication``: by publication year only, with no gap."""
    split_years: SplitYears | None = None
    """Fixed years instead of chosen ones. Under ``closed`` they are checked."""
    max_references: int = 20
    """Titles of cited papers kept with each paper."""
    command: tuple[str, ...] = ()
    """The command line that builds this dataset again, for the card."""
    extra: dict[str, Any] | Callable[[Path], dict[str, Any]] = field(default_factory=dict)
    """Further facts for the card, or a function of the folder that computes them from its papers."""
    novelty: bool = True
    """Whether to compute the atypicality of the venues that papers cite, where venues are known."""
    balance_train: bool = False
    """Thin the training set until its labels are equally common. Validation and test keep their natural shares."""
    cutoff: date | None = None
    """A model's knowledge cutoff: the test set is also written in two parts, published before it and since."""
    seed: int = 0
    """Seed of the thinning and of the null networks behind the novelty scores."""
    memory: int | None = None
    """Bytes for counting citing papers and venue pairs, see `disruption_counts` and `atypicality`; the citation graph
    is then on disk. None: all at once, from a graph in memory. The dataset does not depend on it."""
    focal: frozenset[int] | None = None
    """Ids of the works whose neighbourhood was collected; no other can carry a label. None: all."""
    cut_short: frozenset[int] = frozenset()
    """Those of them whose neighbourhood was not collected whole; they carry no label either."""
    excluded: frozenset[int] = frozenset()
    """Ids of works that the source itself says are to carry no label."""


def build_dataset(
    works: pa.Table | WorksTable, dropped: Counter[str], out: Path, options: BuildOptions
) -> dict[str, Any]:
    """Compute labels for a works table, write the dataset to `out`, and return its card.

    Parameters
    ----------
    works : pyarrow.Table with `WORKS_SCHEMA`, or WorksTable; one row per work
    dropped : Counter
        Records that never became a row, by reason; they go into the card.
    out : Path
        Replaced if it holds an earlier dataset.

    Raises
    ------
    BadInput
        If nothing is eligible, or the years leave no room for the split. The message says what would.
    """
    works = works if isinstance(works, WorksTable) else WorksTable.of_table(works)
    with dataset_folder(out), scratch_folder(out / "build") as scratch:
        return _build(works, dropped, out, options, scratch)


def _build(works: WorksTable, dropped: Counter[str], out: Path, options: BuildOptions, scratch: Path) -> dict[str, Any]:
    rules = options.rules
    graph = citation_graph(works, scratch / "graph", options.memory)
    fields = works.categories("field")
    eligible = _Eligible.of(works, graph, fields.indices.to_numpy(), options)
    nodes, computed = eligible.nodes, eligible.computed
    texts = MappedRows(works, nodes, ["doi", "title", "publication_date"], scratch / "eligible.arrow")
    pieces = np.array_split(nodes, nodes.size // ROWS_AT_A_TIME + 1)
    dates = np.concatenate([_sortable(texts.rows(piece)["publication_date"]) for piece in pieces])

    def described(positions: np.ndarray) -> tuple[list[str], list[str]]:
        rows = texts.rows(nodes[positions])
        return rows["doi"].to_pylist(), rows["title"].to_pylist()

    years = works.year[nodes]
    positions, split_years = choose_papers(
        works.work_id[nodes],
        years,
        dates,
        eligible.codes,
        described,
        eligible.reasons,
        options,
        eligible.closed_by,
        scratch,
    )
    venues = works.column("venue_id") if options.novelty else None
    novelty = None if venues is None else novelty_of_dataset(graph, venues, options.seed, options.memory)
    if novelty is None:
        cited_venues, novelty_fact = None, {}
    else:
        cited_venues, novelty_fact = novelty.venues, {"novelty": novelty.facts}
        scores, on_disk = novelty.scores, options.memory is not None
        computed["novelty_score"] = held(scores.novelty[nodes], on_disk)
        computed["conventionality_score"] = held(scores.conventionality[nodes], on_disk)
        computed["novelty_withheld"] = held(scores.withheld[nodes], on_disk)
        del scores
    del novelty
    same: dict[str, Any] = {"label_scheme": rules.scheme, "cd_window": rules.window, "cd_threshold": rules.threshold}
    if "citation_percentile" in computed:
        same["hit_share"] = float(is_hit(computed["citation_percentile"][positions["train"]]).mean())
    facts = {
        "works_read": works.num_rows + sum(dropped.values()),
        "works_in_graph": works.num_rows,
        "works_dropped": _sorted(dropped),
        "citations": asdict(graph.report),
        "not_labelled": _sorted(eligible.reasons),
        "labels": {**asdict(rules), "last_complete_year": eligible.closed_by},
        **cuts_fact(computed["cd_index"], fields.take(pa.array(nodes)), years, rules),
        **({"hits": {"share_of_train": same["hit_share"]}} if "hit_share" in same else {}),
        **novelty_fact,
        "split": {"kind": options.split, **asdict(split_years)},
    }

    def save_graph(folder: Path) -> None:
        graph.save(folder / "graph")
        save_papers(folder / "graph", graph, fields, eligible.cannot, cited_venues)

    shown = _Texts.of_papers(works, graph, nodes[np.concatenate(list(positions.values()))], scratch)
    papers = {
        name: _papers(works, graph, shown, eligible, of_split, same, options.max_references)
        for name, of_split in positions.items()
    }
    return write_dataset(out, papers, facts, options, save_graph)


@dataclass(frozen=True, eq=False)
class _Eligible:
    """The M papers of N works that can carry a label. What is known of the other works is not kept.

    Arrays are in temporary files where the graph is on disk.
    """

    nodes: np.ndarray
    """int64 (M,), ascending."""
    computed: dict[str, np.ndarray]
    """Numbers of `Paper` that follow from the graph: arrays (M,), NaN for None."""
    codes: np.ndarray
    """int8 (M,), disruption labels as places in `DISRUPTION_NAMES`."""
    cannot: np.ndarray
    """bool (N,): works that cannot carry a label for what they are."""
    reasons: Counter[str]
    closed_by: int
    """The last complete year."""

    @classmethod
    def of(cls, works: WorksTable, graph: CitationGraph, fields: np.ndarray, options: BuildOptions) -> _Eligible:
        rules = options.rules
        counts = disruption_counts(graph, rules.window, memory=options.memory)
        excluded = [*_outside_collection(works, options), *content_checks(works, rules)]
        on_disk = options.memory is not None
        labels = graph_labels(graph, rules, fields, excluded=excluded, counts=counts, on_disk=on_disk)
        cannot = np.logical_or.reduce([failed for _, failed in excluded])
        nodes = held(np.flatnonzero(labels.eligible), on_disk)
        over_works = {**dict(zip(("n_i", "n_j", "n_k"), counts, strict=True)), "cd_index": labels.cd}
        # A collection of neighbourhoods does not hold the papers that a citation count would be compared with.
        if labels.percentiles is not None and options.focal is None:
            over_works["citation_percentile"] = labels.percentiles
        over_works["reference_count"] = graph.reference_counts
        computed = {name: held(array[nodes], on_disk) for name, array in over_works.items()}
        codes = labels.cuts.codes(computed["cd_index"], nodes)
        return cls(nodes, computed, codes, cannot, labels.reasons, labels.last_complete_year)


def _sortable(texts: pa.ChunkedArray) -> np.ndarray:
    """Texts of any letters as UTF-8 of a fixed width, which sorts as they do and takes a quarter of their memory."""
    return np.array(texts.cast(pa.binary()).to_pylist(), "S")


def choose_papers(
    ids: np.ndarray,
    years: np.ndarray,
    dates: np.ndarray,
    codes: np.ndarray,
    described: Callable[[np.ndarray], tuple[list[str], list[str]]],
    reasons: Counter[str],
    options: BuildOptions,
    closed_by: int,
    scratch: Path,
) -> tuple[dict[str, np.ndarray], SplitYears]:
    """Drop eligible papers without a label and copies of earlier papers, and split the others by time.

    `ids`, `years`, `dates` and `codes` are arrays (N,) of the eligible papers. Codes are places in `DISRUPTION_NAMES`,
    0 where a field and year is too small for tertiles, and a date is ISO, "" where unknown, as text or bytes.
    ``described(positions)`` gives DOIs and titles and is asked for a few thousand papers at a time. `reasons` counts
    the papers that are left out. The data are complete up to the year `closed_by`. Files are written to the folder
    `scratch` meanwhile.

    Returns the positions of the papers of each split, in publication order, and the years of the splits. Raises
    `BadInput` if no paper has a label, or the years leave no room for the split.
    """
    labelled = np.flatnonzero(codes)
    reasons["small_field_year"] = codes.size - labelled.size
    if not labelled.size:
        left_out = ", ".join(f"{name} {count:,}" for name, count in reasons.most_common() if count)
        raise BadInput(f"no paper is eligible for a label; left out: {left_out}; loosen the label options")
    # Publication order decides which of two copies counts as the original.
    ordered = labelled[np.lexsort((ids[labelled], dates[labelled], years[labelled]))]
    copies = copies_among(ordered.size, lambda places: described(ordered[places]), scratch)
    reasons["copy_of_earlier"] = int(copies.sum())
    papers = ordered[~copies]
    split_years = split_years_for(years[papers], options.split, options.rules.window, options.split_years, closed_by)
    chosen = {name: papers[of_split] for name, of_split in split_years.members(years[papers]).items()}
    reasons["between_splits"] = papers.size - sum(map(len, chosen.values()))
    if options.balance_train:
        kept = balanced(DISRUPTION_NAMES[codes[chosen["train"]]], options.seed)
        reasons["thinned_out"] = chosen["train"].size - kept.size
        chosen["train"] = chosen["train"][kept]
    return chosen, split_years


def write_dataset(
    out: Path,
    papers: dict[str, Iterator[Paper]],
    facts: dict[str, Any],
    options: BuildOptions,
    save_beside: Callable[[Path], object] | None = None,
) -> dict[str, Any]:
    """Write papers, graph and card to `out`, over an earlier dataset; the card, which comes last, is returned.

    If this is cut off, `out` holds the complete earlier dataset, the complete new one, or none and a note for the next
    build.

    Raises
    ------
    BadInput, FolderInUse
        See `dataset_folder`.
    """
    with dataset_folder(out):
        start_over(out, keep=("source",))
        saved = save_dataset(out, papers)
        card = {"format": 1, **facts, "balanced_train": options.balance_train, "splits": saved.splits}
        if options.cutoff is not None:
            card["cutoff"] = options.cutoff.isoformat()
            card["cutoff_views"] = _write_cutoff_views(out, options.cutoff)
        if save_beside is not None:
            save_beside(out)
        extra = options.extra(out) if callable(options.extra) else options.extra
        card |= {"content_hash": saved.content_hash, "command": shlex.join(options.command), **extra}
        card["files"] = dataset_files(out)
        write_card(out, card)
        finish(out)
    return card


def _outside_collection(works: WorksTable, options: BuildOptions) -> list[tuple[str, np.ndarray]]:
    def among(ids: frozenset[int]) -> np.ndarray:
        return np.isin(works.work_id, np.array(sorted(ids), np.int64))

    checks = [("excluded", among(options.excluded))] if options.excluded else []
    if options.focal is not None:
        checks += [("not_focal", ~among(options.focal)), ("neighbourhood_cut", among(options.cut_short))]
    return checks


def cuts_fact(cd: np.ndarray, fields: pa.DictionaryArray, years: np.ndarray, rules: LabelRules) -> dict[str, Any]:
    """For the card: the cuts between the tertiles of the eligible papers of every field and year."""
    if rules.scheme != "quantile":
        return {}
    cuts, names = tertile_cuts(cd, fields.indices.to_numpy(), years, rules.min_group), fields.dictionary.to_pylist()
    return {"cuts": sorted([names[field], year, *cut] for (field, year), cut in cuts.items())}


def _write_cutoff_views(out: Path, cutoff: date) -> dict[str, Any]:
    before, since = CUTOFF_VIEWS

    def papers(wanted: bool) -> Iterator[Paper]:
        for row in read_rows(out, "test"):
            if is_post_cutoff(row["publication_date"], row["publication_year"], cutoff) is wanted:
                yield Paper.from_row(row)

    return {before: save_view(out, before, papers(False)), since: save_view(out, since, papers(True))}


def _sorted(reasons: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(reasons.items()) if count}


@dataclass(frozen=True)
class _Texts:
    """What prompts show of papers, and of the works that they cite."""

    papers: MappedRows
    cited: MappedRows

    @classmethod
    def of_papers(cls, works: WorksTable, graph: CitationGraph, nodes: np.ndarray, folder: Path) -> _Texts:
        wanted = np.zeros(works.num_rows, bool)
        wanted[nodes] = True
        papers = np.flatnonzero(wanted)
        for start in range(0, papers.size, ROWS_AT_A_TIME):
            wanted[np.concatenate(_references(graph, papers[start : start + ROWS_AT_A_TIME]))] = True
        of_cited = ["title", "publication_date", "publication_year"]
        return cls(
            MappedRows(works, papers, [*AS_RECORDED, "field"], folder / "papers.arrow"),
            MappedRows(works, np.flatnonzero(wanted), of_cited, folder / "cited.arrow"),
        )


def _references(graph: CitationGraph, nodes: np.ndarray) -> list[np.ndarray]:
    return [graph.references(node) for node in nodes.tolist()]


def _papers(
    works: WorksTable,
    graph: CitationGraph,
    texts: _Texts,
    eligible: _Eligible,
    positions: np.ndarray,
    same: dict[str, Any],
    max_references: int,
) -> Iterator[Paper]:
    """The eligible papers at some positions, in that order, a few thousand in memory at a time.

    `same` has the fields that do not differ between papers.
    """
    for start in range(0, positions.size, ROWS_AT_A_TIME):
        part = positions[start : start + ROWS_AT_A_TIME]
        nodes = eligible.nodes[part]
        rows, titles = texts.papers.rows(nodes).to_pylist(), _reference_titles(texts, graph, nodes, max_references)
        ids = works.ids(nodes)
        computed = {name: array[part].tolist() for name, array in eligible.computed.items()}
        computed["disruption_label"] = DISRUPTION_NAMES[eligible.codes[part]].tolist()
        for name, row, earlier, *values in zip(ids, rows, titles, *computed.values(), strict=True):
            fields = {column: row[column] for column in AS_RECORDED}
            fields |= {n: None if value != value else value for n, value in zip(computed, values, strict=True)}
            work = {"openalex_id": name, "primary_field": row["field"], "reference_titles": earlier}
            yield Paper(**work, **fields, **same)


def _reference_titles(texts: _Texts, graph: CitationGraph, nodes: np.ndarray, most: int) -> list[tuple[str, ...]]:
    """Titles of references that are in the data and certainly appeared before the paper itself.

    A record can hold the reference list of a later version, whose references were not there on the day that the prompts
    speak of and tell who went on working on the paper.
    """
    lists = _references(graph, nodes)
    wanted = np.unique(np.concatenate([nodes, *lists]))
    rows = texts.cited.rows(wanted).to_pylist()
    row_of = dict(zip(wanted.tolist(), rows, strict=True))

    def earlier_titles(node: int, cited: np.ndarray) -> Iterator[str]:
        day = row_of[node]["publication_date"], row_of[node]["publication_year"]
        for row in map(row_of.__getitem__, cited.tolist()):
            title = title_as_published(row["title"])
            if title and certainly_before(row["publication_date"], row["publication_year"], *day):
                yield title

    return [tuple(islice(earlier_titles(*pair), most)) for pair in zip(nodes.tolist(), lists, strict=True)]


def none_for_nan(value: float) -> float | None:
    """A number for a `Paper`: None for NaN."""
    return None if value != value else float(value)
