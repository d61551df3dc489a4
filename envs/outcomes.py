"""What became of the rollouts of a group, as metrics that can be averaged: cut off or not, and which label was said."""

from __future__ import annotations

from tinker_cookbook.rl.types import Metrics, Trajectory

from .base import SciSciEnv

CUT_OFF = ("max_tokens_reached", "context_overflow")
"""What the cookbook says about an episode that a token limit ended; it says nothing about the others, so that the
average of its own metric is 1 or absent."""


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
    said = str(steps[-1].logs.get("predicted", "")) if steps else ""
    return {
        "truncated": float(any(name in step.metrics for step in steps for name in CUT_OFF)),
        **{f"predicted/{label}": float(said == label) for label in env.labels},
        **{f"expected/{label}": float(env.gold_label == label) for label in env.labels},
    }
