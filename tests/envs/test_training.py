"""Every environment through the unmodified RL loop of the cookbook, on the local engine."""

import asyncio
import json
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import tinker
from tinker_cookbook.completers import TinkerTokenCompleter, TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl import train
from tinker_cookbook.rl.message_env import EnvFromMessageEnv
from tinker_cookbook.rl.rollouts import do_group_rollout, set_rollout_executor
from tinker_cookbook.tokenizer_utils import get_tokenizer

from scisci_gym import Paper, spec, specs
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.adversarial import AdversarialDisruptionEnv
from scisci_gym.envs.challengers import CompleterChallenger
from scisci_gym.envs.completers import TinkerCompleter
from scisci_gym.envs.groups import SciSciDatasetBuilder, SciSciGroupBuilder
from scisci_gym.envs.samples import sample_papers

ENVS = [env_class.env_id for env_class in specs()]
# Its two sides have names of their own for being right.
RATE = {"disruption-selfplay-v0": "objector_format_valid"}


@pytest.fixture(scope="module")
def folder(tiny_model, tmp_path_factory) -> Path:
    """A dataset of the built-in papers, and the tiny model: what it writes does not matter here."""
    folder = tmp_path_factory.mktemp("training")
    papers = sample_papers()
    save_dataset(folder / "data", {"train": papers, "validation": papers, "test": papers})
    (folder / "model").symlink_to(tiny_model)
    return folder


@pytest.fixture(autouse=True)
def _environment(engine):
    os.environ.update(engine.environment)


def run(env_id: str, folder: Path, log_path: Path, steps: int = 3) -> list[dict[str, float]]:
    """Metrics of a run, step by step."""
    model = str(folder / "model")
    builder = SciSciDatasetBuilder(
        env_id=env_id,
        dataset=str(folder / "data"),
        renderer_name="qwen3_instruct",
        tokenizer_name=model,
        groups_per_batch=2,
        group_size=4,
        batches=steps,
        held_out=2,
        options={"prompt": "short"},
    )
    config = train.Config(
        learning_rate=1e-3,
        dataset_builder=builder,
        model_name=model,
        recipe_name="scisci_gym_test",
        renderer_name="qwen3_instruct",
        max_tokens=10,
        log_path=str(log_path),
        eval_every=steps,
        save_every=0,
        lora_rank=4,
    )
    asyncio.run(train.main(config))
    return [json.loads(line) for line in (log_path / "metrics.jsonl").read_text().splitlines()]


def check(env_id: str, logged: list[dict[str, float]], steps: int = 3) -> None:
    assert len([line for line in logged if "env/all/reward/total" in line]) == steps
    low, high = spec(env_id).reward_range
    for line in logged:
        if "env/all/reward/total" not in line:
            continue
        assert low <= line["env/all/reward/total"] <= high
        for name in ("tie_group", "uniform_group", "tie_pair", "uniform_floor", "uniform_best"):
            assert 0 <= line[f"env/all/reward_{name}_rate"] <= 1
        assert 0 < line["env/all/reward_unique_fraction_mean"] <= 1
        for name in ("correct", "format_valid", RATE.get(env_id, "correct")):
            assert 0 <= line[f"env/all/{name}"] <= 1
    assert any("test/env/all/reward/total" in line for line in logged)


@pytest.mark.parametrize("env_id", ENVS)
def test_three_steps(env_id, folder, tmp_path):
    check(env_id, run(env_id, folder, tmp_path))


@pytest.mark.slow
def test_three_steps_of_each_with_spawned_rollout_workers(folder, tmp_path):
    """One pool for all environments: starting a worker takes longer than the steps do."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        set_rollout_executor(pool)
        try:
            for env_id in ENVS:
                check(env_id, run(env_id, folder, tmp_path / env_id))
        finally:
            set_rollout_executor(None)


class Answers(TokenCompleter):
    """Samples from the model and then says something else: the price of a real policy, and answers that are answers."""

    def __init__(self, model: str, max_tokens: int):
        self.sampler = TinkerTokenCompleter(
            tinker.ServiceClient().create_sampling_client(base_model=model), max_tokens=max_tokens
        )
        tokenizer = get_tokenizer(model)
        self.tokens = tokenizer.encode("<answer>neutral</answer><|im_end|>", add_special_tokens=False)

    async def __call__(self, model_input, stop, *, max_tokens=None):
        await self.sampler(model_input, stop)
        return TokensWithLogprobs(self.tokens, [0.0] * len(self.tokens))


def group_of(folder: Path, size: int, **options) -> SciSciGroupBuilder:
    example = spec("disruption-adversarial-v0").examples(sample_papers())[0]
    options = {"prompt": "short", "control_rate": 0.0, **options}
    model = str(folder / "model")
    return SciSciGroupBuilder("disruption-adversarial-v0", example, "qwen3_instruct", model, size, options)


def test_a_model_on_the_engine_can_be_the_challenger(folder):
    model = str(folder / "model")
    challenger = CompleterChallenger(TinkerCompleter("qwen3_instruct", model, base_model=model, max_tokens=8))
    group = asyncio.run(do_group_rollout(group_of(folder, 2, challenger=challenger), Answers(model, max_tokens=2)))
    second = group.trajectories_G[0].transitions[1]
    assert second.episode_done
    assert group.get_total_rewards() == [-1.0, -1.0]
    # Made in each process for itself: with its client it could not travel.
    assert pickle.loads(pickle.dumps(challenger)) == challenger


def test_the_hello_world_works_with_tokens(folder):
    """Any renderer of the cookbook, and its own adapter."""
    paper = Paper(openalex_id="W1", title="On ice", abstract="Water flows uphill under it, we find.", cd_index=0.4)

    async def run():
        tokenizer = get_tokenizer(str(folder / "model"))
        env = EnvFromMessageEnv(get_renderer("qwen3_instruct", tokenizer), AdversarialDisruptionEnv(paper))
        observation, stop = await env.initial_observation()
        shown = tokenizer.decode(observation.to_ints())
        action = tokenizer.encode("<answer>disruptive</answer><|im_end|>", add_special_tokens=False)
        return shown, stop, await env.step(action), await env.step(action)

    shown, stop, first, last = asyncio.run(run())
    assert "Title: On ice" in shown
    assert len(stop) == 1
    assert (first.episode_done, last.episode_done, last.reward) == (False, True, 1.2)
