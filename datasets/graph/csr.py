"""Compressed sparse rows of a citation graph from an edge list, in linear time, on every core."""

from itertools import pairwise

import numpy as np

from ..jit import kernel, run_chunks, thread_count

MOST_PARTS = 16


def reference_rows(
    citing: np.ndarray, cited: np.ndarray, n_papers: int, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray, tuple[int, int, int]]:
    """Rows of references as int64 pointers (N + 1,) and int32 indices, from edges given as int32 arrays (E,).

    Rows are sorted and hold no repeats, unknown ends (-1) or self-citations. The third result counts what was dropped:
    edges with an unknown end, self-citations, duplicates.
    """
    count = np.zeros(n_papers, np.int64)
    ranges = row_ranges(n_papers, threads)
    tallies = np.zeros((len(ranges), 2), np.int64)  # unknown, self-citations
    run_chunks(count_rows, [(citing, cited, *r, count, tallies[i]) for i, r in enumerate(ranges)], threads)
    indptr = pointers(count)
    indices = np.empty(indptr[-1], np.int32)
    place = indptr[:-1].copy()
    run_chunks(scatter_rows, [(citing, cited, *r, place, indices) for r in ranges], threads)
    run_chunks(sort_rows, [(*r, indptr, indices, count) for r in row_ranges(n_papers, threads, 4)], threads)
    kept = pointers(count)
    compact_rows(indptr, kept, indices)
    dropped = int(tallies[0, 0]), int(tallies[:, 1].sum()), int(indptr[-1] - kept[-1])
    return kept, indices[: kept[-1]], dropped


def transposed_rows(
    ref_indptr: np.ndarray, ref_indices: np.ndarray, years: np.ndarray, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows of citing papers, by year and then position: int64 pointers (N + 1,) and int32 indices.

    The third result is the number of citations of a paper of a later year.
    """
    return citing_rows(year_order(years), ref_indptr, ref_indices, years, threads)


def citing_rows(
    order: np.ndarray, ref_indptr: np.ndarray, ref_indices: np.ndarray, years: np.ndarray, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """`transposed_rows` of those citing papers only that `order`, int32 (M,), names, in its order.

    Beside the result nothing is held that grows with papers or citations.
    """
    ranges = row_ranges(years.size, threads)
    # Counts two places ahead become beginnings one place ahead, and filling the rows moves each to the row's end.
    heads = np.zeros(years.size + 2, np.int64)
    if order.size == years.size:
        run_chunks(count_cited, [(ref_indices, *r, heads[2:]) for r in ranges], threads)
    else:
        run_chunks(count_citing, [(order, ref_indptr, ref_indices, *r, heads[2:]) for r in ranges], threads)
    np.cumsum(heads, out=heads)
    indices = np.empty(heads[-1], np.int32)
    past = np.zeros((len(ranges), 1), np.int64)
    rows = (order, ref_indptr, ref_indices, years)
    run_chunks(scatter_citing, [(*rows, *r, heads[1:], indices, past[i]) for i, r in enumerate(ranges)], threads)
    return heads[:-1], indices, int(past.sum())


def check_rows(name: str, indptr: np.ndarray, indices: np.ndarray, years: np.ndarray, *, by_year: bool) -> None:
    """Raise `ValueError` for rows that a kernel cannot walk safely; it names the first row that is out of order.

    Rows ascend by position or, where `by_year` is true, by year and then position. `name` is ``ref`` or ``cit``.
    """
    for array, what in ((indptr, f"{name}_indptr"), (indices, f"{name}_indices"), (years, "years")):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{what} must be a one-dimensional array of integers, got {array.dtype} {array.shape}")
    if indptr.size != years.size + 1 or indptr[0] != 0 or indptr[-1] != indices.size:
        span = f"{indptr.size} entries, from {indptr[0]} to {indptr[-1]}" if indptr.size else "no entries"
        raise ValueError(
            f"{name}_indptr has {span}, but {years.size} papers (years) with {indices.size} entries in {name}_indices "
            f"need {years.size + 1}, from 0 to {indices.size}; build the graph again"
        )
    bad = bad_row(indptr, indices, years, by_year)
    if bad >= 0:
        first, stop = int(indptr[bad]), int(indptr[bad + 1])
        order = "by year and position" if by_year else "by position"
        raise ValueError(
            f"row {bad} of {name}_indices, [{first}:{stop}] of {indices.size}, does not ascend {order} over the "
            f"{years.size} papers: {indices[max(0, first) : max(0, min(stop, first + 8))].tolist()} ...; "
            "build the graph again"
        )


@kernel
def bad_row(indptr, indices, years, by_year):
    """The first row that is out of bounds or does not ascend, -1 if none."""
    for p in range(years.size):
        first, stop = indptr[p], indptr[p + 1]
        if first < 0 or first > stop or stop > indices.size:
            return p
        last, last_year = -1, -1
        for i in range(first, stop):
            other = indices[i]
            if other < 0 or other >= years.size:
                return p
            year = years[other] if by_year else 0
            if year < last_year or (year == last_year and other <= last):
                return p
            last, last_year = other, year
    return -1


def year_order(years: np.ndarray) -> np.ndarray:
    """Positions of the papers by year, ties by position; int32 (N,). Linear time."""
    return np.argsort(years, kind="stable").astype(np.int32)


def pointers(count: np.ndarray) -> np.ndarray:
    """Where rows of these lengths begin and end; int64 (N + 1,)."""
    indptr = np.zeros(count.size + 1, np.int64)
    np.cumsum(count, out=indptr[1:])
    return indptr


def row_ranges(n_papers: int, threads: int | None, per_thread: int = 1) -> list[tuple[int, int]]:
    """Ranges of rows; each is filled by one thread, which reads all edges and takes those of its rows.

    More ranges than threads, so that the rows of one fit into the cache, took longer at 10 million papers.
    """
    parts = min(thread_count(threads), MOST_PARTS) * per_thread
    cuts = np.linspace(0, n_papers, parts + 1).astype(np.int64)
    return [(int(low), int(high)) for low, high in pairwise(cuts)]


@kernel
def count_rows(citing, cited, low, high, count, tally):
    """Add to ``count[p]`` the references of each paper ``low <= p < high``, and to `tally` the edges with an unknown
    end (all of them, whatever the range) and the self-citations of these papers."""
    for e in range(citing.size):
        c = citing[e]
        if c < 0 or cited[e] < 0:
            tally[0] += 1
        elif low <= c < high:
            if c == cited[e]:
                tally[1] += 1
            else:
                count[c] += 1


@kernel
def scatter_rows(citing, cited, low, high, place, indices):
    """Write the papers that ``low <= p < high`` cites to `indices`, from ``place[p]`` on, which moves behind them."""
    for e in range(citing.size):
        c = citing[e]
        if low <= c < high and cited[e] >= 0 and c != cited[e]:
            indices[place[c]] = cited[e]
            place[c] += 1


@kernel
def sort_rows(low, high, indptr, indices, count):
    """Sort each row and move its distinct entries to the front; `count` becomes their number."""
    for p in range(low, high):
        start, end = indptr[p], indptr[p + 1]
        if end - start > 32:
            indices[start:end].sort()
        else:
            for i in range(start + 1, end):
                value = indices[i]
                j = i - 1
                while j >= start and indices[j] > value:
                    indices[j + 1] = indices[j]
                    j -= 1
                indices[j + 1] = value
        kept = start
        for i in range(start, end):
            if i == start or indices[i] != indices[kept - 1]:
                indices[kept] = indices[i]
                kept += 1
        count[p] = kept - start


@kernel
def sort_rows_by_year(indptr, indices, years):
    """Sort each row, which ascends by position, by the years of its papers and then by position."""
    for p in range(indptr.size - 1):
        start, end = indptr[p], indptr[p + 1]
        if end - start > 32:
            keys = np.empty(end - start, np.int64)
            for i in range(start, end):
                keys[i - start] = (np.int64(years[indices[i]]) << 32) | np.int64(indices[i])
            keys.sort()
            for i in range(start, end):
                indices[i] = keys[i - start] & 0xFFFFFFFF
            continue
        for i in range(start + 1, end):
            value = indices[i]
            j = i - 1
            while j >= start and years[indices[j]] > years[value]:
                indices[j + 1] = indices[j]
                j -= 1
            indices[j + 1] = value


@kernel
def compact_rows(indptr, kept, indices):
    """Move rows that begin at `indptr` to where they begin by the pointers `kept`, which are nowhere larger."""
    for p in range(kept.size - 1):
        shift = indptr[p] - kept[p]
        if shift:
            for i in range(kept[p], kept[p + 1]):
                indices[i] = indices[i + shift]


@kernel
def count_cited(ref_indices, low, high, count):
    """Add to ``count[r]`` how often each paper ``low <= r < high`` is cited."""
    for e in range(ref_indices.size):
        r = ref_indices[e]
        if low <= r < high:
            count[r] += 1


@kernel
def count_citing(order, ref_indptr, ref_indices, low, high, count):
    """Add to ``count[r]`` how often the papers that `order` names cite each paper ``low <= r < high``."""
    for k in range(order.size):
        for e in range(ref_indptr[order[k]], ref_indptr[order[k] + 1]):
            r = ref_indices[e]
            if low <= r < high:
                count[r] += 1


@kernel
def scatter_citing(order, ref_indptr, ref_indices, years, low, high, place, indices, past):
    """Write the papers that cite ``low <= r < high`` to `indices`, from ``place[r]`` on, in the order in which `order`
    names them, and add to ``past[0]`` the citations of a paper of a later year."""
    for k in range(order.size):
        c = order[k]
        for e in range(ref_indptr[c], ref_indptr[c + 1]):
            r = ref_indices[e]
            if low <= r < high:
                indices[place[r]] = c
                place[r] += 1
                past[0] += years[r] > years[c]
