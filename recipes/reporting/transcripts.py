"""Episodes of a training run as text, from the logs that the cookbook writes beside its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ...envs.training.transcripts import EPISODE
from ..monitoring.metrics import run_store


@dataclass(frozen=True)
class LoggedEpisode:
    """An episode that a run logged in full.

    Parameters
    ----------
    step : int
        The number of updates that the policy had had.
    number : int
        Index of the episode within the step's log.
    data : mapping
        See `EpisodeLog.to_data`.
    """

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

    A log that is still being written has no episodes yet.

    Parameters
    ----------
    run : path
        A run's folder. A run of another recipe than RL logs no episodes.
    most : int
        The largest number of episodes in all.
    per_step : int
        The largest number of episodes of one step.
    """
    store = run_store(run)
    steps = [iteration.iteration for iteration in store.list_iterations() if iteration.has_train_logtree]
    wanted = max(1, most // per_step)
    if len(steps) > wanted:
        steps = [steps[round(i * (len(steps) - 1) / max(1, wanted - 1))] for i in range(wanted)]
    episodes = []
    for step in dict.fromkeys(steps):
        tree = store.read_logtree(step) or {}
        logged = islice(_episodes(tree.get("root")), per_step)
        episodes += [LoggedEpisode(step, number, data) for number, data in enumerate(logged)]
    return episodes[:most]


def _episodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(node, Mapping):
        return
    data = node.get("data")
    if isinstance(data, Mapping) and data.get("type") == EPISODE:
        yield data
    for child in node.get("children", []):
        yield from _episodes(child)
