"""What became of the rollouts of a group, as metrics that can be averaged: cut off, unparsed or wrong; its label."""

from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.types import Metrics, Trajectory

from ..compat import CUT_OFF_METRICS
from ..kit.base import SciSciEnv
from ..kit.renderers import ends_in_thinking

ANSWERED = ("format_valid", "objector_format_valid")
PROMPT_END = 8
"""Tokens at the end of a prompt in which it may begin the policy's thinking."""


def outcome_metrics(trajectory: Trajectory, env: SciSciEnv, reward: float, renderer: Renderer) -> Metrics:
    """Metrics of one rollout whose averages over rollouts are shares.

    `reward` is the total of the rollout, with what only the end of the group showed; `renderer` wrote its prompts.

    Returns
    -------
    dict
        ``at_floor``: 1 if the reward is the least there is. It is the sum of three: ``truncated``: 1 if a token limit
        ended the episode. ``no_answer``: 1 if it ended by itself, with a message that holds no answer.
        ``at_floor_wrong``: 1 if an answer was there and earned no more than none would have. ``truncated_thinking``: 1
        if it was truncated before its thinking had ended.

        For environments with labels, ``predicted/<label>``: 1 for the label of the last answer (all 0 where none could
        be parsed), and ``expected/<label>``: 1 for the right one. The first shows a policy that always answers the same
        label, the second how often that would be right.
    """
    steps = trajectory.transitions
    predicted = str(steps[-1].logs.get("predicted", "")) if steps else ""
    truncated = any(name in step.metrics for step in steps for name in CUT_OFF_METRICS)
    # The last step says whether there was an answer; both sides of a game have a name for it.
    answered = bool(steps) and any(steps[-1].metrics.get(name, 0.0) > 0 for name in ANSWERED)
    at_floor = reward <= env.reward_range[0]
    return {
        "truncated": float(truncated),
        "truncated_thinking": float(truncated and _stopped_thinking(trajectory, renderer)),
        "no_answer": float(not truncated and not answered),
        "at_floor": float(at_floor),
        "at_floor_wrong": float(at_floor and answered and not truncated),
        **{f"predicted/{label}": float(predicted == label) for label in env.labels},
        **{f"expected/{label}": float(env.gold_label == label) for label in env.labels},
    }


def _stopped_thinking(trajectory: Trajectory, renderer: Renderer) -> bool:
    last = trajectory.transitions[-1]
    return ends_in_thinking(str(renderer.tokenizer.decode([*last.ob.to_ints()[-PROMPT_END:], *last.ac.tokens])))
