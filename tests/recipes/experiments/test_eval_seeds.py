"""`eval --seed`: another seed draws other answers, and does not take those that an earlier one has left."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from scisci_gym.evaluation.ask import Answer, Policy, Task
from scisci_gym.evaluation.leaderboard import LeaderboardOptions
from scisci_gym.recipes.experiments import assessment
from scisci_gym.recipes.experiments.evaluate import Contestant


def test_sampled_answers_of_another_seed_are_asked_for_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "card.json").write_text(json.dumps({"content_hash": "0"}))
    asked: list[tuple[float, Path]] = []

    async def ask(*_: Any, temperature: float, save_dir: Path, **__: Any) -> list[Answer]:
        asked.append((temperature, save_dir))
        return []

    monkeypatch.setattr(assessment, "policy_answers", ask)
    task = Task("disruption-v0", {}, str(tmp_path), "model", "role_colon", 8)
    contestant = Contestant("run", task, Policy("run", "tinker://a/sampler_weights/b"), None, "checkpoints")
    for seed in (0, 1, 1):
        options = LeaderboardOptions(str(tmp_path), tmp_path / "eval", sampled=True, seed=seed)
        asyncio.run(contestant.answers(options))
    folders = {temperature: [folder for t, folder in asked if t == temperature] for temperature in (0.0, 1.0)}
    assert len(set(folders[0.0])) == 1, "greedy answers have no seed"
    first, other, again = folders[1.0]
    assert first != other == again
