"""Reading texts for `init-model` from files; nothing else in the engine knows a file format."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def read_texts(corpus: Path, columns: Sequence[str], split: str, limit: int | None = None) -> list[str]:
    """Documents of a corpus, the chosen columns joined by blank lines.

    Parameters
    ----------
    corpus
        A folder with ``{split}-*.parquet`` or ``{split}.parquet`` somewhere below it, or one .parquet, .jsonl or
        .txt file (in a .txt file every line is a document).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing, or no document is left.
    """
    texts = [text for row in _rows(corpus, split) if (text := _join(row, columns, corpus))]
    if not texts:
        raise ValueError(f"{corpus} has no documents in columns {list(columns)}")
    return texts[:limit]


def read_labelled(
    corpus: Path, columns: Sequence[str], label: str, split: str, limit: int | None = None
) -> list[tuple[str, str]]:
    """Documents with a label; those without one are left out."""
    pairs = []
    for row in _rows(corpus, split):
        if label not in row:
            raise ValueError(f"{corpus} has no column {label!r}; it has {sorted(row)}")
        if row[label] is not None and (text := _join(row, columns, corpus)):
            pairs.append((text, str(row[label])))
    return pairs[:limit]


def _rows(corpus: Path, split: str) -> Iterator[dict[str, Any]]:
    if corpus.is_dir():
        files = sorted([*corpus.rglob(f"{split}-*.parquet"), *corpus.rglob(f"{split}.parquet")])
        if not files:
            raise FileNotFoundError(f"no {split}-*.parquet under {corpus}")
        for file in files:
            yield from pq.read_table(file).to_pylist()
        return
    if not corpus.is_file():
        raise FileNotFoundError(f"{corpus} does not exist")
    if corpus.suffix == ".parquet":
        yield from pq.read_table(corpus).to_pylist()
    elif corpus.suffix in (".jsonl", ".json"):
        yield from (json.loads(line) for line in corpus.read_text().splitlines() if line.strip())
    else:
        yield from ({"text": line} for line in corpus.read_text().splitlines() if line.strip())


def _join(row: dict[str, Any], columns: Sequence[str], corpus: Path) -> str:
    chosen = [c for c in columns if c in row] or (["text"] if "text" in row else [])
    if not chosen:
        raise ValueError(f"{corpus} has none of the columns {list(columns)}; it has {sorted(row)}")
    return "\n\n".join(str(row[c]).strip() for c in chosen if row[c])
