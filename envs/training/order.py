"""The order in which a training run shows its examples: an index into them for every position of an endless stream."""

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..kit.base import Example
from ..registry import make


class Order(Protocol):
    """Position in the stream of groups (0, 1, ...) -> place in the list of examples. A function of its own position:
    a resumed run asks for the same ones."""

    def __call__(self, position: int) -> int: ...


class Shuffled:
    """All examples, `size` of them, once an epoch, in another order every epoch."""

    def __init__(self, size: int, seed: int):
        self.size, self.seed = size, seed

    def __call__(self, position: int) -> int:
        epoch, within = divmod(position, self.size)
        return int(epoch_order(self.seed, epoch, self.size)[within])


class Balanced:
    """The labels by turns, so that any run of as many positions as there are labels holds each label once; within a
    label, epochs as in `Shuffled`. `labels` are the gold labels of all examples."""

    def __init__(self, labels: Sequence[str], seed: int):
        names = sorted(set(labels))
        self.places = [np.flatnonzero(np.asarray(labels) == name) for name in names]
        self.orders = [Shuffled(len(places), seed * 1_000_003 + label) for label, places in enumerate(self.places)]

    def __call__(self, position: int) -> int:
        turn, label = divmod(position, len(self.places))
        return int(self.places[label][self.orders[label](turn)])


class Proportional:
    """All examples once an epoch, each label spread evenly over it: stratified sampling with proportional allocation.

    Any stretch of the order holds a label nearly as often as all examples do. The expectation of a gradient is that of
    `Shuffled`, but it does not vary with how many papers of a rare label a batch happens to hold. `labels` are the gold
    labels of all examples.
    """

    def __init__(self, labels: Sequence[str], seed: int):
        self.places = [np.flatnonzero(np.asarray(labels) == name) for name in sorted(set(labels))]
        self.size, self.seed = len(labels), seed
        self._order = functools.lru_cache(maxsize=1)(self._drawn)

    def __call__(self, position: int) -> int:
        epoch, within = divmod(position, self.size)
        return int(self._order(epoch)[within])

    def _drawn(self, epoch: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, epoch])
        shuffled = [rng.permutation(places) for places in self.places]
        due = [(np.arange(len(places)) + rng.random()) / len(places) for places in self.places]
        return np.concatenate(shuffled)[np.argsort(np.concatenate(due), kind="stable")]


@dataclass(frozen=True)
class LabelOrder:
    """Maker of an order by the gold labels of an environment's examples: `Balanced` or `Proportional`."""

    env_id: str
    kind: type[Balanced] | type[Proportional]

    def __call__(self, examples: Sequence[Example], seed: int) -> Order:
        return self.kind([make(self.env_id, *example).gold_label for example in examples], seed)


def drawn_rows(examples: Sequence[Example], rows: int | None, seed: int) -> list[Example]:
    """So many of the examples, drawn by the seed: the same for every recipe and baseline, and with fewer `rows` a part
    of those with more. None for all, in their own order.

    Raises `ValueError` if `rows` is below 1.
    """
    if rows is None:
        return list(examples)
    if rows < 1:
        raise ValueError(f"rows must be at least 1, or None for all training examples; got {rows}")
    shuffled = list(examples)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:rows]


@functools.lru_cache(maxsize=16)
def epoch_order(seed: int, epoch: int, size: int) -> np.ndarray:
    """A permutation of 0..size-1 that the seed and the epoch decide; int64 (size,)."""
    return np.random.default_rng([seed, epoch]).permutation(size)
