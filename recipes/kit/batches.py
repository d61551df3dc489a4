"""Batches of examples for the cookbook's supervised loops, the same for SFT and DPO."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import tinker
from tinker_cookbook.supervised.types import SupervisedDataset


class ShuffledBatches(SupervisedDataset):
    """Batches of items, of which `datums_of` makes the data to train on; items that fill no batch are left out.

    `set_epoch` draws another order for every epoch; before it the items come in their own. Raises `ValueError` if the
    items, which `name` names, do not fill a batch.
    """

    def __init__(
        self, items: Sequence[Any], batch_size: int, datums_of: Callable[[Any], list[tinker.Datum]], name: str
    ):
        if len(items) < batch_size:
            raise ValueError(f"{len(items)} {name} do not fill a batch of {batch_size}; give a smaller batch_size")
        self.items, self.batch_size, self.datums_of = items, batch_size, datums_of
        self.order = list(range(len(items)))

    def __len__(self) -> int:
        return len(self.items) // self.batch_size

    def get_batch(self, index: int) -> list[tinker.Datum]:
        chosen = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return [datum for i in chosen for datum in self.datums_of(self.items[i])]

    def set_epoch(self, seed: int = 0) -> None:
        self.order = list(range(len(self.items)))
        random.Random(seed).shuffle(self.order)
