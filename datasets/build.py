"""Works table -> citation graph -> labels -> papers -> splits by time -> dataset on disk. One road for every source."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .card import write_card
from .disruption import disruption_counts
from .graph import CitationGraph
from .labelling import LabelRules, eligibility, label_papers, last_complete_year
from .paper import DISRUPTION_LABELS, Paper
from .snapshot import BadInput
from .splits import SPLITS, SplitYears, closed_split_years, later_copies, publication_split_years
from .store import content_hash, save_dataset


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
    extra : dict
        Further facts for the card, such as the ceiling of a synthetic corpus.
    """

    rules: LabelRules = field(default_factory=LabelRules)
    split: str = "closed"
    split_years: SplitYears | None = None
    max_references: int = 20
    command: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


def citation_graph(works: pa.Table) -> CitationGraph:
    """Citation graph of a works table; node ``p`` is row ``p``, references to works that are not there are counted."""
    ids = works["work_id"].to_numpy()
    order = np.argsort(ids, kind="stable")
    referenced = works["referenced_works"].combine_chunks()
    cited_ids = referenced.flatten().to_numpy()
    citing = np.repeat(np.arange(len(ids), dtype=np.int32), referenced.value_lengths().to_numpy())
    place = np.minimum(np.searchsorted(ids, cited_ids, sorter=order), len(ids) - 1)
    found = order[place]
    cited = np.where(ids[found] == cited_ids, found, -1).astype(np.int32)
    return CitationGraph.from_edges(citing, cited, works["publication_year"].to_numpy(), ids)


def build_dataset(works: pa.Table, dropped: Counter[str], out: Path, options: BuildOptions) -> dict[str, Any]:
    """Compute labels for a works table, write the dataset to `out`, and return its card.

    Parameters
    ----------
    works : pyarrow.Table
        With `WORKS_SCHEMA`, one row per work.
    dropped : Counter
        Records that never became a row, by reason; they go into the card.
    out : Path
        Replaced if it holds an earlier dataset.

    Raises
    ------
    BadInput
        If nothing is eligible, or the years leave no room for the split. The message says what would.
    """
    rules = options.rules
    graph = citation_graph(works)
    n_i, n_j, n_k = disruption_counts(graph, rules.window)
    total = n_i + n_j + n_k
    cd = np.divide(n_i - n_j, total, out=np.full(len(total), np.nan), where=total > 0)
    years = works["publication_year"].to_numpy()
    closed_by = rules.last_complete_year or last_complete_year(years)
    eligible, reasons = eligibility(works, cd, graph.reference_counts, n_i + n_j, rules, closed_by)
    focal = np.flatnonzero(eligible)
    fields = works["field"].take(pa.array(focal)).to_pylist()
    labels, unlabelled = label_papers(cd[focal], years[focal], fields, rules)
    reasons.update(unlabelled)
    given = np.array([label is not None for label in labels], dtype=bool)
    focal, labels = focal[given], labels[given]
    if not len(focal):
        raise BadInput(f"no paper is eligible for a label; left out: {_counted(reasons)}; loosen the label options")

    # Publication order decides which of two copies counts as the original.
    dates = works["publication_date"].take(pa.array(focal)).to_pylist()
    ids = works["work_id"].to_numpy()
    order = sorted(range(len(focal)), key=lambda at: (years[focal[at]], dates[at], ids[focal[at]]))
    focal, labels = focal[order], labels[order]
    rows = works.take(pa.array(focal)).to_pylist()
    copies = later_copies([row["doi"] for row in rows], [row["title"] for row in rows])
    reasons["copy_of_earlier"] = int(copies.sum())

    split_years = _split_years(years[focal[~copies]], options, closed_by)
    papers: dict[str, list[Paper]] = {name: [] for name in SPLITS}
    titles = _ReferenceTitles(works, graph, years, options.max_references)
    for at, row in enumerate(rows):
        split = split_years.of(row["publication_year"])
        if copies[at]:
            continue
        if split is None:
            reasons["between_splits"] += 1
            continue
        node = int(focal[at])
        papers[split].append(
            Paper(
                openalex_id=f"W{row['work_id']}",
                title=row["title"],
                abstract=row["abstract"],
                publication_year=row["publication_year"],
                cited_by_count=row["cited_by_count"],
                cd_index=float(cd[node]),
                disruption_label=labels[at],
                primary_field=row["field"],
                label_scheme=rules.scheme,
                doi=row["doi"],
                publication_date=row["publication_date"],
                venue=row["venue"],
                authors_count=row["authors_count"],
                reference_count=int(graph.reference_counts[node]),
                reference_titles=titles.of(node),
                cd_window=rules.window,
                cd_threshold=rules.threshold,
                n_i=int(n_i[node]),
                n_j=int(n_j[node]),
                n_k=int(n_k[node]),
            )
        )
    for name in SPLITS:
        if not papers[name]:
            raise BadInput(f"the {name} split is empty with {split_years}; choose other split years")

    card = {
        "format": 1,
        "works_read": works.num_rows + sum(dropped.values()),
        "works_in_graph": works.num_rows,
        "works_dropped": dict(sorted(dropped.items())),
        "citations": asdict(graph.report),
        "not_labelled": dict(sorted((name, count) for name, count in reasons.items() if count)),
        "labels": {**asdict(rules), "last_complete_year": closed_by},
        "split": {"kind": options.split, **asdict(split_years)},
        "splits": {name: _share(papers[name]) for name in SPLITS},
        "content_hash": content_hash(papers),
        "command": shlex.join(options.command),
        **options.extra,
    }
    if (out / "data").exists():
        shutil.rmtree(out / "data")
    save_dataset(out, papers)
    graph.save(out / "graph")
    write_card(out, card)
    return card


def _split_years(years: np.ndarray, options: BuildOptions, closed_by: int) -> SplitYears:
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


def _share(papers: list[Paper]) -> dict[str, Any]:
    counts = Counter(paper.disruption_label for paper in papers)
    span = [min(p.publication_year for p in papers), max(p.publication_year for p in papers)]
    return {"papers": len(papers), "years": span, "labels": {label: counts[label] for label in DISRUPTION_LABELS}}


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in reasons.most_common() if count)


class _ReferenceTitles:
    """Titles of a paper's references that are in the data and not of a later year than the paper itself."""

    def __init__(self, works: pa.Table, graph: CitationGraph, years: np.ndarray, limit: int):
        self.titles, self.graph, self.years, self.limit = works["title"], graph, years, limit

    def of(self, node: int) -> tuple[str, ...]:
        if not self.limit:
            return ()
        cited = self.graph.references(node)
        cited = cited[self.years[cited] <= self.years[node]][: self.limit]
        return tuple(title for at in cited.tolist() if (title := self.titles[at].as_py()))
