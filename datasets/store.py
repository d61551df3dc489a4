"""A built dataset on disk: parquet files that Hugging Face `datasets` reads, `card.json`, and the citation graph.

::

    OUT/README.md                       the card, for people and for the hub
    OUT/card.json                       the same facts, for programs
    OUT/data/train-00000-of-00001.parquet, validation-..., test-...
    OUT/graph/                          the `CitationGraph` that the labels came from
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict, Features, List, Value

from .paper import Paper
from .splits import SPLITS

FEATURES = Features(
    {
        "openalex_id": Value("string"),
        "title": Value("string"),
        "abstract": Value("string"),
        "publication_year": Value("int32"),
        "cited_by_count": Value("int64"),
        "cd_index": Value("float64"),
        "novelty_score": Value("float64"),
        "conventionality_score": Value("float64"),
        "disruption_label": Value("string"),
        "novelty_label": Value("string"),
        "primary_field": Value("string"),
        "label_scheme": Value("string"),
        "doi": Value("string"),
        "publication_date": Value("string"),
        "venue": Value("string"),
        "authors_count": Value("int32"),
        "reference_count": Value("int32"),
        "reference_titles": List(Value("string")),
        "cd_window": Value("int32"),
        "cd_threshold": Value("float64"),
        "n_i": Value("int64"),
        "n_j": Value("int64"),
        "n_k": Value("int64"),
        "citation_percentile": Value("float64"),
    }
)


def save_dataset(out: Path, papers: Mapping[str, Iterable[Paper]]) -> DatasetDict:
    """Write the splits of a dataset as parquet and return them as a `datasets.DatasetDict`."""
    tables = {name: pa.Table.from_pylist([p.to_row() for p in papers[name]], FEATURES.arrow_schema) for name in SPLITS}
    (out / "data").mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, split_file(out, name), compression="zstd")
    return DatasetDict({name: Dataset(table) for name, table in tables.items()})


def split_file(folder: Path, split: str) -> Path:
    """Where a split's parquet file lies, named as the hub names it."""
    return folder / "data" / f"{split}-00000-of-00001.parquet"


def load_papers(folder: str | Path, split: str) -> list[Paper]:
    """Papers of one split, in publication order.

    Raises
    ------
    FileNotFoundError
        If the folder holds no dataset, or not that split.
    """
    path = split_file(Path(folder), split)
    if not path.is_file():
        raise FileNotFoundError(
            f"no dataset split at {path}; build one with `scisci-gym build ... --out {folder}`, splits are "
            f"{', '.join(SPLITS)}"
        )
    return [Paper.from_row(row) for row in pq.read_table(path).to_pylist()]


def load_dataset_dict(folder: str | Path) -> DatasetDict:
    """All splits as a `datasets.DatasetDict`, straight from the parquet files, without a cache."""
    folder = Path(folder)
    load_card(folder)
    return DatasetDict({name: Dataset(pq.read_table(split_file(folder, name))) for name in SPLITS})


def load_card(folder: str | Path) -> dict[str, Any]:
    """`card.json` of a dataset.

    Raises
    ------
    FileNotFoundError
        If the folder is not a built dataset.
    """
    path = Path(folder) / "card.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a dataset: {path} is missing; build one with `scisci-gym build`")
    return json.loads(path.read_text())


def content_hash(papers: Mapping[str, Iterable[Paper]]) -> str:
    """SHA-256 over every field of every paper of every split, whatever the file format or its version."""
    digest = hashlib.sha256()
    for split in SPLITS:
        digest.update(split.encode() + b"\n")
        for paper in papers[split]:
            digest.update(orjson.dumps(paper.to_row(), option=orjson.OPT_SORT_KEYS) + b"\n")
    return digest.hexdigest()
