"""`MappedRows`: texts of many works in an order of one's own, after one reading of the shards that they lie in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..disk_arrays import held
from .record import WORKS_SCHEMA
from .works_table import WorksTable, by_piece, in_order

GROUP_BYTES = 32 << 20


class MappedRows:
    """Columns of some works, in an uncompressed Arrow file that is mapped into memory.

    A shard is compressed, so one of its works is read with the whole row group around it. Papers in order of
    publication lie all over the shards, and so do their references: reading a few thousand of them means reading every
    row group. Here the row groups are read once, one after the other, and then the works can be asked for in any order.

    Parameters
    ----------
    works : WorksTable
    positions : int64 array (M,)
        Positions in `works`, ascending, none twice.
    columns : list of str
    file : Path
        Where the file is written; it has to stay there as long as rows are asked for.
    """

    def __init__(self, works: WorksTable, positions: np.ndarray, columns: list[str], file: Path):
        schema = pa.schema([WORKS_SCHEMA.field(name) for name in columns])
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            batches = (batch for table in works.taken(positions, columns) for batch in table.to_batches())
            for group in grouped(batches):
                writer.write_batch(group.combine_chunks().to_batches()[0])
        reader = pa.ipc.open_file(pa.memory_map(str(file)))
        batches = map(reader.get_batch, range(reader.num_record_batches))
        self._positions, self._columns = held(positions, True), columns
        self._pieces = [pa.Table.from_batches([batch]) for batch in batches]

    def rows(self, positions: np.ndarray) -> pa.Table:
        """The works at `positions` of the table, in that order; all of them must be among those of the file."""
        return in_order(np.searchsorted(self._positions, positions), self._taken, self._columns)

    def _taken(self, ascending: np.ndarray) -> Iterator[pa.Table]:
        for index, rows in by_piece(ascending, [len(piece) for piece in self._pieces]):
            yield self._pieces[index].take(pa.array(rows))


def grouped(batches: Iterable[pa.RecordBatch], size: int = GROUP_BYTES) -> Iterator[pa.Table]:
    """The rows of `batches` in tables of about `size` bytes."""
    held: list[pa.RecordBatch] = []
    room = size
    for batch in batches:
        if len(batch):
            held.append(batch)
            room -= batch.nbytes
        if room <= 0:
            yield pa.Table.from_batches(held)
            held, room = [], size
    if held:
        yield pa.Table.from_batches(held)
