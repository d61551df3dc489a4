"""Made-up SciSciNet: its columns, its gaps, its types, in one file of as many rows as asked for, or as published."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = np.array([f"{a}{b}" for a in "ba co du fe gi ho ju".split() for b in "lan mer nix pol rus tav".split()])
FIELDS = ("Physics", "Biology", "Sociology")
PAPER_COLUMNS = (
    "paperid doi year date doctype cited_by_count is_retracted reference_count citation_count C3 C5 C10 disruption "
    "Atyp_Median_Z Atyp_10pct_Z Atyp_Pairs WSB_mu WSB_sigma WSB_Cinf SB_B SB_T team_size institution_count "
    "patent_count newsfeed_count nct_count nih_count nsf_count"
).split()
"""The 28 columns of the papers' table of SciSciNet-v2."""


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
    assert writer is not None
    assert link_writer is not None
    writer.close()
    link_writer.close()
    return path, links


def write_published(folder: Path, rows: int, seed: int = 0) -> tuple[Path, Path]:
    """Write the tables of SciSciNet-v2 under their names, and in one file what belongs to the papers; both paths.

    The table of titles has another order, papers that are nowhere else, and a second row of some; a tenth has no row.
    """
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    table = _papers(0, rows, rng, abstract_words=10)
    counts = pa.array(rng.integers(0, 30, rows), pa.uint32())
    year = np.nan_to_num(table["year"].to_numpy(), nan=2000).astype(int)
    days = [date(y, 1 + at % 12, 1 + at % 28) if at % 9 else date(y + 1, 1, 1) for at, y in enumerate(year.tolist())]
    kinds = rng.choice(["article", "Journal", "paratext", "editorial", ""], rows, p=[0.6, 0.3, 0.03, 0.03, 0.04])
    found = {
        "date": pa.array(days, pa.date32(), mask=rng.random(rows) < 0.1),
        "doctype": pa.array(kinds, mask=kinds == ""),
        "is_retracted": pa.array(rng.random(rows) < 0.05),
        "team_size": pa.array(rng.integers(1, 9, rows), pa.uint32(), mask=rng.random(rows) < 0.1),
        **{name: table[name].cast(pa.uint32()) for name in ("reference_count", "citation_count", "C5", "C10")},
        **{name: table[name] for name in ("paperid", "doi", "year", "disruption", "Atyp_Median_Z", "Atyp_10pct_Z")},
    }
    papers = pa.table({name: found.get(name, counts) for name in PAPER_COLUMNS})
    texts = table.select(["paperid", "title", "abstract_inverted_index", "language"])
    pq.write_table(papers, folder / "sciscinet_papers.parquet")
    whole = papers
    has_texts = rng.random(rows) < 0.9
    for name in texts.schema.names[1:]:
        values = pa.array(texts[name].to_pylist(), mask=~has_texts)
        whole = whole.append_column(name, values)
    elsewhere = texts.slice(0, 50).set_column(0, "paperid", pa.array([f"W{n}" for n in range(50)]))
    again = texts.filter(pa.array(has_texts)).slice(0, 50).set_column(1, "title", pa.array(["Another title"] * 50))
    shuffled = pa.array(rng.permutation(int(has_texts.sum())))
    order = [texts.filter(pa.array(has_texts)).take(shuffled), elsewhere, again]
    pq.write_table(pa.concat_tables(order), folder / "sciscinet_papertitleabstract.parquet")
    one_file = folder.with_name(f"{folder.name}-in-one.parquet")
    pq.write_table(whole, one_file)
    ids = table["paperid"].to_pylist()
    links = {
        "paperid": [paper for paper in ids for _ in range(3)],
        "fieldid": [f"C{1 + (at + n) % 3}" if n < 2 else f"C{9 + at % 5}" for at in range(rows) for n in range(3)],
        "score_openalex": pa.array(np.round(rng.random(3 * rows), 1), mask=rng.random(3 * rows) < 0.1),
    }
    pq.write_table(pa.table(links), folder / "sciscinet_paperfields.parquet")
    names = {f"C{1 + n}": (name, 0) for n, name in enumerate(FIELDS)} | {
        f"C{9 + n}": (f"Topic {n}", 1) for n in range(5)
    }
    named = {
        "id": [f"https://openalex.org/{field}" for field in names],
        "display_name": [name for name, _ in names.values()],
        "level": pa.array([level for _, level in names.values()], pa.int32()),
        "fieldid": list(names),
    }
    pq.write_table(pa.table(named), folder / "sciscinet_fields.parquet")
    return folder, one_file


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
