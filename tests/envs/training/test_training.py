"""Every environment through the unmodified RL loop of the cookbook, on the local engine."""

import asyncio
import dataclasses
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
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.opponents.challengers import Challenger, CompleterChallenger
from scisci_gym.envs.opponents.models import Limits, TinkerCompleter
from scisci_gym.envs.training.groups import SciSciDatasetBuilder, SciSciGroupBuilder, SciSciTokenEnv
from scisci_gym.recipes.kit.compat import metrics_of_all_groups

ENVS = [env_class.env_id for env_class in specs()]
# Its two sides have names of their own for being right.
RATE = {"disruption-selfplay-v0": "objector_format_valid"}


@pytest.fixture(scope="module")
def folder(tiny_model, training_papers, tmp_path_factory) -> Path:
    """Two datasets of the built-in papers, the second with enough of them for the reader of every game, and the tiny
    model: what it writes does not matter here."""
    folder = tmp_path_factory.mktemp("training")
    papers = sample_papers()
    save_dataset(folder / "data", {"train": papers, "validation": papers, "test": papers})
    save_dataset(folder / "enough", {"train": training_papers, "validation": papers, "test": papers})
    (folder / "model").symlink_to(tiny_model)
    return folder


@pytest.fixture(autouse=True)
def _environment(engine):
    os.environ.update(engine.environment)


def run(
    env_id: str,
    folder: Path,
    log_path: Path,
    steps: int = 3,
    groups: int = 2,
    max_tokens=10,
    env_options=None,
    dataset: str = "data",
    **changes,
) -> list[dict[str, float]]:
    """Metrics of a run, step by step."""
    model = str(folder / "model")
    builder = SciSciDatasetBuilder(
        env_id=env_id,
        dataset=str(folder / dataset),
        renderer_name="qwen3_instruct",
        tokenizer_name=model,
        groups_per_batch=groups,
        group_size=4,
        batches=steps,
        held_out=2,
        options={"prompt": "short", **(env_options or {})},
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
        **changes,
    )
    asyncio.run(train.main(config))
    return [json.loads(line) for line in (log_path / "metrics.jsonl").read_text().splitlines()]


def check(env_id: str, logged: list[dict[str, float]], steps: int = 3) -> None:
    """The tiny model never writes an answer: every rollout of every group of four earns the floor, and nothing else."""
    trained = [line for line in logged if "env/all/reward/total" in line]
    assert len(trained) == steps
    floor = spec(env_id).reward_range[0]
    if "prior" in spec(env_id).option_names():
        # It follows from the training papers; that it is the floor is what the rate below says.
        floor = trained[0]["env/all/reward/total"]
    expected = {
        "reward/total": floor,
        "reward_tie_group_rate": 1,
        "reward_uniform_group_rate": 1,
        "reward_tie_pair_rate": 1,
        "reward_uniform_floor_rate": 1,
        "reward_uniform_best_rate": 0,
        # In self-play ties are counted among the two rollouts of a side.
        "reward_unique_fraction_mean": 1 / 2 if env_id in RATE else 1 / 4,
        "correct": 0,
        "format_valid": 0,
        RATE.get(env_id, "correct"): 0,
    }
    for line in trained:
        assert {name: line[f"env/all/{name}"] for name in expected} == expected
    assert any(line.get("test/env/all/reward/total") == floor for line in logged)


@pytest.mark.parametrize("env_id", ENVS)
def test_three_steps(env_id, folder, tmp_path):
    check(env_id, run(env_id, folder, tmp_path, dataset="enough"))


class FailsNowAndThen(Challenger):
    """Every fourth request fails."""

    limits = Limits(attempts=1)
    asked = 0

    async def argue(self, case):
        FailsNowAndThen.asked += 1
        if FailsNowAndThen.asked % 4 == 0:
            raise ConnectionError("endpoint is down")
        return "Look again."


def test_a_run_whose_challenger_fails_finishes_and_logs_how_often(folder, tmp_path, monkeypatch):
    """Whatever the tiny model wrote, the environment reads an answer, so that every first message is challenged."""
    step = SciSciTokenEnv.step
    tokens = get_tokenizer(str(folder / "model")).encode("<answer>neutral</answer><|im_end|>", add_special_tokens=False)
    monkeypatch.setattr(SciSciTokenEnv, "step", lambda self, action, **_: step(self, tokens))
    options = {"challenger": FailsNowAndThen(), "control_rate": 0.0}
    logged = run("disruption-adversarial-v0", folder, tmp_path, env_options=options)
    assert sum("env/all/reward/total" in line for line in logged) == 3
    assert FailsNowAndThen.asked >= 4
    assert any(line.get("env/all/challenger_failed", 0.0) > 0 for line in logged)


CONSTANT = {"W9000000001", "W9000000005"}
MODES = {
    "synchronous": {},
    "streaming": {"stream_minibatch_config": train.StreamMinibatchConfig(groups_per_batch=3, num_minibatches=1)},
    "asynchronous": {"async_config": train.AsyncConfig(max_steps_off_policy=1, groups_per_batch=3)},
}


@pytest.mark.parametrize("mode", MODES)
def test_metrics_are_those_of_all_groups_also_where_constant_ones_are_removed(mode, folder, tmp_path, monkeypatch):
    """Two of the nine papers always earn the same: their groups are not trained on, and are counted all the same."""
    make_envs, step = SciSciGroupBuilder.make_envs, SciSciTokenEnv.step

    async def numbered(self):
        # By the place in its group: groups of the same paper run at the same time, as training and evaluation do.
        envs = await make_envs(self)
        for place, env in enumerate(envs):
            env.place = place
        return envs

    async def scripted(self, action, **options):
        constant = self.message_env.papers[0].openalex_id in CONSTANT
        return dataclasses.replace(
            await step(self, action, **options), reward=-1.0 if constant or self.place % 2 else 1.0
        )

    monkeypatch.setattr(SciSciGroupBuilder, "make_envs", numbered)
    monkeypatch.setattr(SciSciTokenEnv, "step", scripted)
    # Asynchronous training may end before the last groups have come in: there every paper comes round twice.
    epochs = 2 if mode == "asynchronous" else 1
    options = {"steps": 3 * epochs, "groups": 3, "remove_constant_reward_groups": True, **MODES[mode]}
    with metrics_of_all_groups():
        logged = run("disruption-v0", folder, tmp_path, **options)
    rows = [line for line in logged if "groups/sampled" in line]
    for line in rows:
        removed, sampled = line["groups/removed"], line["groups/sampled"]
        assert line["env/all/reward_uniform_group_rate"] == pytest.approx(removed / sampled)
        assert line["env/all/total_episodes"] == 4 * sampled
        assert line["env/all/reward_group_std"] == pytest.approx(1 - removed / sampled)
    removed = sum(line["groups/removed"] for line in rows)
    assert 0 < removed <= epochs * len(CONSTANT)
    if mode != "asynchronous":
        assert removed == len(CONSTANT)
        assert [line["groups/sampled"] for line in rows] == [3.0] * 3


@pytest.mark.slow
def test_three_steps_of_each_with_spawned_rollout_workers(folder, tmp_path):
    """One pool for all environments: starting a worker takes longer than the steps do."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        set_rollout_executor(pool)
        try:
            for env_id in ENVS:
                check(env_id, run(env_id, folder, tmp_path / env_id, dataset="enough"))
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
