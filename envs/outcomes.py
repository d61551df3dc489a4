"""What became of the rollouts of a group, as metrics that can be averaged: cut off or not, and which label was said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tinker_cookbook.rl.types import Metrics, Trajectory

from .base import SciSciEnv

CUT_OFF = ("max_tokens_reached", "context_overflow")
"""What the cookbook says about an episode that a token limit ended; it says nothing about the others, so that the
average of its own metric is 1 or absent."""


def majority_metrics(trajectories: Sequence[Trajectory], labels: Sequence[str]) -> Metrics:
    """What a group says most often, the same for all of its rollouts: about what the policy would answer greedily.

    Parameters
    ----------
    trajectories : sequence of Trajectory
        Finished rollouts of one prompt.
    labels : sequence of str
        Of the environment; without labels there are no metrics.

    Returns
    -------
    dict
        ``majority/<label>``: 1 for the label that most rollouts answered, parts of 1 for labels that tie, 0 for all
        where no answer could be parsed. Averages over groups are shares. Sampled shares can stay even while a label is
        never the most probable one for any paper; these do not.
    """
    counts = Counter(said(trajectory) for trajectory in trajectories)
    most = max((counts[label] for label in labels), default=0)
    winners = [label for label in labels if most and counts[label] == most]
    return {f"majority/{label}": (label in winners) / max(len(winners), 1) for label in labels}


def said(trajectory: Trajectory) -> str:
    """The label of the last answer; "" where none could be parsed."""
    steps = trajectory.transitions
    return str(steps[-1].logs.get("predicted", "")) if steps else ""


def outcome_metrics(trajectory: Trajectory, env: SciSciEnv) -> Metrics:
    """Metrics of one rollout whose averages over rollouts are shares.

    Parameters
    ----------
    trajectory : Trajectory
        A finished one.
    env : SciSciEnv
        The environment it was in.

    Returns
    -------
    dict
        ``truncated``: 1 if a token limit ended the episode. For environments with labels, ``predicted/<label>``: 1 for
        the label of the last answer (all 0 where none could be parsed), and ``expected/<label>``: 1 for the right one.
        The first shows a policy that says the same label to everything, the second how often that would be right.
    """
    steps = trajectory.transitions
    return {
        "truncated": float(any(name in step.metrics for step in steps for name in CUT_OFF)),
        **{f"predicted/{label}": float(said(trajectory) == label) for label in env.labels},
        **{f"expected/{label}": float(env.gold_label == label) for label in env.labels},
    }
