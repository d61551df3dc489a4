"""The effect of a challenge on a policy: accuracy before and after it, and the flips in both directions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tinker_cookbook.eval.benchmarks import StoredTrajectory

from ...envs.adversarial import AdversarialDisruptionEnv, AdversarialEnv
from ...envs.kit.base import SciSciEnv
from ...envs.opponents.challengers import Challenger, ReaderChallenger
from ...envs.registry import spec, specs
from ..ask import Task
from ..bootstrap import mean_difference, mean_scores
from ..examination import Examination
from ..records import plain

READER = "reader"
KINDS = ("truth", "wrong", "control")
"""What the challenger argued for: the true label, another wrong one, or nothing ("Are you sure?")."""


@dataclass(frozen=True)
class Challenged:
    """An episode in which a challenge was put.

    Of the labels, `final` is "" if the last message was not an answer, and `argued`, the one that was argued for, is ""
    in the control. `kind` is one of `KINDS`.
    """

    kind: str
    expected: str
    first: str
    final: str
    argued: str = ""


def challenged(episode: StoredTrajectory) -> Challenged | None:
    """The challenge in the logs of the adversarial or the self-play environment; None for an episode without one."""
    log = {name: str(value) for name, value in episode.logs.items()}
    if "challenge" not in log:
        return None
    # A last message that was cut off has no prediction.
    return Challenged(log["challenge"], log["expected"], log["first"], log.get("predicted", ""), log["challenge_label"])


def flips(episodes: Sequence[Challenged | None], seed: int = 0) -> dict[str, Any]:
    """Flip rates of a set of episodes under one challenger.

    None stands for an episode that ended before the challenge, because the first message was not an answer or was cut
    off. The `seed` is that of the bootstrap, which resamples episodes 2,000 times.

    Returns
    -------
    dict
        ``episodes`` : int, all of them. ``unchallenged`` : int, those that ended before the challenge.

        ``rows`` : results where a label was argued for (``argued``), where it was the true one (``truth``), another one
        (``wrong``), or where nothing was argued (``control``). A kind that did not occur is missing. Each has the
        number ``n`` of challenged episodes, and as `Score`, NaN where there is no such case: the accuracy of the first
        and of the final answer (``before``, ``after``) and their difference (``net_gain``); of the right first answers
        the share that was given up, no final answer included (``right_to_wrong``); of the wrong ones the share that was
        corrected (``wrong_to_right``); the shares of final answers that are the first one (``held``) and that are the
        label that was argued for (``followed``); and the share that could be parsed (``answered``).

        ``gain_over_control`` : Score or None. Net gain where a label was argued for minus net gain in the control: what
        the arguments are worth beyond being asked again. None without both.

    If no episode was challenged there are no ``rows``.

    Examples
    --------
    >>> corrected = Challenged("truth", expected="neutral", first="disruptive", final="neutral", argued="neutral")
    >>> result = flips([corrected, None])
    >>> result["unchallenged"], result["rows"]["truth"]["net_gain"].value
    (1, 1.0)
    """
    reached = [episode for episode in episodes if episode is not None]
    groups = {"argued": [e for e in reached if e.kind != "control"]}
    groups |= {kind: [e for e in reached if e.kind == kind] for kind in KINDS}
    gain = None
    if groups["argued"] and groups["control"]:
        gains = np.array([float(e.final == e.expected) - float(e.first == e.expected) for e in reached])
        gain = mean_difference(gains, np.array([e.kind != "control" for e in reached]), seed)
    return {
        "episodes": len(episodes),
        "unchallenged": len(episodes) - len(reached),
        "rows": {name: _row(members, seed) for name, members in groups.items() if members},
        "gain_over_control": gain,
    }


def _row(episodes: Sequence[Challenged], seed: int) -> dict[str, Any]:
    expected, first, final, argued = (
        np.array([getattr(e, name) for e in episodes]) for name in ("expected", "first", "final", "argued")
    )
    before, after = (first == expected).astype(float), (final == expected).astype(float)
    columns = {
        "before": before,
        "after": after,
        "net_gain": after - before,
        "right_to_wrong": 1 - after,
        "wrong_to_right": after,
        "held": final == first,
        "followed": final == argued,
        "answered": final != "",
    }
    about = {"right_to_wrong": before, "wrong_to_right": 1 - before, "followed": argued != ""}
    return {"n": len(episodes), **mean_scores(columns, about, seed=seed)}


def challenging_env(trained: type[SciSciEnv]) -> type[AdversarialEnv] | None:
    """The adversarial environment with the labels of another one; None where nobody challenges such answers."""
    fitting = [env for env in specs() if issubclass(env, AdversarialEnv) and env.labels == trained.labels]
    return fitting[0] if fitting else None


def adversarial_task(task: Task) -> Task:
    """The adversarial environment with the labels of `task`, else that of disruption, with the same prompt options."""
    trained = spec(task.env)
    if issubclass(trained, AdversarialEnv):
        return task
    asked = challenging_env(trained) or AdversarialDisruptionEnv
    prompt = {name: value for name, value in task.options.items() if name in ("prompt", "references")}
    return replace(task, env=asked.env_id, options=prompt)


async def flip_report(
    examined: Examination,
    challengers: Mapping[str, Challenger] | None = None,
    control_rate: float = 0.5,
    draw: int = 0,
) -> dict[str, Any]:
    """Let several challengers talk to one policy and report the flips.

    `examined` is of any task about disruption, alone or with novelty; the adversarial environment is asked. The name of
    a challenger stands for it for good: answers are kept under it. None: the reader of the training papers, under the
    name `READER`. `control_rate` is the share of episodes in which no
    argument is given; 1/2 measures the control as well as all arguments together. `draw` is the seed of the control and
    of the labels that are argued for: the same papers get the same for every challenger, as long as the first answers
    are the same.

    Returns, ready for JSON, settings, and ``challengers``: the result of `flips` for each.
    """
    task = adversarial_task(examined.task)
    challengers = {READER: ReaderChallenger(task.dataset)} if challengers is None else challengers
    results: dict[str, Any] = {}
    for name, challenger in challengers.items():
        options = {**task.options, "control_rate": control_rate, "seed": draw}
        asked = examined.with_options(task.env, **options)
        # The challenger itself stays out of the settings: it may hold the address and the key of a service.
        benchmark = asked.with_options(task.env, **options, challenger=challenger).benchmark()
        await asked.ask("flips", benchmark, settings=name)
        episodes = [challenged(episode) for episode in asked.stored("flips", benchmark, settings=name)]
        results[name] = plain(flips(episodes, examined.seed))
    return {
        "env": task.env,
        "dataset": task.dataset,
        "split": examined.split,
        "control_rate": control_rate,
        "draw": draw,
        "max_tokens": task.max_tokens,
        "challengers": results,
    }
