"""A made-up OpenAlex snapshot in the layout of 2026: the same works as JSON lines and as parquet."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_NAMED = [("id", pa.string()), ("display_name", pa.string())]
_AUTHOR = pa.struct(
    [
        ("author", pa.struct([*_NAMED, ("orcid", pa.string())])),
        ("institutions", pa.list_(pa.struct([*_NAMED, ("country_code", pa.string())]))),
        ("author_position", pa.string()),
        ("raw_affiliation_strings", pa.list_(pa.string())),
    ]
)
_TOPIC = pa.struct(
    [*_NAMED, ("score", pa.float32()), *((n, pa.struct(_NAMED)) for n in ("subfield", "field", "domain"))]
)
_LOCATION = pa.struct([("is_oa", pa.bool_()), ("source", pa.struct([*_NAMED, ("issn_l", pa.string())]))])
PUBLISHED = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "doi", "title", "display_name", "language", "type")),
        ("publication_year", pa.int32()),
        *((name, pa.string()) for name in ("publication_date", "created_date", "updated_date")),
        *((name, pa.bool_()) for name in ("is_retracted", "is_paratext", "is_xpac")),
        ("cited_by_count", pa.int64()),
        ("primary_location", _LOCATION),
        ("locations", pa.list_(_LOCATION)),
        ("primary_topic", _TOPIC),
        ("topics", pa.list_(_TOPIC)),
        ("authorships", pa.list_(_AUTHOR)),
        ("referenced_works", pa.list_(pa.string())),
        ("related_works", pa.list_(pa.string())),
        ("abstract_inverted_index", pa.string()),
    ]
)
"""Columns as OpenAlex publishes them: abstracts are JSON texts, everything else is nested as in the JSON."""


def published_table(works: Sequence[dict[str, Any]]) -> pa.Table:
    """Works as a table of the parquet format."""
    texts = [{**work, "abstract_inverted_index": _json(work.get("abstract_inverted_index"))} for work in works]
    return pa.Table.from_pylist(texts, PUBLISHED)


def _json(index: Any) -> str | None:
    return None if index is None else json.dumps(index, ensure_ascii=False)


def write_snapshot(root: Path, parts: Iterable[Sequence[dict[str, Any]]]) -> Path:
    """Write ``data/jsonl/works`` and ``data/parquet/works``, one part for each sequence of works; `root`."""
    records: dict[str, dict[str, int]] = {"jsonl": {}, "parquet": {}}
    for at, works in enumerate(parts):
        for kind, suffix in (("jsonl", "gz"), ("parquet", "parquet")):
            name = f"updated_date=2026-06-{at + 1:02}/part_0000.{suffix}"
            part = root / "data" / kind / "works" / name
            part.parent.mkdir(parents=True)
            if kind == "jsonl":
                lines = b"".join(json.dumps(work, ensure_ascii=False).encode() + b"\n" for work in works)
                part.write_bytes(gzip.compress(lines, 6, mtime=0))
            else:
                pq.write_table(published_table(works), part, compression="snappy")
            records[kind][name] = len(works)
    for kind, counts in records.items():
        folder = root / "data" / kind / "works"
        write_manifest(folder, kind, counts)
        (folder / "deleted_ids.csv.gz").write_bytes(gzip.compress(b"work_id,deleted_date\nW9,2026-08-14\n", mtime=0))
    return root


def write_manifest(folder: Path, kind: str, records: Mapping[str, int]) -> None:
    """Write `manifest.json` beside the parts; `records` counts those of each part, by its path in the folder."""
    files = [
        {
            "url": f"s3://openalex/data/{kind}/works/{name}",
            "meta": {"content_length": (folder / name).stat().st_size, "record_count": count},
        }
        for name, count in records.items()
    ]
    (folder / "manifest.json").write_text(json.dumps({"format": kind, "entity": "works", "files": files}))


def made_up_works(first: int, size: int, seed: int = 0, xpac: float = 0.4) -> list[dict[str, Any]]:
    """Records of about the size and the gaps of OpenAlex's, numbered from `first`; a share `xpac` is of that corpus."""
    rng = np.random.default_rng([seed, first])
    syllables = np.array("ba co du fe gi ho ju lan mer nix pol rus tav ex or um".split())
    words = np.array(["".join(rng.choice(syllables, rng.integers(1, 5))) for _ in range(4000)])
    ranks = np.minimum(rng.zipf(1.3, size * 160) - 1, words.size - 1)
    works = []
    for at in range(size):
        number = first + at
        index: dict[str, list[int]] = {}
        text = words[ranks[at * 160 : at * 160 + rng.integers(60, 160)]].tolist() if rng.random() < 0.6 else []
        for position, word in enumerate(text):
            index.setdefault(word, []).append(position)
        cited = rng.integers(1, max(2, number), rng.integers(0, 30)) if rng.random() < 0.6 else []
        title = " ".join(rng.choice(words, rng.integers(4, 16)).tolist()).capitalize()
        source, topic = int(rng.integers(1, 5000)), int(rng.integers(1, 4500))
        named = {
            "id": f"https://openalex.org/T{topic}",
            "display_name": f"{words[topic % 4000]} research",
            "score": 0.9,
        }
        for level, kinds in (("subfield", 250), ("field", 26), ("domain", 4)):
            part = {"id": f"https://openalex.org/{level}s/{topic % kinds}", "display_name": f"{level} {topic % kinds}"}
            named[level] = part
        location = {"is_oa": bool(at % 2), "source": None}
        if rng.random() < 0.8:
            location["source"] = {
                "id": f"https://openalex.org/S{source}",
                "display_name": f"Journal of {words[source % 4000]}",
            }
        year = int(rng.integers(1980, 2026))
        works.append(
            {
                "id": f"https://openalex.org/W{number}",
                "doi": f"https://doi.org/10.5555/{words[at % 4000]}.{number}" if rng.random() < 0.8 else None,
                "title": title,
                "display_name": title,
                "language": "en",
                "type": "article",
                "publication_year": year,
                "publication_date": f"{year}-{rng.integers(1, 13):02}-01",
                "created_date": "2025-10-10",
                "updated_date": "2026-06-01",
                "is_retracted": False,
                "is_paratext": False,
                "is_xpac": bool(rng.random() < xpac),
                "cited_by_count": int(rng.integers(0, 50)),
                "primary_location": location,
                "locations": [location],
                "primary_topic": named,
                "topics": [named] * 3,
                "authorships": [
                    {
                        "author": {
                            "id": f"https://openalex.org/A{5 * number + n}",
                            "display_name": f"A. {words[n]}",
                            "orcid": None,
                        },
                        "institutions": [
                            {"id": f"https://openalex.org/I{n}", "display_name": "A university", "country_code": "CA"}
                        ],
                        "author_position": "middle",
                        "raw_affiliation_strings": ["Department of Departments, A university, A town"],
                    }
                    for n in range(rng.integers(1, 8))
                ],
                "referenced_works": [f"https://openalex.org/W{n}" for n in cited],
                "related_works": [f"https://openalex.org/W{n}" for n in range(number, number + 10)],
                "abstract_inverted_index": index or None,
            }
        )
    return works
