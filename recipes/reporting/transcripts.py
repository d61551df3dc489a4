"""Episodes of a training run as text, from the logs that the cookbook writes beside its metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ...envs.training.outcomes import EPISODE
from ..monitoring.metrics import run_store

# A message's begin in ChatML, with its role; the header after which the policy answers; and any special token.
_ROLE, _HEADER, _TOKEN = re.compile(r"<\|im_start\|>(\w+)"), re.compile(r"\[assistant\]\s*$"), re.compile(r"<\|\w+\|>")


@dataclass(frozen=True)
class LoggedEpisode:
    """An episode that a run logged in full: the updates that its policy had had, its index in the log of the step, and
    its content (`EpisodeLog.to_data`)."""

    step: int
    number: int
    data: Mapping[str, Any]

    @property
    def right(self) -> bool:
        """Whether the policy's label was the right one."""
        return self.data["predicted"] == self.data["expected"]

    @property
    def title(self) -> str:
        """Step, index and paper, for headings."""
        return f"step {self.step}, rollout {self.number}: {self.data['example_id']}"


def episodes_of(run: str | Path, most: int = 48, per_step: int = 4) -> list[LoggedEpisode]:
    """Episodes of a run's training steps, oldest first: the first few of evenly spread steps, the last one among them.

    A log that is still being written has no episodes yet, and runs of other recipes than RL log none.

    Parameters
    ----------
    run : path
        A run's folder.
    most, per_step : int
        The largest number of episodes in all, and of one step.
    """
    store = run_store(run)
    steps = [iteration.iteration for iteration in store.list_iterations() if iteration.has_train_logtree]
    wanted = max(1, most // per_step)
    if len(steps) > wanted:
        steps = [steps[round(i * (len(steps) - 1) / max(1, wanted - 1))] for i in range(wanted)]
    episodes = []
    for step in dict.fromkeys(steps):
        logged = islice(_episodes((store.read_logtree(step) or {}).get("root")), per_step)
        episodes += [LoggedEpisode(step, number, data) for number, data in enumerate(logged)]
    return episodes[:most]


def readable_prompt(text: str) -> str:
    """A logged prompt without the special tokens of its chat template. Roles other than the user's are in brackets.

    Examples
    --------
    >>> turn = "<|im_start|>{}\\n{}<|im_end|>\\n"
    >>> readable_prompt(turn.format("system", "Be brief.") + turn.format("user", "Who?") + "<|im_start|>assistant\\n")
    '[system]\\nBe brief.\\nWho?'
    """
    named = _HEADER.sub("", _TOKEN.sub("", _ROLE.sub(r"[\1]", text)))
    return named.replace("[user]\n", "").strip()


def _episodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(node, Mapping):
        return
    data = node.get("data")
    if isinstance(data, Mapping) and data.get("type") == EPISODE:
        yield data
    for child in node.get("children", []):
        yield from _episodes(child)
