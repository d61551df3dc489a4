"""A made-up SciSciNet file: its columns, its gaps, its types; as many rows as asked for, never all in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = np.array([f"{a}{b}" for a in "ba co du fe gi ho ju".split() for b in "lan mer nix pol rus tav".split()])
FIELDS = ("Physics", "Biology", "Sociology")


def write_sciscinet(path: Path, rows: int, seed: int = 0, abstract_words: int = 120) -> tuple[Path, Path]:
    """Write the papers and the paper-field link table; both paths."""
    rng = np.random.default_rng(seed)
    links = path.with_name("fields.parquet")
    writer = link_writer = None
    for first in range(0, rows, 10_000):
        size = min(10_000, rows - first)
        table = _papers(first, size, rng, abstract_words)
        paper_ids = table["paperid"].to_pylist()
        link = pa.table(
            {
                "paperid": [paper for paper in paper_ids for _ in range(2)],
                "fieldid": [f"F{1 + number}" for number in range(2)] * size,
                "display_name": [
                    name for at in range(size) for name in (FIELDS[(first + at) % 3], f"Topic {(first + at) % 50}")
                ],
                "level": pa.array([0, 1] * size, pa.int32()),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        link_writer = link_writer or pq.ParquetWriter(links, link.schema)
        writer.write_table(table)
        link_writer.write_table(link)
    writer.close()
    link_writer.close()
    return path, links


def _papers(first: int, size: int, rng: np.random.Generator, abstract_words: int) -> pa.Table:
    def gaps(values: np.ndarray, share: float) -> pa.Array:
        return pa.array(values, mask=rng.random(size) < share)

    abstracts = []
    for _ in range(size):
        index: dict[str, list[int]] = {}
        for position, word in enumerate(rng.choice(WORDS, abstract_words).tolist()):
            index.setdefault(word, []).append(position)
        abstracts.append(json.dumps(index))
    titles = [" ".join(rng.choice(WORDS, 7).tolist()) + f" {first + at}" for at in range(size)]
    return pa.table(
        {
            "paperid": [f"W{1_000_000 + first + at}" for at in range(size)],
            "doi": gaps(np.array([f"https://doi.org/10.5555/{first + at}" for at in range(size)]), 0.2),
            "year": gaps(rng.integers(1980, 2020, size), 0.001),
            "reference_count": rng.integers(0, 60, size),
            "citation_count": rng.integers(0, 200, size),
            "C5": gaps(rng.integers(0, 60, size).astype(float), 0.05),
            "C10": gaps(rng.integers(0, 90, size).astype(float), 0.05),
            "disruption": gaps(np.clip(rng.normal(0, 0.2, size), -1, 1), 0.1),
            "Atyp_Median_Z": gaps(rng.normal(50, 80, size), 0.2),
            "Atyp_10pct_Z": gaps(rng.normal(-2, 10, size), 0.2),
            "Atyp_Pairs": rng.integers(0, 900, size).astype(float),
            "title": gaps(np.array(titles), 0.001),
            "abstract_inverted_index": gaps(np.array(abstracts), 0.1),
            "language": rng.choice(["en", "de"], size, p=[0.9, 0.1]),
        }
    )
