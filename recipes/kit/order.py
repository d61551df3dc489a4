"""An order of papers that keeps all labels in play: labels that the policy stops naming come up more often.

A policy that is paid for being right has no use for a label that is never the most probable one, such as the middle of
three tertiles: accuracy rises, and macro-F1 falls as the label vanishes from its answers. Equal shares of the labels do
not help against that. Here the shares follow from its last greedy answers to the validation papers. Not from rollouts:
sampled answers stay even while a label is no paper's most probable one, and on training papers, which SFT has seen, the
most frequent label of a group stays even as well (both were tried on hep-th; macro-F1 fell from 0.447 to 0.40 all the
same). Only the policy's answers are used, never the labels of the validation papers.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import tinker
from scipy.spatial import KDTree
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.rl.rollouts import do_group_rollout

from ...datasets.atomic_files import write_json_atomically
from ...datasets.paper import Paper
from ...datasets.store import load_papers
from ...envs.kit.base import Example
from ...envs.registry import make, spec
from ...envs.training.groups import SciSciGroupBuilder
from ...envs.training.order import BalancedOrder, Order, Shuffled
from ..monitoring.metrics import read_metrics

Balance = Literal["off", "equal", "adaptive"]
NAMED = "validation/predicted/"
GAIN, LIMIT = 1.5, 4.0
FAINT = 0.02


def adapted_shares(named: Mapping[str, float] | None, wanted: Mapping[str, float]) -> dict[str, float]:
    """Shares of the labels among the papers of the next batch.

    The weight of a label is (wanted share / share of the answers that named it) ** 1.5, between 1/4 and 4. It follows
    the last answers and not their sum over time: training adds up what it is shown already, and weights that added up
    as well would swing from one label to the other (tried: the middle label went from 27 % of the answers to 68 %).

    Parameters
    ----------
    named : mapping from label to its share of the answers, or None as long as there are none
    wanted : mapping from label to the share that is to be named: its share of the training papers

    Returns
    -------
    mapping from label to share, in the order of `wanted`; they sum to 1.

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
        weights = np.clip((start / np.maximum(shares, FAINT)) ** GAIN, 1 / LIMIT, LIMIT)
    mixed = start * weights
    return dict(zip(wanted, (mixed / mixed.sum()).tolist(), strict=True))


class Adaptive:
    """An `Order` in batches whose shares of labels follow from the policy's answers; see `adapted_shares`.

    Parameters
    ----------
    labels : sequence of str, length N
        Gold label of every example.
    groups_per_batch : int
    named : callable
        Step -> shares of the labels among the last answers before it, or None. A batch goes by what was logged up to
        two steps before it, so that a resumed run, which logs the same, takes the same papers.
    seed : int
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
            name: Shuffled(len(places), seed * 1_000_003 + at) for at, (name, places) in enumerate(self.places.items())
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
        shares = adapted_shares(self.named(max(batch - 1, 0)), self.wanted)
        counts = apportioned(shares, self.groups_per_batch)
        labels = [label for label, count in counts.items() for _ in range(count)]
        np.random.default_rng([self.seed, batch]).shuffle(labels)
        before = self._before[-1]
        self._batches.append(labels)
        self._before.append({label: before[label] + counts[label] for label in before})


def apportioned(shares: Mapping[str, float], seats: int) -> dict[str, int]:
    """Whole numbers that sum to `seats`, as near to the shares as can be (largest remainders).

    Examples
    --------
    >>> apportioned({"a": 0.5, "b": 0.3, "c": 0.2}, 4)
    {'a': 2, 'b': 1, 'c': 1}
    """
    exact = {label: share * seats for label, share in shares.items()}
    found = {label: int(value) for label, value in exact.items()}
    by_remainder = sorted(exact, key=lambda label: (found[label] - exact[label], label))
    for label in by_remainder[: seats - sum(found.values())]:
        found[label] += 1
    return found


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
        keys = {label: NAMED + label for label in spec(self.env_id).labels}
        rows = [row for row in read_metrics(self.log_path) if int(row["step"]) < before]
        found = [row for row in rows if all(key in row for key in keys.values())]
        return {label: float(found[-1][key]) for label, key in keys.items()} if found else None


def balanced_order(
    balance: Balance, env_id: str, groups_per_batch: int, log_path: str
) -> BalancedOrder | AdaptiveOrder | None:
    """The maker of the order that an option asks for; None for papers as they come."""
    if balance == "off":
        return None
    return BalancedOrder(env_id) if balance == "equal" else AdaptiveOrder(env_id, groups_per_batch, log_path)


Curriculum = Literal["none", "margin", "pass_rate"]
PASS_RATES = "pass_rates.json"
START_SHARE, STAGES = 1 / 3, 4
RISE, PATIENCE, SPAN = 0.1, 25, 3
REWARD = "env/all/reward/total"


def margins(env_id: str, examples: Sequence[Example]) -> np.ndarray:
    """How far every example lies from where its label would change.

    For one paper: the distance of its scores (`SciSciEnv.score_fields`) to those of the nearest paper with another
    label, among papers of the same field and year where labels are ranks within them. For a pair: the difference of
    the two papers' scores.

    Returns
    -------
    float64 (N,), at least 0; infinite where no other label is near.

    Raises
    ------
    ValueError
        If a paper lacks a score.
    """
    fields = spec(env_id).score_fields
    if len(examples[0]) > 1:
        scores = np.array([[_scores(paper, fields) for paper in example] for example in examples])
        return np.abs(scores[:, 0] - scores[:, 1]).max(axis=1)
    points = np.array([_scores(example[0], fields) for example in examples])
    labels = np.array([make(env_id, *example).gold_label for example in examples])
    strata = np.unique([_stratum(example[0]) for example in examples], axis=0, return_inverse=True)[1].ravel()
    found = np.full(len(examples), np.inf)
    for stratum in np.unique(strata):
        inside = np.flatnonzero(strata == stratum)
        for label in np.unique(labels[inside]):
            ours, others = inside[labels[inside] == label], inside[labels[inside] != label]
            if len(others):
                found[ours] = KDTree(points[others]).query(points[ours])[0]
    return found


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
    three, or after 25 steps.

    Parameters
    ----------
    rewards : sequence of float
        Mean reward of every step so far.
    reach : float > 0
        Best reward minus floor.

    Examples
    --------
    >>> stage_of([-0.4, -0.4, -0.4, -0.1, -0.1, -0.1, -0.3], reach=2.0)
    1
    """
    stage, begun = 0, 0
    for at in range(1, len(rewards) + 1):
        inside = rewards[begun:at]
        risen = len(inside) >= 2 * SPAN and np.mean(inside[-SPAN:]) >= np.mean(inside[:SPAN]) + RISE * reach
        if risen or len(inside) >= PATIENCE:
            stage, begun = stage + 1, at
    return min(stage, STAGES - 1)


class Widening:
    """An `Order` over the easiest third of the examples, then over more of them, at last over all.

    Parameters
    ----------
    easiest : sequence of int
        Places of the examples, easiest first.
    groups_per_batch : int
    rewards : callable
        Step -> mean rewards of the steps before it. The stage of a batch follows from what was logged up to two steps
        before it, so a resumed run, which logs the same, takes the same examples.
    reach : float
        Best reward minus floor.
    seed : int
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

    Parameters
    ----------
    kind : "margin" | "pass_rate"
        What makes an example easy: the distance from the label boundary (`margins`), or how often the policy that
        training starts from gets it right (`pass_rates.json` in `log_path`; ties by the seed).
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
        return [float(row[REWARD]) for row in rows if REWARD in row and int(row["step"]) < before]


def example_key(example: Example) -> str:
    """Key of an example in `pass_rates.json`: the ids of its papers."""
    return ":".join(paper.openalex_id for paper in example)


AT_ONCE = 64


async def measure_pass_rates(
    log_path: str,
    *,
    env_id: str,
    options: dict,
    dataset: str,
    model_name: str,
    renderer_name: str,
    start: str | None,
    attempts: int,
    max_tokens: int,
    seed: int,
) -> None:
    """Let the policy that training starts from answer every training example `attempts` times at temperature 1, and
    write the shares of right answers to `pass_rates.json` in the run's folder. A run that has them keeps them.

    Parameters
    ----------
    start : str or None
        ``tinker://`` path of a training state; None for the base model.
    """
    path = Path(log_path) / PASS_RATES
    if path.is_file():
        return
    service = tinker.ServiceClient()
    if start is None:
        client = service.create_sampling_client(base_model=model_name)
    else:
        trained = await service.create_training_client_from_state_async(start)
        client = await trained.save_weights_and_get_sampling_client_async()
    policy = TinkerTokenCompleter(client, max_tokens=max_tokens)
    gate = asyncio.Semaphore(AT_ONCE)

    async def rate(builder: SciSciGroupBuilder) -> float:
        async with gate:
            group = await do_group_rollout(builder, policy)
        right = [
            max((step.metrics.get("correct", 0.0) for step in trajectory.transitions), default=0.0)
            for trajectory in group.trajectories_G
        ]
        return sum(right) / len(right)

    examples = spec(env_id).examples(load_papers(dataset, "train"), seed)
    builders = [
        SciSciGroupBuilder(env_id, example, renderer_name, model_name, attempts, options) for example in examples
    ]
    rates = await asyncio.gather(*map(rate, builders))
    write_json_atomically(path, {example_key(e): r for e, r in zip(examples, rates, strict=True)})
