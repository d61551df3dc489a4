"""RL batches whose shares of labels follow from the policy's answers, so that no label vanishes from them.

A policy that is paid for being right has no use for a label that is never the most probable one, such as the middle of
three tertiles: accuracy rises, and macro-F1 falls as the label disappears from its answers. Equal shares of the labels
do not help against that. With `balance_labels=adaptive` the shares follow from the policy's last greedy answers to the
validation papers, never from the labels of these papers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...envs.kit.base import Example
from ...envs.registry import make, spec
from ...envs.training.order import Order, Shuffled
from ..monitoring.metrics import read_metrics

Balance = Literal["off", "proportional", "equal", "adaptive"]
PREDICTED = "validation/predicted/"
# The exponent and the limit of a label's weight. A share of the answers below LEAST_SHARE counts as LEAST_SHARE.
GAIN, LIMIT, LEAST_SHARE = 1.5, 4.0, 0.02


def adapted_shares(named: Mapping[str, float] | None, wanted: Mapping[str, float]) -> dict[str, float]:
    """Shares of the labels among the papers of the next batch.

    The weight of a label is (wanted share / share of the answers that named it) ** 1.5, between 1/4 and 4. It follows
    the last answers and not their sum over time: training adds up what it is shown already, and weights that added up
    as well would swing from one label to the other.

    `named` has the share of the answers that each label got, None as long as there are none; `wanted` the share that it
    is to have, which is its share of the training papers. The result is in the order of `wanted`, and sums to 1.

    Examples
    --------
    >>> adapted_shares(None, {"a": 0.5, "b": 0.5})
    {'a': 0.5, 'b': 0.5}
    >>> adapted_shares({"a": 0.8, "b": 0.2}, {"a": 0.5, "b": 0.5})["b"] > 0.75
    True
    """
    start = np.array(list(wanted.values()))
    weights = np.ones(len(start))
    if named is not None:
        shares = np.array([named.get(label, 0.0) for label in wanted])
        weights = np.clip((start / np.maximum(shares, LEAST_SHARE)) ** GAIN, 1 / LIMIT, LIMIT)
    mixed = start * weights
    return dict(zip(wanted, (mixed / mixed.sum()).tolist(), strict=True))


def apportioned(shares: Mapping[str, float], seats: int) -> dict[str, int]:
    """Whole numbers that sum to `seats`, as near to the shares as can be (largest remainders).

    Examples
    --------
    >>> apportioned({"a": 0.5, "b": 0.3, "c": 0.2}, 4)
    {'a': 2, 'b': 1, 'c': 1}
    """
    exact = {label: share * seats for label, share in shares.items()}
    counts = {label: int(value) for label, value in exact.items()}
    by_remainder = sorted(exact, key=lambda label: (counts[label] - exact[label], label))
    for label in by_remainder[: seats - sum(counts.values())]:
        counts[label] += 1
    return counts


class Adaptive:
    """An `Order` in batches whose shares of labels follow from the policy's answers; see `adapted_shares`.

    `labels` are the gold labels of all examples. `named` gives the shares of the labels among the last answers before a
    step, or None. A batch depends on what was logged up to two steps before it, so that a resumed run, which logs the
    same, takes the same papers.
    """

    def __init__(
        self,
        labels: Sequence[str],
        groups_per_batch: int,
        named: Callable[[int], Mapping[str, float] | None],
        seed: int,
    ):
        names = sorted(set(labels))
        self.groups_per_batch, self.named, self.seed = groups_per_batch, named, seed
        self.places = {name: np.flatnonzero(np.asarray(labels) == name) for name in names}
        self.wanted = {name: len(places) / len(labels) for name, places in self.places.items()}
        self.orders = {
            name: Shuffled(len(places), seed * 1_000_003 + i) for i, (name, places) in enumerate(self.places.items())
        }
        # Groups of each label in all batches before the one at the same index, and the labels of that batch in order.
        self._before: list[dict[str, int]] = [dict.fromkeys(names, 0)]
        self._batches: list[list[str]] = []

    def __call__(self, position: int) -> int:
        batch, within = divmod(position, self.groups_per_batch)
        while len(self._batches) <= batch:
            self._plan(len(self._batches))
        shown = self._batches[batch]
        label = shown[within]
        turn = self._before[batch][label] + shown[:within].count(label)
        return int(self.places[label][self.orders[label](turn)])

    def _plan(self, batch: int) -> None:
        counts = apportioned(adapted_shares(self.named(max(batch - 1, 0)), self.wanted), self.groups_per_batch)
        labels = [label for label, count in counts.items() for _ in range(count)]
        np.random.default_rng([self.seed, batch]).shuffle(labels)
        before = self._before[-1]
        self._batches.append(labels)
        self._before.append({label: before[label] + counts[label] for label in before})


@dataclass(frozen=True)
class AdaptiveOrder:
    """Maker of an `Adaptive` order for the run in `log_path`."""

    env_id: str
    groups_per_batch: int
    log_path: str

    def __call__(self, examples: Sequence[Example], seed: int) -> Order:
        labels = [make(self.env_id, *example).gold_label for example in examples]
        return Adaptive(labels, self.groups_per_batch, self._named, seed)

    def _named(self, before: int) -> Mapping[str, float] | None:
        keys = {label: PREDICTED + label for label in spec(self.env_id).labels}
        rows = [row for row in read_metrics(self.log_path) if all(key in row for key in keys.values())]
        earlier = [row for row in rows if int(row["step"]) < before]
        return {label: float(earlier[-1][key]) for label, key in keys.items()} if earlier else None
