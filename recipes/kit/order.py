"""The order in which RL comes to the training papers: labels balanced, or easy papers first.

**Balance.** A policy that is paid for being right has no use for a label that is never the most probable one, such as
the middle of three tertiles: accuracy rises, and macro-F1 falls as the label vanishes from its answers. Equal shares of
the labels do not help against that. With `balance_labels=adaptive` the shares follow from the policy's last greedy
answers to the validation papers, never from the labels of these papers. Two other sources were tried on hep-th, and
macro-F1 fell from 0.447 to 0.40 with both: sampled answers stay even while a label is no paper's most probable one, and
so does the most frequent label of a group of rollouts on training papers, which SFT has seen.

**Curriculum.** Training begins with the easiest third of the papers and widens to harder ones once rewards rise.
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
from ...envs.training.groups import OrderMaker, SciSciGroupBuilder
from ...envs.training.order import BalancedOrder, Order, Shuffled
from ..monitoring.metrics import REWARD, read_metrics
from .compat import starting_policy
from .config import RecipeConfig

Balance = Literal["off", "equal", "adaptive"]
Curriculum = Literal["none", "margin", "pass_rate"]
PREDICTED = "validation/predicted/"
# The exponent and the limit of a label's weight, and the least share of the answers that is told from none.
GAIN, LIMIT, LEAST_SHARE = 1.5, 4.0, 0.02
# A curriculum's first share of the papers, and the number of its stages.
START_SHARE, STAGES = 1 / 3, 4
# The rise in reward that ends a stage, as a share of the range; the steps that end it anyway; the steps of a mean.
RISE, PATIENCE, SPAN = 0.1, 25, 3
PASS_RATES = "pass_rates.json"
CONCURRENT_GROUPS = 64


def order_for(cfg: RecipeConfig, balance: Balance, curriculum: Curriculum, groups_per_batch: int) -> OrderMaker | None:
    """The maker of the order that the options ask for; None for papers in random order.

    Raises
    ------
    ValueError
        If both options are on, or adaptive balance is asked for without validation.
    """
    if balance == "adaptive" and not (cfg.validation_examples != 0 and cfg.eval_every):
        raise ValueError("balance_labels=adaptive goes by answers to validation papers; turn validation on")
    if curriculum != "none" and balance != "off":
        raise ValueError("curriculum and balance_labels exclude each other: one thing decides the order of papers")
    if curriculum != "none":
        return CurriculumOrder(curriculum, cfg.env, groups_per_batch, cfg.log_path)
    if balance == "adaptive":
        return AdaptiveOrder(cfg.env, groups_per_batch, cfg.log_path)
    return BalancedOrder(cfg.env) if balance == "equal" else None


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
        weights = np.clip((start / np.maximum(shares, LEAST_SHARE)) ** GAIN, 1 / LIMIT, LIMIT)
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
        Step -> shares of the labels among the last answers before it, or None. A batch depends on what was logged up
        to two steps before it, so that a resumed run, which logs the same, takes the same papers.
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
    counts = {label: int(value) for label, value in exact.items()}
    by_remainder = sorted(exact, key=lambda label: (counts[label] - exact[label], label))
    for label in by_remainder[: seats - sum(counts.values())]:
        counts[label] += 1
    return counts


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
    stage, start = 0, 0
    for end in range(1, len(rewards) + 1):
        inside = rewards[start:end]
        risen = len(inside) >= 2 * SPAN and np.mean(inside[-SPAN:]) >= np.mean(inside[:SPAN]) + RISE * reach
        if risen or len(inside) >= PATIENCE:
            stage, start = stage + 1, end
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
        return [float(row[REWARD.key]) for row in rows if REWARD.key in row and int(row["step"]) < before]


def example_key(example: Example) -> str:
    """Key of an example in `pass_rates.json`: the ids of its papers."""
    return ":".join(paper.openalex_id for paper in example)


async def measure_pass_rates(cfg: RecipeConfig, start: str | None, attempts: int) -> None:
    """Let the policy that training starts from answer every training example `attempts` times at temperature 1, and
    write the shares of right answers to `pass_rates.json` in the run's folder. A run that has the file keeps it.

    Parameters
    ----------
    start : str or None
        ``tinker://`` path of a training state; None for the base model.
    """
    path = Path(cfg.log_path) / PASS_RATES
    if path.is_file():
        return
    client = await asyncio.to_thread(starting_policy, tinker.ServiceClient(), cfg.model_name, start)
    policy = TinkerTokenCompleter(client, max_tokens=cfg.max_tokens)
    concurrent = asyncio.Semaphore(CONCURRENT_GROUPS)
    renderer, options = cfg.renderer(), cfg.options()

    async def pass_rate(example: Example) -> float:
        builder = SciSciGroupBuilder(cfg.env, example, renderer, cfg.model_name, attempts, options)
        async with concurrent:
            group = await do_group_rollout(builder, policy)
        right = [
            max((step.metrics.get("correct", 0.0) for step in trajectory.transitions), default=0.0)
            for trajectory in group.trajectories_G
        ]
        return sum(right) / len(right)

    examples = spec(cfg.env).examples(load_papers(cfg.dataset, "train"), cfg.seed)
    rates = await asyncio.gather(*map(pass_rate, examples))
    write_json_atomically(path, {example_key(e): rate for e, rate in zip(examples, rates, strict=True)})
