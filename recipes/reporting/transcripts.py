"""Episodes of a training run as text, from the logs that the cookbook writes beside its metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...envs.training.transcripts import EPISODE

_ITERATION = re.compile(r"iteration_(\d+)")


@dataclass(frozen=True)
class LoggedEpisode:
    """An episode that a run logged in full.

    Parameters
    ----------
    step : int
        Updates that the policy had had.
    number : int
        Of the episode within the step's log, from 0.
    data : mapping
        See `EpisodeLog.to_data`.
    """

    step: int
    number: int
    data: Mapping[str, Any]

    @property
    def right(self) -> bool:
        """Whether the label said was the right one."""
        return self.data["predicted"] == self.data["expected"]

    @property
    def title(self) -> str:
        return f"step {self.step}, rollout {self.number}: {self.data['example_id']}"


def episodes_of(run: str | Path, most: int = 48, per_step: int = 4) -> list[LoggedEpisode]:
    """Episodes of a run's training steps, oldest first: the first few of evenly spread steps, the last one among them.

    Parameters
    ----------
    run : path
        A run's folder. A run of another recipe than RL logs no episodes.
    most : int
        At most so many in all.
    per_step : int
        At most so many of a step.
    """
    logs = sorted(Path(run).glob("iteration_*/train_logtree.json"))
    wanted = max(1, most // per_step)
    if len(logs) > wanted:
        logs = [logs[round(at * (len(logs) - 1) / max(1, wanted - 1))] for at in range(wanted)]
    found = [episode for log in dict.fromkeys(logs) for episode in episodes_in(log)[:per_step]]
    return found[:most]


def episodes_in(log: Path) -> list[LoggedEpisode]:
    """All episodes in one `*_logtree.json`. A file that is still being written has none yet."""
    try:
        tree = json.loads(log.read_text())
    except json.JSONDecodeError:
        return []
    match = _ITERATION.search(log.parent.name)
    step = int(match.group(1)) if match else 0
    return [LoggedEpisode(step, number, data) for number, data in enumerate(_episodes(tree.get("root", {})))]


def _episodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(node, Mapping):
        return
    data = node.get("data")
    if isinstance(data, Mapping) and data.get("type") == EPISODE:
        yield data
    for child in node.get("children", []):
        yield from _episodes(child)
