"""Abstracts and reference lists straight from JSON bytes to Arrow columns, for millions of works at a time.

`record.abstract_from_inverted_index` defines the abstract. The kernels compute the same from the bytes of the JSON,
without a Python object for each word. They mark records that are unusual, and those are read the plain way, in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyarrow.compute import call_function

from ..jit import inlined, kernel
from .record import LONGEST_ABSTRACT, abstract_from_inverted_index, reference_numbers

# Longest abstract the kernel lays out; OpenAlex has longer ones, very few, and those take the plain way.
MAX_POSITION = 1 << 16
# Zeros after the last value: they end every scan, and cover what is read ahead of the place that a scan has reached.
_GUARD = b"\0" * 16
_GUARD_SIZE = len(_GUARD)
# Eight bytes in one number: 1 in each, and the highest bit of each.
_ONES = 0x0101010101010101
_HIGHEST = ~0x7F7F7F7F7F7F7F7F
# Of a signed index numba asks each time whether it counts from the end.
at = np.uint64
QUOTE, BACKSLASH, SLASH, COMMA, COLON, N_OF_NULL = (ord(character) for character in '"\\/,:n')
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = (ord(character) for character in "[]{}")


def abstract_texts(indexes: Sequence[bytes] | pa.Array) -> pa.Array:
    """Texts of `abstract_inverted_index` values.

    Parameters
    ----------
    indexes : sequence of bytes-like, or string array
        JSON of each value: an object from word to positions, or ``null``. What is not JSON counts as no abstract.
        2 GiB or more, more than one Arrow column of texts holds, raise `ValueError`.

    Returns
    -------
    pyarrow string array
        "" where there is no abstract.

    Examples
    --------
    >>> abstract_texts([b'{"of": [1], "theory": [0], "all": [2]}', b"null"]).to_pylist()
    ['theory of all', '']
    """
    raw, starts, ends = joined(indexes)
    head, tail, following = (np.full(MAX_POSITION, -1, np.int32) for _ in range(3))
    spans = np.empty((2, MAX_POSITION), np.int64)
    out = np.empty(raw.size, np.uint8)
    offsets = np.zeros(len(indexes) + 1, np.int32)
    odd = np.zeros(len(indexes), np.bool_)
    _lay_out(
        raw, _eights(raw), starts, ends, head, tail, following, spans[0], spans[1], out, _eights(out), offsets[1:], odd
    )
    column = pa.StringArray.from_buffers(len(indexes), pa.py_buffer(offsets), pa.py_buffer(out[: offsets[-1]]))
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        odd[:] = True
    if not odd.any():
        return column
    texts = [_plain_text(raw[starts[row] : ends[row]].tobytes()) for row in np.flatnonzero(odd).tolist()]
    return call_function("replace_with_mask", [column, pa.array(odd), pa.array(texts, pa.string())])


def _plain_text(index: bytes) -> str:
    try:
        return abstract_from_inverted_index(orjson.loads(index))
    except orjson.JSONDecodeError:
        return ""


def reference_lists(lists: Sequence[bytes]) -> pa.Array:
    """Numbers of the works in `referenced_works` values.

    Parameters
    ----------
    lists : sequence of bytes-like
        JSON of each value: an array of OpenAlex ids, or ``null``. What is not JSON, or 2 GiB or more of it, raise
        `ValueError`.

    Returns
    -------
    pyarrow list<int64> array
        Entries that are not work ids are left out, as in `record.reference_numbers`.

    Examples
    --------
    >>> reference_lists([b'["https://openalex.org/W7", "W12"]', b"null"]).to_pylist()
    [[7, 12], []]
    """
    raw, starts, ends = joined(lists)
    numbers = np.empty(raw.size // 4 + 1, np.int64)
    offsets = np.zeros(len(lists) + 1, np.int32)
    if not _numbers(raw, starts, ends, numbers, offsets[1:]):
        return pa.array([reference_numbers(orjson.loads(bytes(value))) for value in lists], pa.list_(pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers[: offsets[-1]]))


def joined(values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All values in one array of bytes, with room to look ahead at its end, and where each starts and ends. A null of a
    string array is empty."""
    if isinstance(values, pa.Array):
        _, offsets, data = values.buffers()
        places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        content = np.frombuffer(data or b"", np.uint8)[places[0] : places[-1]]
        places -= places[0]
        ends = np.where(values.is_valid(), places[1:], places[:-1]) if values.null_count else places[1:]
        return np.concatenate([content, np.frombuffer(_GUARD, np.uint8)]), places[:-1], ends
    lengths = np.fromiter(map(len, map(memoryview, values)), np.int64, len(values))
    ends = np.cumsum(lengths)
    if lengths.sum() > np.iinfo(np.int32).max - len(_GUARD):
        raise ValueError(f"{lengths.sum():,} bytes of JSON in {len(values):,} values; pass less than 2 GiB at a time")
    return np.frombuffer(b"".join([*values, _GUARD]), np.uint8), ends - lengths, ends


def _eights(data: np.ndarray) -> np.ndarray:
    """The eight bytes from every place of `data` on, as one number each, so that kernels take eight at a time."""
    return np.ndarray(data.size - 7, np.int64, data, strides=(1,))


@kernel
def _hex4(raw, i):
    value = 0
    for index in range(i, i + 4):
        c = raw[index]
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= c <= 102:
            digit = c - 87
        elif 65 <= c <= 70:
            digit = c - 55
        else:
            return -1
        value = value * 16 + digit
    return value


@kernel
def is_space(raw, i):
    """Whether a UTF-8 sequence at `i` is one that `str.split` takes for a space (or for a line break)."""
    c, d, e = raw[at(i)], raw[at(i + 1)], raw[at(i + 2)]
    if c == 0xC2:
        return d == 0x85 or d == 0xA0
    if c == 0xE2:
        return (d == 0x80 and (e <= 0x8A or e == 0xA8 or e == 0xA9 or e == 0xAF)) or (d == 0x81 and e == 0x9F)
    return (c == 0xE3 and d == 0x80 and e == 0x80) or (c == 0xE1 and d == 0x9A and e == 0x80)


@kernel
def _unescape(raw, begin, end, out, w, first):
    """Copy a JSON string without its escapes to `w`, behind the text that begins at `first`; the new end.

    Escaped line breaks and tabs become one space, as between words. -1 if an escape is another space or half of a
    character.
    """
    i = begin
    while i < end:
        c = raw[i]
        if c != 92:
            out[w] = c
            w += 1
            i += 1
            continue
        c = raw[i + 1]
        if c == 34 or c == 92 or c == 47:
            out[w] = c
            w += 1
            i += 2
            continue
        if c == 110 or c == 114 or c == 116:
            if w > first and out[w - 1] != 32:
                out[w] = 32
                w += 1
            i += 2
            continue
        if c != 117:
            return -1
        code = _hex4(raw, i + 2)
        i += 6
        if 0xD800 <= code < 0xDC00 and raw[i] == 92 and raw[i + 1] == 117:
            low = _hex4(raw, i + 2)
            i += 6
            if not 0xDC00 <= low < 0xE000:
                return -1
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        if code <= 32 or 0xD800 <= code < 0xE000:
            return -1
        if code < 0x80:
            out[w] = code
            w += 1
            continue
        # UTF-8: the first byte says in its high bits how many bytes with six bits each follow.
        start, following = w, 1 if code < 0x800 else 2 if code < 0x10000 else 3
        out[w] = (0x100 - (0x80 >> following)) | (code >> 6 * following)
        for k in range(following - 1, -1, -1):
            w += 1
            out[w] = 0x80 | ((code >> 6 * k) & 63)
        w += 1
        if following < 3 and is_space(out, start):
            return -1
    return w


@inlined
def _skip(raw, i, end, separator):
    """Index of the first byte from `i` on that is neither white space nor `separator`."""
    while i < end and (raw[at(i)] <= 32 or raw[at(i)] == separator):
        i += 1
    return i


@inlined
def _end_of_word(raw, eights, i):
    """Index of the quote that ends the word at `i`, negative for a word with escapes; 0 if it has to be read the plain
    way."""
    escaped = False
    while True:
        # The highest bit of the first byte that is below 35, a backslash or not ASCII; others can follow it.
        eight = eights[at(i)]
        marks = ((eight - 35 * _ONES) | ((eight ^ BACKSLASH * _ONES) - _ONES) | eight) & _HIGHEST
        if marks == 0:
            i += 8
            continue
        # The bytes up to that one, counted by their lowest bits.
        i += ((((marks & -marks) - 1) & _ONES) * _ONES >> 56) - 1
        c = raw[at(i)]
        if c == QUOTE:
            return -i if escaped else i
        if c <= 32 or (0xC2 <= c <= 0xE3 and is_space(raw, i)):  # Also the zeros after the last value.
            return 0
        if c == BACKSLASH:
            escaped = True
            i += 1
        i += 1


@inlined
def _place_words(raw, eights, i, end, head, tail, following, begins, ends):
    """Read one index, ``{"word": [0, 3], "other": [1]}``, and sort its words by position, without comparisons.

    A word at one position is an entry `n`: its text is ``raw[begins[n]:ends[n]]``; a negative end marks a word with
    escapes. Entries of the same position are a linked list in the order of the index: ``head[position]`` is the first,
    ``following[n]`` the next after `n`, ``tail[position]`` the last, and -1 stands for none.

    Returns
    -------
    bool
        False if the index has to be read the plain way; what was placed so far has to be cleared all the same.
    int
        The last position.
    int
        The most bytes that the text takes. It may be longer than the JSON: a word can have many positions.
    """
    n, top, size = 0, -1, 0
    i = _skip(raw, i + 1, end, COMMA)
    while i < end and raw[at(i)] == QUOTE:
        begin = i + 1
        stop = _end_of_word(raw, eights, begin)
        i = abs(stop) + 1
        if stop == 0 or i > end:
            return False, top, size
        # With the space before the word. A word without its escapes is never longer than with them.
        word_bytes = i - begin
        i = _skip(raw, i, end, COLON)
        if raw[at(i)] != OPEN_LIST:
            return False, top, size
        i = _skip(raw, i + 1, end, COMMA)
        while raw[at(i)] != CLOSE_LIST:
            first, position = i, 0
            while 48 <= raw[at(i)] <= 57:
                position = position * 10 + raw[at(i)] - 48
                i += 1
            if not 1 <= i - first <= 9 or position >= head.size or n >= following.size:
                return False, top, size
            begins[at(n)], ends[at(n)], following[at(n)] = begin, stop, -1
            if head[at(position)] < 0:
                head[at(position)] = n
            else:
                following[at(tail[at(position)])] = n
            tail[at(position)] = n
            top = max(top, position)
            size += word_bytes
            n += 1
            i = _skip(raw, i, end, COMMA)
        i = _skip(raw, i + 1, end, COMMA)
    return i < end and raw[at(i)] == CLOSE_OBJECT, top, size


@kernel
def _lay_out(raw, eights, starts, ends, head, tail, following, word_begins, word_ends, out, out_eights, out_ends, odd):
    """Write the texts one after the other; `odd` marks unusual records, and those that `out` has no room for."""
    w = 0
    for record in range(starts.size):
        begin = w
        usual = True
        if starts[record] == ends[record]:
            pass
        elif raw[starts[record]] == OPEN_OBJECT:
            usual, top, size = _place_words(
                raw, eights, starts[record], ends[record], head, tail, following, word_begins, word_ends
            )
            usual = usual and size <= min(LONGEST_ABSTRACT, out.size - _GUARD_SIZE - w)
            # `head` is cleared on the way, also after an unusual index.
            for position in range(top + 1):
                word = head[at(position)]
                head[at(position)] = -1
                while usual and word >= 0:
                    first, stop = word_begins[at(word)], word_ends[at(word)]
                    if stop != first:
                        if w > begin and out[at(w - 1)] != 32:
                            out[at(w)] = 32
                            w += 1
                        if stop >= 0:
                            # Sixteen bytes at a time; what follows the word is written over.
                            for i in range(0, stop - first, 16):
                                out_eights[at(w + i)] = eights[at(first + i)]
                                out_eights[at(w + i + 8)] = eights[at(first + i + 8)]
                            w += stop - first
                        else:
                            w = _unescape(raw, first, -stop, out, w, begin)
                            usual = w >= 0
                    word = following[at(word)]
            if usual and w > begin and out[at(w - 1)] == 32:
                w -= 1
        else:
            usual = raw[starts[record]] == N_OF_NULL
        if not usual:
            w = begin
        odd[record] = not usual
        out_ends[record] = w


@kernel
def _numbers(raw, starts, ends, numbers, out_ends):
    """The number after the ``W`` of every id; False at the first entry that is not a plain OpenAlex work id."""
    n = 0
    for record in range(starts.size):
        i, end = starts[record], ends[record]
        if raw[i] == OPEN_LIST:
            i = _skip(raw, i + 1, end, COMMA)
            while i < end and raw[i] == QUOTE:
                i += 1
                begin = i
                while raw[i] != QUOTE:
                    if raw[i] == BACKSLASH or i >= end:
                        return False
                    if raw[i] == SLASH:
                        begin = i + 1
                    i += 1
                # An upper-case or lower-case W and at most 18 digits, which always fit.
                if (raw[begin] != 87 and raw[begin] != 119) or not 2 <= i - begin <= 19:
                    return False
                number = 0
                for digit in range(begin + 1, i):
                    if not 48 <= raw[digit] <= 57:
                        return False
                    number = number * 10 + (raw[digit] - 48)
                numbers[n] = number
                n += 1
                i = _skip(raw, i + 1, end, COMMA)
            if i >= end or raw[i] != CLOSE_LIST:
                return False
        elif raw[i] != N_OF_NULL:
            return False
        out_ends[record] = n
    return True
