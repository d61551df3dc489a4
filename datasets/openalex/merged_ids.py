"""Work ids that OpenAlex has given up: merged into another work, or deleted."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import BadInput
from .fast_gzip import DAMAGED_ARCHIVE, read_gzip
from .record import short_id

DELETED_WORK = 4285719527
"""The work that OpenAlex merges deleted works into."""


@dataclass(frozen=True)
class RetiredIds:
    """Ids, an ascending int64 array (R,), and the works that they were merged `into`, int64 (R,): the last work of a
    chain, -1 for a deleted work."""

    ids: np.ndarray
    into: np.ndarray

    @classmethod
    def of(cls, pairs: dict[int, int]) -> RetiredIds:
        """From id -> id it was merged into (-1, or `DELETED_WORK`: deleted).

        Examples
        --------
        >>> RetiredIds.of({1: 2, 2: 3, 9: -1}).current(np.array([1, 2, 3, 9]))
        array([ 3,  3,  3, -1])
        """
        final = {}
        for start in pairs:
            seen, target = {start}, pairs[start]
            while target in pairs and target not in seen:
                seen.add(target)
                target = pairs[target]
            # Of works that are merged in a circle, none remains.
            final[start] = -1 if target in seen or target == DELETED_WORK else target
        ids = np.array(sorted(final), np.int64)
        return cls(ids, np.array([final[number] for number in ids.tolist()], np.int64))

    def contains(self, ids: np.ndarray) -> np.ndarray:
        """Which of `ids` are retired, bool, same shape."""
        return np.isin(ids, self.ids)

    def current(self, ids: np.ndarray) -> np.ndarray:
        """`ids` with merged ones replaced by the work they went into, and deleted ones by -1."""
        if not self.ids.size:
            return ids
        place = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        return np.where(self.ids[place] == ids, self.into[place], ids)


def retired_ids(works: Path) -> RetiredIds:
    """Retired ids of a snapshot: CSV files below ``merged_ids/works`` and ``deleted_ids/works``.

    These folders lie next to the works' folder or up to two levels higher, there also in ``legacy-data``, where
    OpenAlex has kept them since 2026. The files have a column ``id`` and, where works were merged, ``merge_into_id``;
    they may be gzipped. Raises `BadInput` for a file without a column ``id`` or one that is damaged or cut off.
    """
    pairs: dict[int, int] = {}
    for above in works.parents[:3]:
        for kind in ("merged_ids", "legacy-data/merged_ids", "deleted_ids", "legacy-data/deleted_ids"):
            for path in sorted((above / kind / works.name).glob("*.csv*")):
                pairs.update(_pairs(path))
    return RetiredIds.of(pairs)


def _pairs(path: Path) -> Iterator[tuple[int, int]]:
    """Retired id and the id it was merged into, -1 where there is none, of every row of a file."""
    remedy = "fetch it again or remove it"
    try:
        text = (read_gzip(path) if path.suffix == ".gz" else path.read_bytes()).decode()
    except (*DAMAGED_ARCHIVE, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is damaged ({error}); {remedy}") from error
    rows = csv.DictReader(io.StringIO(text))
    if "id" not in (rows.fieldnames or ()):
        raise BadInput(f"{path} has no column id, only {rows.fieldnames}; {remedy}")
    for row in rows:
        if None in row.values():
            raise BadInput(f"{path} ends in the middle of line {rows.line_num}; {remedy}")
        number, into = short_id(row["id"]), short_id(row.get("merge_into_id"))
        if number is not None:
            yield number, -1 if into is None else into
