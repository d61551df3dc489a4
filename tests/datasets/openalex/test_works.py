"""One OpenAlex record -> one row, or a named reason; the fast reader and the plain one agree on every record."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets.card import REASONS
from scisci_gym.datasets.openalex.decode import BadRecord, decode_block
from scisci_gym.datasets.openalex.inverted_index import abstract_texts, reference_lists
from scisci_gym.datasets.openalex.record import (
    DAMAGE,
    UnusableWork,
    abstract_from_inverted_index,
    normalised_doi,
    reference_numbers,
    work_row,
)
from scisci_gym.datasets.openalex.snapshot import read_works


def work(**fields):
    return {"id": "https://openalex.org/W1", "publication_year": 2000, **fields}


def test_a_bare_record_is_a_row():
    row = work_row(work())
    assert (row["work_id"], row["publication_year"], row["title"], row["abstract"]) == (1, 2000, "", "")
    assert row["venue_id"] == -1
    assert row["referenced_works"] == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([], "not_an_object"),
        ({}, "no_id"),
        (work(id="https://openalex.org/A1"), "no_id"),
        (work(id=17), "no_id"),
        (work(publication_year=None), "no_year"),
        (work(publication_year="2000"), "no_year"),
        (work(publication_year=True), "no_year"),
        (work(publication_year=0), "bad_year"),
        (work(publication_year=2050, updated_date="2026-01-31T00:00:00"), "future_year"),
        (work(publication_year=2150), "bad_year"),
        (work(is_xpac=True), "xpac"),
    ],
)
def test_every_unusable_record_has_a_named_reason(record, reason):
    with pytest.raises(UnusableWork) as error:
        work_row(record)
    assert error.value.reason == reason
    assert reason in REASONS


def test_next_years_papers_are_not_from_the_future():
    assert work_row(work(publication_year=2027, updated_date="2026-12-01"))["publication_year"] == 2027


def test_titles_fall_back_on_the_display_name_and_lose_double_spaces():
    assert work_row(work(title=None, display_name=" A\n title "))["title"] == "A title"


def test_all_ways_of_being_paratext():
    assert work_row(work(is_paratext=True))["is_paratext"]
    assert work_row(work(type="paratext", is_paratext=False))["is_paratext"]


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ({"b": [1], "a": [0]}, "a b"),
        ({"b": [7], "a": [2]}, "a b"),
        ({"a": [0, 2], "b": [1, 1]}, "a b b a"),
        ({"a": [0], "b": [0]}, "a b"),
        ({"a": None, "b": [0], "c": ["1"], "d": [-1], "e": [True]}, "b"),
        ({" ": [0], "": [1], "a  b": [2]}, "a b"),
        ({}, ""),
        (None, ""),
        ("text", ""),
    ],
)
def test_abstracts_with_gaps_repeats_and_nonsense(index, text):
    assert abstract_from_inverted_index(index) == text
    assert abstract_texts([json.dumps(index).encode()]).to_pylist() == [text]


@pytest.mark.parametrize("length", [1, 200, 20_000])
def test_a_word_at_many_positions_takes_more_room_than_its_json(length):
    """Once a write past the end of the buffer, which ended the process; far too much of it is no abstract."""
    index = {"x" * length: list(range(2000))}
    text = " ".join(["x" * length] * 2000) if length < 20_000 else ""
    raw = json.dumps(index).encode()
    assert abstract_texts([raw, b'{"a": [0]}', raw]).to_pylist() == [text, "a", text]
    assert abstract_from_inverted_index(index) == text


def test_line_breaks_inside_words_do_not_take_the_plain_way(monkeypatch):
    """Of abstracts as long as these, one in two hundred has some, and the plain way takes a hundred times as long."""
    monkeypatch.setattr("scisci_gym.datasets.openalex.inverted_index._plain_text", lambda index: 1 / 0)
    index = {"\n": [0], "end.\n\nA": [1], "b\t": [2], "c": [3], "\r\n": [4]}
    assert abstract_texts([json.dumps(index).encode()]).to_pylist() == ["end. A b c"]
    assert abstract_from_inverted_index(index) == "end. A b c"


# Everything a JSON writer may do to a word: escapes, surrogate pairs, all kinds of space, no escapes at all.
characters = st.one_of(
    st.characters(codec="utf-8"), st.sampled_from('"\\/\b\f\n\r\t\u00a0\u2003\u2028\u3000é中😀{}[]:,')
)
words = st.text(characters, max_size=8)
indexes = st.dictionaries(words, st.lists(st.integers(0, 40) | st.integers(65_000, 66_000), max_size=4), max_size=12)


@pytest.mark.parametrize("character", list('a!#"\\/é中\U0001f600'))
def test_words_of_every_length_around_eight_bytes(monkeypatch, character):
    """The kernel takes eight bytes at a time when it looks for the end of a word, sixteen when it copies one."""
    monkeypatch.setattr("scisci_gym.datasets.openalex.inverted_index._plain_text", lambda index: 1 / 0)
    words = [f"{'x' * before}{character}{'y' * after}" for before in range(18) for after in range(18)]
    index = {word: [position] for position, word in enumerate(words)}
    raw = [json.dumps(index, ensure_ascii=ascii_only).encode() for ascii_only in (False, True)]
    assert abstract_texts(raw).to_pylist() == [" ".join(words)] * 2


def test_a_null_is_no_abstract_whatever_bytes_stand_under_it():
    texts = pa.array(['{"a": [0]}', '{"b": [0]}', '{"c": [0]}'])
    column = pa.StringArray.from_buffers(3, *texts.buffers()[1:], pa.py_buffer(b"\x05"))
    assert abstract_texts(column).to_pylist() == ["a", "", "c"]
    assert abstract_texts(column.slice(1)).to_pylist() == ["", "c"]


@given(st.lists(indexes | st.none(), max_size=5), st.booleans(), st.booleans())
def test_the_kernel_reads_abstracts_as_the_plain_reader_does(values, ascii_only, spaced):
    separators = (", ", ": ") if spaced else (",", ":")
    raw = [json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode() for value in values]
    assert abstract_texts(raw).to_pylist() == [abstract_from_inverted_index(value) for value in values]


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_the_kernel_survives_what_is_not_json(raw):
    def plain(value):
        try:
            return abstract_from_inverted_index(orjson.loads(value))
        except orjson.JSONDecodeError:
            return None

    for value, text in zip(raw, abstract_texts(raw).to_pylist(), strict=True):
        assert plain(value) in (text, None)


ids = st.one_of(
    st.integers(0, 10**18 - 1).map(lambda n: f"https://openalex.org/W{n}"),
    st.sampled_from(["w12", "W", "W1x", "", "https://openalex.org/A1", "W１", 'W"1', "W1234567890123456789"]),
    st.none() | st.integers() | words,
)


@given(st.lists(st.lists(ids, max_size=6) | st.none(), max_size=5))
def test_the_kernel_reads_references_as_the_plain_reader_does(values):
    raw = [json.dumps(value).encode() for value in values]
    assert reference_lists(raw).to_pylist() == [reference_numbers(value) for value in values]


odd = st.none() | st.booleans() | st.integers(-5, 3000) | st.floats(allow_nan=False, allow_infinity=False) | words
maybe = {
    "id": st.one_of(st.integers(1, 99).map(lambda n: f"https://openalex.org/W{n}"), odd),
    "publication_year": st.one_of(st.integers(1990, 2020), odd),
    "updated_date": st.sampled_from(["2005-01-01T00:00:00", "2026-01-31", "", "soon"]) | odd,
    "is_xpac": st.booleans() | odd,
    "title": words | odd,
    "display_name": words | odd,
    "doi": st.sampled_from(["https://doi.org/10.1/ABC", "10.2/x y", "doi"]) | odd,
    "publication_date": st.just("2000-01-01") | odd,
    "language": st.just("en") | odd,
    "type": st.sampled_from(["article", "paratext"]) | odd,
    "is_retracted": st.booleans() | odd,
    "is_paratext": st.booleans() | odd,
    "primary_location": st.none() | odd | st.fixed_dictionaries({"source": st.none() | odd | st.just({"id": "S1"})}),
    "primary_topic": st.none() | odd | st.just({"field": {"display_name": "Physics"}}),
    "authorships": st.lists(st.just({"author": {}}), max_size=3) | odd,
    "cited_by_count": st.integers(0, 10**6) | odd,
    "referenced_works": st.lists(ids, max_size=4) | odd,
    "abstract_inverted_index": indexes | odd,
}
records = st.fixed_dictionaries(
    {"id": maybe["id"], "publication_year": maybe["publication_year"]},
    optional={name: value for name, value in maybe.items() if name not in ("id", "publication_year")},
)


@given(st.lists(records, max_size=4))
def test_the_fast_reader_gives_what_the_plain_reader_gives(works):
    expected, reasons = [], Counter()
    for record in works:
        try:
            expected.append(work_row(record))
        except UnusableWork as error:
            reasons[error.reason] += 1
    dropped: Counter[str] = Counter()
    block = b"".join(json.dumps(record).encode() + b"\n" for record in works)
    assert decode_block(block, dropped, skip_bad=True).to_pylist() == expected
    assert dropped == reasons
    if set(reasons) & DAMAGE:
        with pytest.raises(BadRecord) as caught:
            decode_block(block, Counter())
        damaged = works[caught.value.index]
        with pytest.raises(UnusableWork, match=re.escape(str(caught.value))):
            work_row(damaged)


def test_dois_lose_their_resolver():
    assert normalised_doi("https://doi.org/10.1000/ABC ") == normalised_doi("10.1000/abc") == "10.1000/abc"
    assert normalised_doi(None) == normalised_doi("none") == ""


def test_every_real_record_is_kept_or_dropped_for_a_named_reason(real_works):
    with gzip.open(real_works) as stream:
        lines = stream.read().splitlines(keepends=True)
    dropped: Counter[str] = Counter()
    batch = decode_block(b"".join(lines), dropped)
    assert len(batch) + dropped.total() == len(lines) == 859
    assert set(dropped) <= set(REASONS)
    assert not set(dropped) & DAMAGE
    plain = {row["work_id"]: row for row in batch.to_pylist()}
    for line in lines:
        record = json.loads(line)
        row = plain.get(int(record["id"].rsplit("W")[1]))
        if row is not None:
            assert row == work_row(record)


@pytest.mark.parametrize("nothing", ["null", "None", "NaN", "N/A", "", "  ", None])
def test_a_word_for_nothing_is_no_title_abstract_or_name(nothing, tmp_path, snapshot_of):
    """By both roads: the columns of well-formed records, and record by record."""
    work = {
        "id": "W1",
        "publication_year": 2000,
        "title": nothing,
        "doi": nothing,
        "publication_date": nothing,
        "language": nothing,
        "abstract_inverted_index": {nothing: [0]} if isinstance(nothing, str) else nothing,
        "primary_location": {"source": {"id": "S1", "display_name": nothing}},
        "referenced_works": [],
    }
    fast = read_works(snapshot_of(tmp_path, [work]), progress=False)[0].to_pylist()[0]
    for row in (fast, work_row(work)):
        for name in ("title", "doi", "publication_date", "language", "abstract", "venue"):
            assert row[name] == "", name
