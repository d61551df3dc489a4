"""The order of papers in RL batches that depends on the run: by the policy's answers, or from easy to hard.

With `balance_labels=adaptive` the shares of labels follow from the policy's answers, so that no label vanishes from
them. A policy that is paid for being right has no use for a label that is never the most probable one, such as the
middle of three tertiles: accuracy rises, and macro-F1 falls as the label disappears from its answers. Equal shares of
the labels do not help against that. The shares follow from the last greedy answers to the validation papers, never from
the labels of these papers.

With `curriculum` the batches begin with the easiest third of the papers and widen to harder ones once rewards rise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.spatial import KDTree

from ...datasets.atomic_files import write_json_atomically
from ...datasets.paper import Paper
from ...datasets.store import load_papers
from ...envs.kit.base import Example
from ...envs.registry import make, spec
from ...envs.training.order import Order, Shuffled
from ..monitoring.metrics import REWARD, read_metrics
from .config import RecipeConfig
from .rollouts import sampled_groups

Balance = Literal["off", "proportional", "equal", "adaptive"]
PREDICTED = "validation/predicted/"
# The exponent and the limit of a label's weight. A share of the answers below LEAST_SHARE counts as LEAST_SHARE.
GAIN, LIMIT, LEAST_SHARE = 1.5, 4.0, 0.02
Curriculum = Literal["none", "margin", "pass_rate"]
# A curriculum's first share of the papers, and the number of its stages.
START_SHARE, STAGES = 1 / 3, 4
# The rise in reward that ends a stage, as a share of the range; the steps that end it anyway; the steps of a mean.
RISE, PATIENCE, SPAN = 0.1, 25, 3
PASS_RATES = "pass_rates.json"


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


def margins(env_id: str, examples: Sequence[Example]) -> np.ndarray:
    """How far every example lies from where its label would change.

    For one paper: the distance of its scores (`SciSciEnv.score_fields`) to those of the nearest paper with another
    label, among papers of the same field and year where labels are ranks within them. For a pair: the difference of
    the two papers' scores.

    Returns float64 (N,), at least 0 and infinite where no other label is near. Raises `ValueError` if a paper lacks a
    score.
    """
    fields = spec(env_id).score_fields
    if len(examples[0]) > 1:
        scores = np.array([[_scores(paper, fields) for paper in example] for example in examples])
        return np.abs(scores[:, 0] - scores[:, 1]).max(axis=1)
    points = np.array([_scores(example[0], fields) for example in examples])
    labels = np.array([make(env_id, *example).gold_label for example in examples])
    strata = np.unique([_stratum(example[0]) for example in examples], axis=0, return_inverse=True)[1].ravel()
    distances = np.full(len(examples), np.inf)
    for stratum in np.unique(strata):
        inside = np.flatnonzero(strata == stratum)
        for label in np.unique(labels[inside]):
            ours, others = inside[labels[inside] == label], inside[labels[inside] != label]
            if len(others):
                distances[ours] = KDTree(points[others]).query(points[ours])[0]
    return distances


def _scores(paper: Paper, fields: Sequence[str]) -> list[float]:
    values = [getattr(paper, name) for name in fields]
    if None in values:
        missing = fields[values.index(None)]
        raise ValueError(f"curriculum=margin needs {missing}, which paper {paper.openalex_id} lacks; use another order")
    return values


def _stratum(paper: Paper) -> tuple[str, str]:
    by_rank = paper.label_scheme == "quantile"
    return (str(paper.primary_field), str(paper.publication_year)) if by_rank else ("", "")


def stage_of(rewards: Sequence[float], reach: float) -> int:
    """How many times a curriculum has widened after steps with these mean rewards.

    A stage ends when the mean of its last three steps is a tenth of the reward range above the mean of its first
    three, or after 25 steps. `rewards` are the mean rewards of all steps so far, `reach` is best reward minus floor.

    Examples
    --------
    >>> stage_of([-0.4, -0.4, -0.4, -0.1, -0.1, -0.1, -0.3], reach=2.0)
    1
    """
    stage, start = 0, 0
    for end in range(1, len(rewards) + 1):
        inside = rewards[start:end]
        risen = len(inside) >= 2 * SPAN and np.mean(inside[-SPAN:]) >= np.mean(inside[:SPAN]) + RISE * reach
        if risen or len(inside) >= PATIENCE:
            stage, start = stage + 1, end
    return min(stage, STAGES - 1)


class Widening:
    """An `Order` over the easiest third of the examples, then over more of them, at last over all.

    `easiest` are the places of the examples, easiest first, `reach` is best reward minus floor, and `rewards` gives the
    mean rewards of the steps before a step. The stage of a batch follows from what was logged up to two steps before
    it, so a resumed run, which logs the same, takes the same examples.
    """

    def __init__(
        self,
        easiest: Sequence[int],
        groups_per_batch: int,
        rewards: Callable[[int], list[float]],
        reach: float,
        seed: int,
    ):
        self.easiest, self.groups_per_batch, self.rewards = list(easiest), groups_per_batch, rewards
        self.reach, self.seed = reach, seed
        self._stages: dict[int, int] = {}

    def __call__(self, position: int) -> int:
        batch = position // self.groups_per_batch
        if batch not in self._stages:
            self._stages[batch] = stage_of(self.rewards(max(batch - 1, 0)), self.reach)
        share = START_SHARE + (1 - START_SHARE) * self._stages[batch] / (STAGES - 1)
        pool = max(1, math.ceil(share * len(self.easiest)))
        return self.easiest[Shuffled(pool, self.seed)(position)]


@dataclass(frozen=True)
class CurriculumOrder:
    """Maker of a `Widening` order for the run in `log_path`.

    What makes an example easy depends on `kind`. ``margin``: its distance from the label boundary (`margins`).
    ``pass_rate``: how often the policy that training starts from gets it right (`pass_rates.json` in `log_path`); ties
    are broken by the seed.
    """

    kind: Curriculum
    env_id: str
    groups_per_batch: int
    log_path: str

    def __call__(self, examples: Sequence[Example], seed: int) -> Order:
        if self.kind == "margin":
            ease = margins(self.env_id, examples)
        else:
            rates = json.loads((Path(self.log_path) / PASS_RATES).read_text())
            ease = np.array([rates[example_key(example)] for example in examples])
        ties = np.random.default_rng(seed).random(len(examples))
        floor, best = spec(self.env_id).reward_range
        easiest = np.lexsort((ties, -ease)).tolist()
        return Widening(easiest, self.groups_per_batch, self._rewards, best - floor, seed)

    def _rewards(self, before: int) -> list[float]:
        rows = read_metrics(self.log_path)
        return [float(row[REWARD.key]) for row in rows if REWARD.key in row and int(row["step"]) < before]


def example_key(example: Example) -> str:
    """Key of an example in `pass_rates.json`: the ids of its papers."""
    return ":".join(paper.openalex_id for paper in example)


async def measure_pass_rates(cfg: RecipeConfig, start: str | None, attempts: int) -> None:
    """Let the policy of the state `start` (None for the base model) answer every training example `attempts` times at
    temperature 1, and write the shares of right answers to `pass_rates.json` in the run's folder, unless it is there.
    """
    path = Path(cfg.log_path) / PASS_RATES
    if path.is_file():
        return
    examples = spec(cfg.env).examples(load_papers(cfg.dataset, "train"), cfg.seed)
    rates = {}
    for example, group in zip(examples, await sampled_groups(cfg, start, examples, attempts), strict=True):
        right = [
            max((step.metrics.get("correct", 0.0) for step in trajectory.transitions), default=0.0)
            for trajectory in group.trajectories_G
        ]
        rates[example_key(example)] = sum(right) / len(right)
    write_json_atomically(path, rates)
