"""Parquet read by columns gives the rows that the plain reader makes of the same records, and the same dataset."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openalex_file import PUBLISHED, made_up_works, published_table, write_snapshot

from scisci_gym.datasets.openalex import parquet_works
from scisci_gym.datasets.openalex.decode import BadRecord, decode_block
from scisci_gym.datasets.openalex.parquet_works import decode_columns
from scisci_gym.datasets.openalex.record import DAMAGE, UnusableWork, work_row
from scisci_gym.datasets.openalex.snapshot import read_works

words = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("\u00a0\u2003\u3000 \t\n")), max_size=12)
texts = st.none() | words | st.sampled_from(["null", "NaN", "N/A", "  ", " A  title", "A title "])
numbers = st.integers(0, 10**18 - 1).map(lambda n: f"https://openalex.org/W{n}")
ids = numbers | st.sampled_from(["w12", "W", "W1x", "", "https://openalex.org/A1", "W１", "W1234567890123456789"])
index = st.dictionaries(words, st.lists(st.integers(0, 40), max_size=4), max_size=8)
records = st.fixed_dictionaries(
    {"id": numbers | st.none() | ids, "publication_year": st.none() | st.integers(1700, 2200)},
    optional={
        "updated_date": st.sampled_from([None, "2005-01-01T00:00:00", "2026-01-31", "", "soon"]),
        "is_xpac": st.none() | st.booleans(),
        "title": texts,
        "display_name": texts,
        "doi": texts | st.sampled_from(["https://doi.org/10.1/ABC", "https://doi.org/10.1/Ä B", "10.2/x", "doi"]),
        "publication_date": st.sampled_from([None, "2000-01-01", " 2000-01-01", ""]),
        "language": texts,
        "type": texts | st.sampled_from(["article", "paratext"]),
        "is_retracted": st.none() | st.booleans(),
        "is_paratext": st.none() | st.booleans(),
        "cited_by_count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "primary_location": st.none()
        | st.fixed_dictionaries({"source": st.none() | st.just({"id": "S1"}) | st.just({"display_name": "A"})}),
        "primary_topic": st.none() | st.just({"field": {"display_name": "Physics"}}) | st.just({"field": None}),
        "authorships": st.none() | st.lists(st.just({"author_position": "first"}), max_size=3),
        "referenced_works": st.none() | st.lists(ids | st.none(), max_size=4),
        "abstract_inverted_index": st.none() | index,
    },
)


def test_the_published_types_are_read_by_columns(monkeypatch):
    monkeypatch.setattr(parquet_works, "decode_rows", None)
    assert len(decode_columns(published_table(made_up_works(1, 9, xpac=0)).to_batches()[0], Counter())) == 9


@given(st.lists(records, max_size=5), st.integers(0, 2))
def test_columns_give_what_the_plain_reader_gives(works, skipped):
    """Also for a batch that is the end of a longer one."""
    expected, reasons = [], Counter()
    for record in works[skipped:]:
        try:
            expected.append(work_row(record))
        except UnusableWork as error:
            reasons[error.reason] += 1
    batch = pa.RecordBatch.from_pylist(published_table(works).to_pylist(), PUBLISHED).slice(skipped)
    dropped: Counter[str] = Counter()
    assert decode_columns(batch, dropped, skip_bad=True).to_pylist() == expected
    assert +dropped == reasons
    if set(reasons) & DAMAGE:
        with pytest.raises(BadRecord) as caught:
            decode_columns(batch, Counter())
        with pytest.raises(UnusableWork, match=re.escape(str(caught.value))):
            work_row(works[skipped:][caught.value.index])


def test_real_works_are_the_same_in_both_formats(real_works):
    with gzip.open(real_works) as stream:
        lines = stream.read()
    table = published_table([json.loads(line) for line in lines.splitlines()])
    dropped, dropped_lines = Counter(), Counter()
    batch = decode_columns(table.to_batches()[0], dropped)
    assert batch.equals(decode_block(lines, dropped_lines))
    assert +dropped == +dropped_lines


def test_both_formats_of_a_snapshot_give_the_same_dataset(tmp_path, command, small_works):
    with gzip.open(next(small_works.rglob("*.gz"))) as stream:
        works = [json.loads(line) for line in stream]
    root = write_snapshot(tmp_path / "snapshot", [works[:900], works[900:]])
    cards = {}
    for name, folder in (("parquet", root), ("jsonl", root / "data" / "jsonl")):
        result = command("build", "snapshot", folder, "--out", tmp_path / name, "--quiet")
        assert result.exit_code == 0, result.output
        cards[name] = json.loads((tmp_path / name / "card.json").read_text())
    assert cards["parquet"]["content_hash"] == cards["jsonl"]["content_hash"]
    assert cards["parquet"]["works_dropped"] == cards["jsonl"]["works_dropped"]


def test_both_formats_hold_the_same_works(tmp_path):
    """Of records with everything in them that OpenAlex has, two fifths of them of the expansion pack."""
    write_snapshot(tmp_path, [made_up_works(1, 300), made_up_works(301, 200)])
    parquet, dropped = read_works(tmp_path, progress=False)
    assert 100 < dropped["xpac"] < 300
    assert max(parquet["authors_count"].to_pylist()) > 4
    assert read_works(tmp_path / "data" / "jsonl", progress=False) == (parquet, dropped)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("publication_date", pa.date32()),
        ("publication_year", pa.int64()),
        ("publication_year", pa.float64()),
        ("id", pa.large_string()),
        ("type", pa.dictionary(pa.int32(), pa.string())),
        ("referenced_works", pa.large_list(pa.string())),
    ],
    ids=str,
)
def test_columns_of_other_types_hold_the_same_works(name, kind):
    table = published_table(made_up_works(1, 50))
    plain = decode_columns(table.to_batches()[0], Counter())
    table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    assert decode_columns(table.to_batches()[0], Counter()).equals(plain)
