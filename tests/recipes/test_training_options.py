"""All recipes learn from the same environment: the one of RL, whose options follow from the training papers."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from scisci_gym.datasets.store import load_papers, save_dataset
from scisci_gym.envs.kit.base import SciSciEnv
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.opponents.challengers import ReaderChallenger
from scisci_gym.envs.registry import make, spec
from scisci_gym.envs.training.groups import SciSciDatasetBuilder
from scisci_gym.recipes import dpo
from scisci_gym.recipes.kit import rollouts
from scisci_gym.recipes.kit.config import RecipeConfig
from scisci_gym.recipes.sft import SupervisedEnvBuilder

GAMES = ["disruption-adversarial-v0", "impact-adversarial-v0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in papers six times over: enough for a reader to be fitted on."""
    folder, papers = tmp_path_factory.mktemp("papers"), sample_papers()
    copies = [
        dataclasses.replace(paper, openalex_id=f"{paper.openalex_id}{at}", title=f"{paper.title}, {at}")
        for at in range(6)
        for paper in papers
    ]
    save_dataset(folder, {"train": copies, "validation": papers, "test": papers})
    return folder


def options_of_rl(cfg: RecipeConfig) -> dict[str, Any]:
    train, _ = asyncio.run(SciSciDatasetBuilder(**cfg.prompts(), held_out=0)())
    return train.options


def dpo_config(env: str, folder: Path, model: Path, tmp_path: Path, **given: Any) -> dpo.CLIConfig:
    return dpo.CLIConfig(env=env, dataset=str(folder), model_name=str(model), log_path=str(tmp_path), **given)


def rows(env: str, folder: Path, options: dict[str, Any], made_with: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Questions and answers that SFT learns from, and those of environments that are made with `made_with`."""
    builder = SupervisedEnvBuilder(
        env_id=env, dataset=str(folder), renderer_name="qwen3", tokenizer_name="none", options=options
    )
    learned = [tuple(m["content"] for m in row) for row in asyncio.run(builder.conversations("train", None))]

    def row(one: SciSciEnv) -> tuple[Any, ...]:
        return *(message["content"] for message in asyncio.run(one.initial_observation())), one.gold_answer()

    examples = spec(env).examples(load_papers(folder, "train"), 0)
    return sorted(learned), sorted(row(make(env, *example, **made_with)) for example in examples)


@pytest.mark.parametrize("env", GAMES)
def test_sft_imitates_the_answers_that_rl_pays(env: str, folder: Path, tmp_path: Path) -> None:
    cfg = dpo_config(env, folder, tmp_path, tmp_path, renderer_name="qwen3")
    learned, paid = rows(env, folder, {}, options_of_rl(cfg))
    assert learned == paid
    assert learned != rows(env, folder, {"reasons": "quotes"}, {})[0], "what the user sets comes first"


@pytest.mark.parametrize("env", ["disruption-v0", "novelty-v0"])
def test_questions_of_one_turn_need_no_training_papers(env: str, folder: Path) -> None:
    learned, plain = rows(env, folder, {"prompt": "short"}, {"prompt": "short"})
    assert learned == plain


@pytest.mark.parametrize("env", GAMES)
def test_gold_pairs_are_about_the_challenges_of_rl(
    env: str, folder: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = dpo_config(env, folder, tiny_model, tmp_path, renderer_name="qwen3_instruct", rows=6)
    expected, made = options_of_rl(cfg), []

    def listening(*arguments: Any, **options: Any) -> SciSciEnv:
        made.append(make(*arguments, **options))
        assert {name: options[name] for name in expected} == expected
        return made[-1]

    monkeypatch.setattr(dpo, "make", listening)
    asyncio.run(dpo.store_pairs(cfg, None))
    assert len(made) == 6
    assert all(isinstance(vars(one)["challenger"], ReaderChallenger) for one in made)


@pytest.mark.parametrize("env", [*GAMES, "cd-forecast-v1", "disruption-forecast-v1", "disruption-v0"])
def test_rollouts_before_training_are_those_of_rl(
    env: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sampled pairs of DPO, and the pass rates that a curriculum goes by."""
    played = []

    async def play(builder: Any, policy: Any) -> None:
        played.append(builder.options)

    monkeypatch.setattr(rollouts, "do_group_rollout", play)
    monkeypatch.setattr(rollouts, "starting_policy", lambda *_: None)
    monkeypatch.setattr(rollouts.tinker, "ServiceClient", lambda: None)
    cfg = dpo_config(env, folder, tmp_path, tmp_path, renderer_name="qwen3", env_options="prompt=short")
    examples = spec(env).examples(load_papers(folder, "train"), 0)[:2]
    asyncio.run(rollouts.sampled_groups(cfg, None, examples, 2))
    assert played == [options_of_rl(cfg)] * 2
    assert played[0]["prompt"] == "short"
