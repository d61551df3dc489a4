"""Which works are new in a later works table, which have changed, and which are gone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..jit import kernel
from ..positions import positions_of
from .record import WORKS_SCHEMA
from .shards import written_from
from .works_table import WorksTable


@dataclass(frozen=True)
class WorkChanges:
    """How a works table differs from an earlier one.

    Parameters
    ----------
    new, changed, gone : int
        Works that only the later table has, works of which a column differs, works that only the earlier one has.
    merged : int
        How many of those that are gone were merged into another work.
    columns : dict
        Column -> works in which it differs; a work counts for every column.
    """

    new: int
    changed: int
    gone: int
    merged: int
    columns: dict[str, int]


def work_changes(before: WorksTable, after: WorksTable) -> WorkChanges:
    """Compare the works of two tables by id, column by column.

    Rows of a shard that both tables read are not looked at, and of the others one column at a time is in memory.
    """
    places = positions_of(after.work_id, before.work_id, np.argsort(before.work_id, kind="stable"))
    is_known = places >= 0
    is_left = np.zeros(before.num_rows, bool)
    is_left[places[is_known]] = True
    gone = before.work_id[~is_left]
    merged = 0 if after.retired is None else int((after.retired.current(gone[after.retired.contains(gone)]) >= 0).sum())
    shared = sorted(set(_marks(before)) & set(_marks(after)) - {""})
    old, new = (np.repeat(np.isin(_marks(works), shared), works.lengths()) for works in (before, after))
    # A work whose newest record is in shared shards on both sides has the same record: shards keep their order.
    compared = np.flatnonzero(is_known)
    compared = compared[~(new[compared] & old[places[compared]])]
    changed, columns = np.zeros(compared.size, bool), {}
    for name in WORKS_SCHEMA.names:
        differs = _values(before, places[compared], name) != _values(after, compared, name)
        changed |= differs
        columns |= {name: int(differs.sum())} if differs.any() else {}
    return WorkChanges(int((~is_known).sum()), int(changed.sum()), gone.size, merged, columns)


def _marks(works: WorksTable) -> list[str]:
    """What each shard of a table was made from; two with the same mark are the same. "" for any other piece."""
    made_from = [{} if isinstance(piece, pa.Table) else written_from(piece) or {} for piece in works.pieces]
    return [str(mark) if "part" in mark else "" for mark in made_from]


def _values(works: WorksTable, rows: np.ndarray, name: str) -> np.ndarray:
    """A number for each value of a column at some different rows: the value itself, or a hash of 64 bits."""
    among = np.zeros(works.num_rows, bool)
    among[rows] = True
    parts = [_numbers(chunk) for table in works.where(among).scan([name]) for chunk in table[name].chunks]
    values = np.concatenate([np.empty(0, np.uint64), *parts])
    return values[(np.cumsum(among) - 1)[rows]]


def _numbers(column: pa.Array) -> np.ndarray:
    if pa.types.is_list(column.type):
        return _hashes(column.offsets.to_numpy().astype(np.int64) * 8, column.values.to_numpy().view(np.uint8))
    if not pa.types.is_string(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    _, offsets, text = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return _hashes(starts, np.frombuffer(text or b"", np.uint8))


def _hashes(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    result = np.empty(offsets.size - 1, np.uint64)
    _hash_ranges(offsets, data, result)
    return result


@kernel
def _hash_ranges(offsets: np.ndarray, data: np.ndarray, result: np.ndarray) -> None:
    """FNV-1a (Fowler, Noll & Vo) of ``data[offsets[i]:offsets[i + 1]]``, uint8, for each i."""
    for i in range(result.size):
        value = np.uint64(14695981039346656037)
        for j in range(offsets[i], offsets[i + 1]):
            value = (value ^ np.uint64(data[j])) * np.uint64(1099511628211)
        result[i] = value
