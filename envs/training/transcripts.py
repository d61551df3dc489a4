"""Episodes in the cookbook's logs of a training step: the text exactly as the policy saw it, for people to read."""

import html
from dataclasses import dataclass
from typing import Any

from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.types import Trajectory

from ..kit.base import SciSciEnv

EPISODE = "scisci-gym/episode"
"""`type` of the data of an episode in `iteration_*/*_logtree.json`."""


@dataclass(frozen=True)
class EpisodeLog:
    """One episode, for `logtree.log_formatter`. Its tokens are decoded only if the cookbook logs its group.

    `reward` is the total of the episode, including `group_reward`.
    """

    renderer: Renderer
    trajectory: Trajectory
    env: SciSciEnv
    reward: float

    def to_data(self) -> dict[str, Any]:
        """``type``, ``example_id``, ``turns`` (pairs of the new part of the prompt and the answer), ``reward``, and the
        labels ``expected`` and ``predicted`` (the latter is "" where the answer could not be parsed)."""
        steps = self.trajectory.transitions
        return {
            "type": EPISODE,
            "example_id": self.env.example_id,
            "turns": self.turns(),
            "reward": self.reward,
            "expected": self.env.gold_label,
            "predicted": str(steps[-1].logs.get("predicted", "")) if steps else "",
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
        """The page needs no style of its own for episodes."""
        return ""
