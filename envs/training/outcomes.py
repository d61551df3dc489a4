"""What became of the rollouts of a group: metrics that can be averaged, and the text that the policy saw and wrote."""

import html
from dataclasses import dataclass
from typing import Any

from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.types import Metrics, Trajectory

from ..compat import CUT_OFF_METRICS
from ..kit.base import SciSciEnv
from ..kit.renderers import ends_in_thinking

ANSWERED = ("format_valid", "objector_format_valid")
PROMPT_END = 8
"""Tokens at the end of a prompt in which it may begin the policy's thinking."""
EPISODE = "scisci-gym/episode"
"""`type` of the data of an episode in the cookbook's logs of a training step, `iteration_*/*_logtree.json`."""


def outcome_metrics(trajectory: Trajectory, env: SciSciEnv, reward: float, renderer: Renderer) -> Metrics:
    """Metrics of one rollout whose averages over rollouts are shares.

    `reward` is the total of the rollout, with what only the end of the group showed; `renderer` wrote its prompts.

    ``at_floor``: 1 if the reward is the least there is. It is the sum of three: ``truncated``: 1 if a token limit ended
    the episode. ``no_answer``: 1 if it ended by itself, with a message that holds no answer. ``at_floor_wrong``: 1 if
    an answer was there and earned no more than none would have. ``truncated_thinking``: 1 if it was truncated before
    its thinking had ended.

    For environments with labels, ``predicted/<label>``: 1 for the label of the last answer (all 0 where none could be
    parsed), and ``expected/<label>``: 1 for the right one. The first shows a policy that always answers the same label,
    the second how often that would be right.
    """
    steps, predicted = trajectory.transitions, _predicted(trajectory)
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


def _predicted(trajectory: Trajectory) -> str:
    """The label of the last answer, "" where it could not be parsed."""
    steps = trajectory.transitions
    return str(steps[-1].logs.get("predicted", "")) if steps else ""


def _stopped_thinking(trajectory: Trajectory, renderer: Renderer) -> bool:
    last = trajectory.transitions[-1]
    return ends_in_thinking(str(renderer.tokenizer.decode([*last.ob.to_ints()[-PROMPT_END:], *last.ac.tokens])))


@dataclass(frozen=True)
class EpisodeLog:
    """One episode for people to read, by `logtree.log_formatter`: the text exactly as the policy saw it.

    Its tokens are decoded only if the cookbook logs its group. `reward` is the total of the episode, including
    `group_reward`.
    """

    renderer: Renderer
    trajectory: Trajectory
    env: SciSciEnv
    reward: float

    def to_data(self) -> dict[str, Any]:
        """``type``, ``example_id``, ``turns`` (pairs of the new part of the prompt and the answer), ``reward``, and the
        labels ``expected`` and ``predicted`` (the latter is "" where the answer could not be parsed)."""
        return {
            "type": EPISODE,
            "example_id": self.env.example_id,
            "turns": self.turns(),
            "reward": self.reward,
            "expected": self.env.gold_label,
            "predicted": _predicted(self.trajectory),
        }

    def turns(self) -> list[tuple[str, str]]:
        """For every turn, as text: the tokens of the prompt that were not there before, and those of the answer."""
        decode = self.renderer.tokenizer.decode
        turns, seen = [], []
        for step in self.trajectory.transitions:
            shown, answer = step.ob.to_ints(), list(step.ac.tokens)
            # The prompt of a later turn repeats the conversation so far.
            new = shown[len(seen) :] if shown[: len(seen)] == seen else shown
            turns.append((str(decode(new)), str(decode(answer))))
            seen = shown + answer
        return turns

    def to_html(self) -> str:
        """The episode on the cookbook's own page. Text that models and papers wrote is escaped."""
        data = self.to_data()
        turns = "".join(
            f"<pre>{html.escape(asked)}</pre><pre><b>{html.escape(said)}</b></pre>" for asked, said in data["turns"]
        )
        predicted = data["predicted"] or "nothing that could be parsed"
        outcome = f"predicted: {predicted}; expected: {data['expected']}; reward: {data['reward']:.3f}"
        return f"<h5>{html.escape(data['example_id'])}</h5>{turns}<p>{html.escape(outcome)}</p>"

    def get_css(self) -> str:
        return ""  # The page needs no style of its own for episodes.
