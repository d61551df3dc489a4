"""Seeds of evaluations: another seed draws other answers, and so does every attempt at the same example."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scisci_gym.datasets.store import save_dataset
from scisci_gym.engine import run_seed
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.evaluation.ask import Answer, Policy, Task
from scisci_gym.evaluation.examination import Examination
from scisci_gym.evaluation.leaderboard import LeaderboardOptions
from scisci_gym.evaluation.probes.pass_rates import sampled_pass_rates
from scisci_gym.recipes.experiments import assessment, learnable
from scisci_gym.recipes.experiments.evaluate import Contestant
from scisci_gym.recipes.kit.engines import open_engine


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


@pytest.fixture
def short_task(tiny_model: Path, tmp_path: Path) -> Task:
    """Short questions about the built-in papers to a model that hardly knows anything, and so answers at random."""
    papers = sample_papers()
    save_dataset(tmp_path / "data", {"train": papers, "validation": papers, "test": papers})
    options = {"prompt": "short"}
    return Task("disruption-v0", options, str(tmp_path / "data"), str(tiny_model), "qwen3_instruct", max_tokens=6)


def test_attempts_are_other_draws_however_many_calls_make_them(
    short_task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[str]] = []
    ask, policy = Examination.ask, Policy("base")

    async def listening(*args: Any, **options: Any) -> list[Answer]:
        answers = await ask(*args, **options)
        drawn.append([answer.text for answer in answers])
        return answers

    monkeypatch.setattr(Examination, "ask", listening)

    async def attempts(count: int, folder: str) -> list[list[str]]:
        drawn.clear()
        examined = Examination(short_task, await policy.client(short_task), tmp_path / folder)
        await sampled_pass_rates(examined, count, partial(assessment.client_of_seed, policy, short_task))
        return list(drawn)

    with open_engine("local", tmp_path / "checkpoints"), run_seed(0):
        at_once = asyncio.run(attempts(4, "at once"))
        first = asyncio.run(attempts(2, "in two calls"))
        later = asyncio.run(attempts(4, "in two calls"))
    assert first == at_once[:2]
    assert later == at_once
    assert len({tuple(texts) for texts in at_once}) == 4


def test_attempts_of_a_certificate_are_other_draws(short_task: Task, tmp_path: Path) -> None:
    settings = learnable.LearnableSettings(examples=9, attempts=3)
    with open_engine("local", tmp_path / "checkpoints"), run_seed(5):
        _, _, sampled = asyncio.run(learnable._ask(short_task, Policy("base"), settings, 5))
    assert len({tuple(answer.text for answer in answers) for answers in sampled}) == 3
