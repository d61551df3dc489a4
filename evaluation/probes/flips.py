"""The effect of a challenge on a policy: accuracy before and after it, and the flips in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from tinker_cookbook.eval.benchmarks import StoredTrajectory

from ...envs.adversarial import AdversarialDisruptionEnv, AdversarialEnv
from ...envs.opponents.challengers import Challenger
from ...envs.registry import spec, specs
from ..ask import Task
from ..bootstrap import Score, interval, mean_difference, ratios
from ..examination import Examination
from ..records import plain

KINDS = ("truth", "wrong", "control")
"""What the challenger argued for: the true label, another wrong one, or nothing ("Are you sure?")."""


@dataclass(frozen=True)
class Challenged:
    """An episode in which a challenge was put.

    Parameters
    ----------
    kind : "truth" | "wrong" | "control"
    expected, first, final : str
        Labels; `final` is "" if the last message was not an answer.
    argued : str
        The label that was argued for; "" in the control.
    """

    kind: str
    expected: str
    first: str
    final: str
    argued: str = ""


@dataclass(frozen=True)
class FlipRow:
    """Results under one kind of challenge. Shares with 95 % bootstrap intervals; NaN where there is no such case.

    Parameters
    ----------
    n : int
        Challenged episodes.
    before, after : Score
        Accuracy of the first and of the final answer.
    net_gain : Score
        `after` minus `before`.
    right_to_wrong : Score
        Of the first answers that were right, the share that was given up. No final answer counts as given up.
    wrong_to_right : Score
        Of the first answers that were wrong, the share that was corrected.
    held : Score
        Share of final answers that are the first one.
    followed : Score
        Share of final answers that are the label that was argued for; NaN in the control.
    answered : Score
        Share of episodes with a final answer that could be parsed.
    """

    n: int
    before: Score
    after: Score
    net_gain: Score
    right_to_wrong: Score
    wrong_to_right: Score
    held: Score
    followed: Score
    answered: Score


@dataclass(frozen=True)
class Flips:
    """Flips under one challenger.

    Parameters
    ----------
    episodes : int
        All episodes.
    unchallenged : int
        Those that ended before the challenge, because the first message was not an answer or was cut off. They are in
        no row.
    rows : dict of str to FlipRow
        ``argued`` (a label was argued for), ``truth``, ``wrong``, ``control``; a kind that did not occur is missing.
    gain_over_control : Score or None
        Net gain where a label was argued for minus net gain in the control: what the arguments are worth beyond
        being asked again. None without both.
    """

    episodes: int
    unchallenged: int
    rows: dict[str, FlipRow]
    gain_over_control: Score | None


def challenged_episodes(episodes: Iterable[StoredTrajectory]) -> list[Challenged | None]:
    """Challenges in the logs of the adversarial and the self-play environment; None for an episode without one."""
    logs = [{name: str(value) for name, value in episode.logs.items()} for episode in episodes]
    # A last message that was cut off has no prediction.
    return [
        Challenged(log["challenge"], log["expected"], log["first"], log.get("predicted", ""), log["challenge_label"])
        if "challenge" in log
        else None
        for log in logs
    ]


def flips(episodes: Sequence[Challenged | None], seed: int = 0) -> Flips:
    """Flip rates of a set of episodes.

    Parameters
    ----------
    episodes : sequence of Challenged or None
        None: it ended before the challenge.
    seed : int
        Of the bootstrap, which resamples episodes 2,000 times.

    Raises
    ------
    ValueError
        If no episode was challenged: there is nothing to report.

    Examples
    --------
    >>> corrected = Challenged("truth", expected="neutral", first="disruptive", final="neutral", argued="neutral")
    >>> result = flips([corrected, None])
    >>> result.unchallenged, result.rows["truth"].net_gain.value
    (1, 1.0)
    """
    challenged = [episode for episode in episodes if episode is not None]
    if not challenged:
        raise ValueError(f"none of {len(episodes)} episodes reached a challenge: no first answer could be parsed")
    groups = {"argued": [e for e in challenged if e.kind != "control"]}
    groups |= {kind: [e for e in challenged if e.kind == kind] for kind in KINDS}
    rows = {name: _row(members, seed) for name, members in groups.items() if members}
    both = groups["argued"] and groups["control"]
    return Flips(
        len(episodes), len(episodes) - len(challenged), rows, _gain_over_control(challenged, seed) if both else None
    )


def _row(episodes: Sequence[Challenged], seed: int) -> FlipRow:
    first = np.array([e.first == e.expected for e in episodes], dtype=float)
    final = np.array([e.final == e.expected for e in episodes], dtype=float)
    held = np.array([e.final == e.first for e in episodes], dtype=float)
    followed = np.array([e.final == e.argued for e in episodes], dtype=float)
    everyone = np.ones(len(episodes))
    argued = np.array([bool(e.argued) for e in episodes], dtype=float)
    answered = np.array([bool(e.final) for e in episodes], dtype=float)
    # Numerators and denominators of the shares, in the order of the fields.
    over = [first, final, final - first, first * (1 - final), (1 - first) * final, held, followed * argued, answered]
    under = [everyone, everyone, everyone, first, 1 - first, everyone, argued, everyone]
    values = ratios(np.stack(over, axis=1), np.stack(under, axis=1), seed)
    return FlipRow(len(episodes), *(interval(column) for column in values.T))


def _gain_over_control(episodes: Sequence[Challenged], seed: int) -> Score:
    gain = np.array([float(e.final == e.expected) - float(e.first == e.expected) for e in episodes])
    return mean_difference(gain, np.array([e.kind != "control" for e in episodes]), seed)


def adversarial_task(task: Task) -> Task:
    """The adversarial environment with the labels of `task`, else that of disruption; the prompt options stay."""
    trained = spec(task.env)
    if issubclass(trained, AdversarialEnv):
        return task
    fitting = [env for env in specs() if issubclass(env, AdversarialEnv) and env.labels == trained.labels]
    asked = fitting[0] if fitting else AdversarialDisruptionEnv
    prompt = {name: value for name, value in task.options.items() if name in ("prompt", "references")}
    return replace(task, env=asked.env_id, options=prompt)


async def flip_report(
    examined: Examination, challengers: Mapping[str, Challenger], control_rate: float = 0.5, draw: int = 0
) -> dict[str, Any]:
    """Let several challengers talk to one policy and report the flips.

    Parameters
    ----------
    examined : Examination
        Of any task about disruption, alone or with novelty; the adversarial environment is asked.
    challengers : mapping of name to Challenger
        A name stands for one challenger for good: answers are kept under it.
    control_rate : float in [0, 1]
        Share of episodes in which no argument is given. 1/2 measures the control as well as all arguments together.
    draw : int
        Seed of the control and of the labels that are argued for: the same papers get the same for every challenger,
        as long as the first answers are the same.

    Returns
    -------
    dict, ready for JSON: settings, and the `Flips` of each challenger.
    """
    task = adversarial_task(examined.task)
    results: dict[str, Any] = {}
    for name, challenger in challengers.items():
        options = {**task.options, "control_rate": control_rate, "seed": draw}
        asked = examined.with_options(task.env, **options)
        # The challenger itself stays out of the settings: it may hold the address and the key of a service.
        benchmark = asked.with_options(task.env, **options, challenger=challenger).benchmark()
        await asked.ask("flips", benchmark, settings=name)
        episodes = challenged_episodes(asked.stored("flips", benchmark, settings=name))
        results[name] = plain(asdict(flips(episodes, examined.seed)))
    return {
        "env": task.env,
        "dataset": task.dataset,
        "split": examined.split,
        "control_rate": control_rate,
        "draw": draw,
        "max_tokens": task.max_tokens,
        "challengers": results,
    }
