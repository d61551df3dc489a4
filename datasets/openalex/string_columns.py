"""Arrow columns of strings, read by their bytes: ids, texts and DOIs of millions of works without a Python object each.

`record.short_id`, `record.text` and `record.normalised_doi` define the values. What is usual is computed by columns; a
value that is not is marked and read the plain way, in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import MatchSubstringOptions, SliceOptions, call_function

from ..jit import kernel
from .inverted_index import is_space, joined
from .record import LONGEST_NOTHING, normalised_doi, text

_RESOLVER = "https://doi.org/"


def id_numbers(column: pa.Array, letter: str = "W") -> np.ndarray:
    """Numbers of OpenAlex ids in a string column, int64 (N,), -1 where there is none.

    Examples
    --------
    >>> id_numbers(pa.array(["https://openalex.org/W42", "w7", "A1", None])).tolist()
    [42, 7, -1, -1]
    """
    numbers = np.empty(len(column), np.int64)
    _read_ids(*joined(column), ord(letter), numbers)
    return numbers


def plain_texts(column: pa.Array) -> pa.Array:
    """`record.text` of every string in a column.

    Examples
    --------
    >>> plain_texts(pa.array(["A theory", " of  everything ", "null", None])).to_pylist()
    ['A theory', 'of everything', '', '']
    """
    column = _without_nulls(column)
    return _mended(column, column, _is_odd(column), text)


def plain_dois(column: pa.Array) -> pa.Array:
    """`record.normalised_doi` of every string in a column.

    Examples
    --------
    >>> plain_dois(pa.array(["https://doi.org/10.1/ABC", "doi:10.2/x", "none", None])).to_pylist()
    ['10.1/abc', '10.2/x', '', '']
    """
    column = _without_nulls(column)
    has_resolver = call_function("starts_with", [column], MatchSubstringOptions(f"{_RESOLVER}10."))
    # Arrow and Python write some letters outside ASCII differently in lower case.
    usual = call_function("and", [has_resolver, call_function("string_is_ascii", [column])])
    usual = call_function("or", [usual, call_function("equal", [column, pa.scalar("")])]).to_numpy(False)
    bare = call_function("utf8_slice_codeunits", [column], SliceOptions(len(_RESOLVER)))
    lower = call_function("ascii_lower", [bare])
    return _mended(column, lower, _is_odd(column) | ~usual, normalised_doi)


def few_values(column: pa.Array, function: Callable[[Any], str] = text) -> pa.Array:
    """`function` of every value of a column with few different ones, computed once for each of these; "" for null.

    Examples
    --------
    >>> few_values(pa.array([" en", "en", None])).to_pylist()
    ['en', 'en', '']
    """
    codes = column.dictionary_encode()
    values = pa.array([function(value) for value in codes.dictionary.to_pylist()], pa.string())
    return _without_nulls(values.take(codes.indices))


def _without_nulls(column: pa.Array) -> pa.Array:
    return call_function("coalesce", [column, pa.scalar("")]) if column.null_count else column


def _mended(column: pa.Array, computed: pa.Array, odd: np.ndarray, function: Callable[[Any], str]) -> pa.Array:
    """`computed`, except where `odd`: there `function` of the value in `column`."""
    if not odd.any():
        return computed
    values = [function(value) for value in column.filter(pa.array(odd)).to_pylist()]
    return call_function("replace_with_mask", [computed, pa.array(odd), pa.array(values, pa.string())])


def _is_odd(column: pa.Array) -> np.ndarray:
    """Where `record.text` could change a string that is not empty: its spaces, or all of it if it is short."""
    odd = np.empty(len(column), np.bool_)
    _mark_odd(*joined(column), LONGEST_NOTHING, odd)
    return odd


@kernel
def _read_ids(raw, starts, ends, letter, numbers):
    for record in range(starts.size):
        begin = starts[record]
        for i in range(ends[record] - 1, begin - 1, -1):
            if raw[i] == 47:
                begin = i + 1
                break
        digits = ends[record] - begin - 1
        number = -1
        # An upper-case or lower-case letter and at most 18 digits, which always fit.
        if 1 <= digits <= 18 and raw[begin] & 0xDF == letter:
            number = 0
            for i in range(begin + 1, ends[record]):
                if not 48 <= raw[i] <= 57:
                    number = -1
                    break
                number = number * 10 + (raw[i] - 48)
        numbers[record] = number


@kernel
def _mark_odd(raw, starts, ends, short, odd):
    for record in range(starts.size):
        i, end = starts[record], ends[record]
        marked = 0 < end - i <= short
        after_space = True
        while i < end and not marked:
            c = raw[i]
            if c == 32:
                marked = after_space
                after_space = True
            else:
                after_space = False
                marked = c < 32 or (0xC2 <= c <= 0xE3 and is_space(raw, i))
            i += 1
        odd[record] = marked or (after_space and end > starts[record])
