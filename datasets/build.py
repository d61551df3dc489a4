"""From works to a dataset on disk: citation graph, labels, papers, splits by time. Every source takes this way."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .card import write_card
from .dataset_folder import dataset_files, dataset_folder, finish, start_over
from .errors import BadInput
from .graph.citation_graph import CitationGraph
from .labels.eligibility import LabelRules, content_checks
from .labels.graph_labels import GraphLabels, NoveltyScores, graph_labels, novelty_of_dataset, save_papers
from .labels.schemes import tertile_cuts
from .near_duplicates import later_copies
from .openalex.notices import title_as_published
from .openalex.works_table import WorksTable, citation_graph
from .paper import Paper, is_hit
from .publication_dates import certainly_before
from .splits import (
    CUTOFF_VIEWS,
    SPLITS,
    SplitYears,
    balanced,
    closed_split_years,
    is_post_cutoff,
    publication_split_years,
)
from .store import read_rows, save_dataset, save_view

__all__ = ["BadInput", "BuildOptions", "NoRoomForSplit", "build_dataset", "citation_graph"]
ROWS_AT_A_TIME = 4096
AS_RECORDED = (
    "title", "abstract", "publication_year", "publication_date", "venue", "authors_count", "doi", "cited_by_count"
)  # fmt: skip
"""Fields of a paper that are columns of the works table."""


class NoRoomForSplit(BadInput):
    """The years of the labelled papers do not allow the kind of split that was asked for."""


@dataclass(frozen=True)
class BuildOptions:
    """How a dataset is cut out of its works.

    Parameters
    ----------
    rules : LabelRules
    split : "closed" | "publication"
        ``closed``: the label windows of training and validation papers close before the first test paper appears.
        ``publication``: by publication year only, with no gap.
    split_years : SplitYears or None
        Fixed years instead of chosen ones. Under ``closed`` they are checked.
    max_references : int >= 0
        Titles of cited papers kept with each paper.
    command : list of str
        The command line that builds this dataset again, for the card.
    extra : dict, or function from the folder to a dict
        Further facts for the card, such as the ceiling of a synthetic corpus, which is computed on its papers.
    novelty : bool
        Whether to compute the atypicality of the venues that papers cite, where venues are known.
    balance_train : bool
        Thin the training set until its labels are equally common. Validation and test keep their natural shares.
    cutoff : date or None
        A model's knowledge cutoff: the test set is also written in two parts, published before it and since.
    seed : int
        Of the thinning and of the null networks behind the novelty scores.
    focal : frozenset of int or None
        Ids of the works whose neighbourhood was collected; no other can carry a label. None: all.
    cut_short : frozenset of int
        Those of them whose neighbourhood was not collected whole; they carry no label either.
    """

    rules: LabelRules = field(default_factory=LabelRules)
    split: str = "closed"
    split_years: SplitYears | None = None
    max_references: int = 20
    command: tuple[str, ...] = ()
    extra: dict[str, Any] | Callable[[Path], dict[str, Any]] = field(default_factory=dict)
    novelty: bool = True
    balance_train: bool = False
    cutoff: date | None = None
    seed: int = 0
    focal: frozenset[int] | None = None
    cut_short: frozenset[int] = frozenset()


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
    rules = options.rules
    graph = citation_graph(works)
    fields = works.categories("field")
    excluded = [*_outside_collection(works, options), *content_checks(works, rules)]
    labels = graph_labels(graph, rules, fields.indices.to_numpy(), excluded=excluded)
    reasons = labels.reasons
    nodes = np.flatnonzero(labels.eligible)

    def described(positions: np.ndarray) -> tuple[list[str], list[str], np.ndarray]:
        texts = works.rows(nodes[positions], ["doi", "title", "publication_date"])
        dates = texts["publication_date"].to_numpy(zero_copy_only=False).astype(str)
        return texts["doi"].to_pylist(), texts["title"].to_pylist(), dates

    positions, split_years = choose_papers(
        works.work_id[nodes],
        works.year[nodes],
        labels.disruption[nodes],
        described,
        reasons,
        options,
        labels.last_complete_year,
    )
    chosen = {name: nodes[of_split] for name, of_split in positions.items()}
    # A collection of neighbourhoods does not hold the papers that a citation count would be compared with.
    percentiles = labels.percentiles if options.focal is None else None
    hit_share = None if percentiles is None else float(is_hit(percentiles[chosen["train"]]).mean())
    novelty = novelty_of_dataset(graph, works.column("venue_id"), options.seed) if options.novelty else None
    papers = _Papers(works, graph, labels, novelty and novelty[0], percentiles, hit_share, options)
    compared = labels.eligible
    facts = {
        "works_read": works.num_rows + sum(dropped.values()),
        "works_in_graph": works.num_rows,
        "works_dropped": _sorted(dropped),
        "citations": asdict(graph.report),
        "not_labelled": _sorted(reasons),
        "labels": {**asdict(rules), "last_complete_year": labels.last_complete_year},
        **cuts_fact(labels.cd[compared], fields.filter(pa.array(compared)).to_pylist(), works.year[compared], rules),
        **({} if hit_share is None else {"hits": {"share_of_train": hit_share}}),
        **({} if novelty is None else {"novelty": novelty[2]}),
        "split": {"kind": options.split, **asdict(split_years)},
    }

    def save_graph(folder: Path) -> None:
        graph.save(folder / "graph")
        cannot = np.logical_or.reduce([failed for _, failed in excluded])
        save_papers(folder / "graph", graph, fields, cannot, novelty and novelty[1])

    return write_dataset(
        out, {name: papers.of(of_split) for name, of_split in chosen.items()}, facts, options, save_graph
    )


def choose_papers(
    ids: np.ndarray,
    years: np.ndarray,
    labels: np.ndarray,
    described: Callable[[np.ndarray], tuple[Sequence[str], Sequence[str], np.ndarray]],
    reasons: Counter[str],
    options: BuildOptions,
    closed_by: int,
) -> tuple[dict[str, np.ndarray], SplitYears]:
    """Drop eligible papers without a label and copies of earlier papers, and split the others by time.

    Parameters
    ----------
    ids, years : int arrays (N,)
        Of the eligible papers.
    labels : str or object array (N,)
        "" for papers of a field and year that is too small for tertiles.
    described : callable
        DOIs, titles and publication dates (str, "" where unknown) of the papers at some positions.
    reasons : Counter
        Counts the papers that are left out, by reason.
    closed_by : int
        Last year that the data covers completely.

    Returns
    -------
    dict from split to int64 array
        Positions of its papers, in publication order.
    SplitYears

    Raises
    ------
    BadInput
        If no paper has a label, or the years leave no room for the split.
    """
    labelled = np.flatnonzero(labels != "")
    reasons["small_field_year"] = labels.size - labelled.size
    if not labelled.size:
        raise BadInput(f"no paper is eligible for a label; left out: {_counted(reasons)}; loosen the label options")
    dois, titles, dates = described(labelled)
    # Publication order decides which of two copies counts as the original.
    order = np.lexsort((ids[labelled], dates, years[labelled]))
    earliest_first: list[int] = order.tolist()
    copies = later_copies([dois[i] for i in earliest_first], [titles[i] for i in earliest_first])
    reasons["copy_of_earlier"] = int(copies.sum())
    papers = labelled[order[~copies]]
    split_years = split_years_for(years[papers], options, closed_by)
    chosen, left = members(years[papers], labels[papers], split_years, options)
    reasons.update(left)
    return {name: papers[of_split] for name, of_split in chosen.items()}, split_years


def write_dataset(
    out: Path,
    papers: dict[str, Iterator[Paper]],
    facts: dict[str, Any],
    options: BuildOptions,
    save_beside: Callable[[Path], object] | None = None,
) -> dict[str, Any]:
    """Write papers, graph and card to `out`, over an earlier dataset; the card, which comes last, is returned.

    Whenever this is cut off, `out` holds the earlier dataset whole, or this one, or none and a note for the next build.

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


def split_years_for(years: np.ndarray, options: BuildOptions, closed_by: int) -> SplitYears:
    """The split years that were asked for, checked, or chosen ones.

    Raises
    ------
    NoRoomForSplit
    """
    window = options.rules.window
    if options.split not in ("closed", "publication"):
        raise ValueError(f"split must be closed or publication, got {options.split!r}")
    if options.split_years is not None:
        fixed = options.split_years
        if options.split == "closed" and fixed.validation_to + window >= fixed.test_from:
            raise BadInput(
                f"label windows of {window} years from {fixed.validation_to} close in {fixed.validation_to + window}, "
                f"but test papers appear from {fixed.test_from}; start the test later, shorten --window, or accept it "
                "with --split publication"
            )
        return fixed
    choose = closed_split_years(years, window) if options.split == "closed" else publication_split_years(years)
    if choose is None:
        raise NoRoomForSplit(
            f"labelled papers of {years.min()}-{years.max()} (windows of {window} years, data complete to {closed_by}) "
            f"leave no room for a {options.split} split; shorten --window, or use --split publication, which lets "
            "training labels see the years of the test papers and says so in the card"
        )
    return choose


def members(
    years: np.ndarray, labels: np.ndarray, split_years: SplitYears, options: BuildOptions
) -> tuple[dict[str, np.ndarray], Counter[str]]:
    """Positions of the papers in each split, ascending, and how many are in none, by reason.

    Raises
    ------
    BadInput
        If a split would be empty.
    """
    of_year = {year: split_years.of(year) for year in np.unique(years).tolist()}
    split = np.array([of_year[year] or "" for year in years.tolist()], dtype=object)
    reasons = Counter({"between_splits": int((split == "").sum())})
    chosen = {name: np.flatnonzero(split == name) for name in SPLITS}
    for name in SPLITS:
        if not chosen[name].size:
            raise BadInput(f"the {name} split is empty with {split_years}; choose other split years")
    if options.balance_train:
        kept = balanced(labels[chosen["train"]].astype(str), options.seed)
        reasons["thinned_out"] = chosen["train"].size - kept.size
        chosen["train"] = chosen["train"][kept]
    return chosen, reasons


def _outside_collection(works: WorksTable, options: BuildOptions) -> list[tuple[str, np.ndarray]]:
    if options.focal is None:
        return []
    ids = works.work_id
    return [
        ("not_focal", ~np.isin(ids, np.array(sorted(options.focal), np.int64))),
        ("neighbourhood_cut", np.isin(ids, np.array(sorted(options.cut_short), np.int64))),
    ]


def cuts_fact(cd: np.ndarray, fields: list[str], years: np.ndarray, rules: LabelRules) -> dict[str, Any]:
    """For the card: the cuts between the tertiles of the eligible papers of every field and year."""
    if rules.scheme != "quantile":
        return {}
    return {"cuts": [[*key, *cut] for key, cut in tertile_cuts(cd, fields, years, rules.min_group).items()]}


def _write_cutoff_views(out: Path, cutoff: date) -> dict[str, Any]:
    before, since = CUTOFF_VIEWS

    def papers(wanted: bool) -> Iterator[Paper]:
        for row in read_rows(out, "test"):
            if is_post_cutoff(row["publication_date"], row["publication_year"], cutoff) is wanted:
                yield Paper.from_row(row)

    return {before: save_view(out, before, papers(False)), since: save_view(out, since, papers(True))}


def _sorted(reasons: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(reasons.items()) if count}


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in reasons.most_common() if count)


@dataclass(frozen=True, eq=False)
class _Papers:
    """Makes `Paper` records of everything that was computed, a few thousand at a time."""

    works: WorksTable
    graph: CitationGraph
    labels: GraphLabels
    novelty: NoveltyScores | None
    percentiles: np.ndarray | None
    hit_share: float | None
    options: BuildOptions

    def of(self, nodes: np.ndarray) -> Iterator[Paper]:
        """The papers at some positions of the graph, in that order."""
        for start in range(0, nodes.size, ROWS_AT_A_TIME):
            part = nodes[start : start + ROWS_AT_A_TIME]
            rows = self.works.rows(part).to_pylist()
            for node, row, titles in zip(part.tolist(), rows, self._reference_titles(part), strict=True):
                yield self._paper(node, row, titles)

    def _paper(self, node: int, row: dict[str, Any], reference_titles: tuple[str, ...]) -> Paper:
        rules, novelty = self.options.rules, self.novelty
        n_i, n_j, n_k = (int(count[node]) for count in self.labels.counts)
        return Paper(
            openalex_id=f"W{row['work_id']}",
            primary_field=row["field"],
            **{name: row[name] for name in AS_RECORDED},
            reference_count=int(self.graph.ref_indptr[node + 1] - self.graph.ref_indptr[node]),
            reference_titles=reference_titles,
            n_i=n_i,
            n_j=n_j,
            n_k=n_k,
            cd_index=float(self.labels.cd[node]),
            disruption_label=str(self.labels.disruption[node]),  # pyright: ignore[reportArgumentType]
            novelty_score=None if novelty is None else known(novelty.novelty[node]),
            conventionality_score=None if novelty is None else known(novelty.conventionality[node]),
            novelty_withheld=novelty is not None and bool(novelty.withheld[node]),
            citation_percentile=None if self.percentiles is None else known(self.percentiles[node]),
            hit_share=self.hit_share,
            label_scheme=rules.scheme,  # pyright: ignore[reportArgumentType]
            cd_window=rules.window,
            cd_threshold=rules.threshold,
        )

    def _reference_titles(self, nodes: np.ndarray) -> list[tuple[str, ...]]:
        """Titles of references that are in the data and certainly appeared before the paper itself.

        A record can hold the reference list of a later version, whose references were not there on the day that the
        prompts speak of and tell who went on working on the paper.
        """
        lists = [self.graph.references(node) for node in nodes.tolist()]
        wanted = np.unique(np.concatenate([nodes, *lists]))
        rows = self.works.rows(wanted, ["title", "publication_date", "publication_year"]).to_pylist()
        row_of = dict(zip(wanted.tolist(), rows, strict=True))

        def earlier_titles(node: int, cited: np.ndarray) -> Iterator[str]:
            day = row_of[node]["publication_date"], row_of[node]["publication_year"]
            for row in map(row_of.__getitem__, cited.tolist()):
                title = title_as_published(row["title"])
                if title and certainly_before(row["publication_date"], row["publication_year"], *day):
                    yield title

        most = self.options.max_references
        return [tuple(islice(earlier_titles(*pair), most)) for pair in zip(nodes.tolist(), lists, strict=True)]


def known(value: float) -> float | None:
    """A number for a `Paper`: None for NaN."""
    return None if value != value else float(value)
