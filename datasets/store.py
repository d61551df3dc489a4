"""A built dataset on disk: parquet files that Hugging Face `datasets` reads, `card.json`, and the citation graph.

::

    OUT/README.md                       the card, for people and for the hub
    OUT/card.json                       the same facts, for programs
    OUT/data/train-00000-of-00001.parquet, validation-..., test-...
    OUT/graph/                          the `CitationGraph` that the labels came from, and `papers.parquet` beside it
    OUT/works/                          the works themselves, as parquet shards (snapshot and API)
    OUT/label_changes.csv               papers with another label than before the last `data update`
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features, List, Value

from .errors import BadInput, read_json
from .paper import COLUMNS, DISRUPTION_LABELS, NOVELTY_LABELS, Paper
from .splits import CUTOFF_VIEWS, SPLITS

FEATURES = Features(
    {
        name: List(Value("string")) if column.stored == "list<string>" else Value(column.stored)
        for name, column in COLUMNS.items()
    }
)
ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Saved:
    """What was written: SHA-256 over every field of every paper, and what each split holds."""

    content_hash: str
    splits: dict[str, dict[str, Any]]


def save_dataset(out: Path, papers: Mapping[str, Iterable[Paper]]) -> Saved:
    """Write the splits of a dataset as parquet, in one pass and bounded memory.

    Parameters
    ----------
    out : Path
    papers : mapping from split to papers in publication order
        Iterables are taken one after the other, in the order of `SPLITS`.
    """
    (out / "data").mkdir(parents=True, exist_ok=True)
    tally = Tally()
    for split in SPLITS:
        tally.start(split)
        with pq.ParquetWriter(split_file(out, split), FEATURES.arrow_schema, compression="zstd") as writer:
            source = iter(papers[split])
            while rows := [paper.to_row() for paper in islice(source, ROWS_AT_A_TIME)]:
                tally.add(rows)
                writer.write_table(pa.Table.from_pylist(rows, FEATURES.arrow_schema))
    return tally.result()


def save_view(out: Path, view: str, papers: Iterable[Paper]) -> dict[str, Any]:
    """Write a further split that repeats papers of another one; what it holds. No file where it is empty."""
    rows = [paper.to_row() for paper in papers]
    tally = Tally()
    tally.start(view)
    tally.add(rows)
    if rows:
        pq.write_table(pa.Table.from_pylist(rows, FEATURES.arrow_schema), split_file(out, view), compression="zstd")
    return tally.result().splits[view]


class Tally:
    """Hash and counts of rows that go by, split after split."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._splits: dict[str, dict[str, Any]] = {}

    def start(self, split: str) -> None:
        """The rows that follow belong to `split`."""
        self._digest.update(split.encode() + b"\n")
        counts = {"papers": 0, "years": [], "with_venue": 0, "labels": Counter(), "novelty": Counter()}
        self._current = self._splits[split] = counts

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Count rows of `Paper.to_row`."""
        current = self._current
        for row in rows:
            self._digest.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) + b"\n")
            current["papers"] += 1
            years = [*current["years"], row["publication_year"]]
            current["years"] = [min(years), max(years)]
            current["with_venue"] += bool(row["venue"])
            current["labels"][row["disruption_label"]] += 1
            current["novelty"][row["novelty_label"]] += 1

    def result(self) -> Saved:
        """Hash and, per split: papers, span of years, papers per label."""
        splits = {}
        for name, counts in self._splits.items():
            novelty = counts["novelty"]
            splits[name] = {key: counts[key] for key in ("papers", "years", "with_venue")}
            splits[name]["labels"] = {label: counts["labels"][label] for label in DISRUPTION_LABELS}
            if novelty.total() > novelty[None]:
                splits[name]["novelty_labels"] = {label: novelty[label] for label in NOVELTY_LABELS}
                splits[name]["novelty_labels"]["unknown"] = novelty[None]
        return Saved(self._digest.hexdigest(), splits)


def read_rows(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """Rows of a split, one batch in memory at a time. Raises `BadInput` if its file is damaged."""
    path = split_file(folder, split)
    with _damage_named(path), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_AT_A_TIME):
            yield from batch.to_pylist()


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        what = str(error).rstrip(".")
        raise BadInput(f"{path} is damaged: {what}; build the dataset again") from error


def split_file(folder: Path, split: str) -> Path:
    """Where a split's parquet file lies, named as the hub names it."""
    return folder / "data" / f"{split}-00000-of-00001.parquet"


def load_papers(folder: str | Path, split: str) -> list[Paper]:
    """Papers of one split, in publication order.

    Raises `FileNotFoundError` if the folder holds no dataset, or not that split, and `BadInput` if the file is damaged.
    """
    path = split_file(Path(folder), split)
    if not path.is_file():
        there = sorted(file.name.partition("-00000-")[0] for file in path.parent.glob("*-00000-*.parquet"))
        if there:
            raise FileNotFoundError(f"the dataset {folder} has no split {split!r}; it has {', '.join(there)}")
        raise FileNotFoundError(
            f"no dataset split at {path}; build one with `scisci-gym build ... --out {folder}`, splits are "
            f"{', '.join(SPLITS)}, and {' and '.join(CUTOFF_VIEWS)} where there is a --cutoff"
        )
    with _damage_named(path):
        rows = pq.read_table(path).to_pylist()
    return [Paper.from_row(row) for row in rows]


def load_card(folder: str | Path, needs: Mapping[str, type] | None = None) -> dict[str, Any]:
    """`card.json` of a dataset.

    Raises `FileNotFoundError` if the folder is not a built dataset, and `BadInput` if the card is damaged or lacks a
    key of `needs`; see `read_json`.
    """
    path = Path(folder) / "card.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a dataset: {path} is missing; build one with `scisci-gym build`")
    return read_json(path, "build the dataset again", needs)
