"""The real tinker-cookbook loops on the engine."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import chz
import datasets
import pytest
import toy_rl
from tinker_cookbook.renderers import TrainOnWhat
from tinker_cookbook.rl import train
from tinker_cookbook.supervised import train as supervised_train
from tinker_cookbook.supervised.data import SupervisedDatasetFromHFDataset, conversation_to_datum
from tinker_cookbook.supervised.types import SupervisedDataset, SupervisedDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer
from toy_data import LABELS, make_prompts

from scisci_gym.datasets.atomic_files import drop_torn_lines
from scisci_gym.engine import Engine, local_engine

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _environment(engine: Engine) -> None:
    os.environ.update(engine.environment)


def run(log_path: Path, model: Path, steps: int, **options: Any) -> list[dict[str, float]]:
    """Metrics of an RL run, step by step."""
    asyncio.run(train.main(toy_rl.config(str(model), str(log_path), steps, **options)))
    return metrics(log_path)


def metrics(log_path: Path) -> list[dict[str, float]]:
    """What a run logged, without times."""
    lines = [json.loads(line) for line in (log_path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if "time" not in k and isinstance(v, int | float)} for line in lines]


def test_rl_learns_and_the_policies_agree(tiny_model: Path, tmp_path: Path) -> None:
    logged = run(tmp_path, tiny_model, 12, save_every=0)
    # Newer cookbooks end with a row of their own.
    rewards = [m["env/all/reward/total"] for m in logged if "env/all/reward/total" in m]
    assert len(rewards) == 12
    assert sum(rewards[-4:]) > sum(rewards[:4]), rewards
    assert max(abs(m["optim/kl_sample_train_v1"]) for m in logged if "optim/kl_sample_train_v1" in m) < 1e-5


@pytest.mark.slow
def test_a_killed_rl_run_resumes_as_if_nothing_had_happened(tiny_model: Path, tmp_path: Path) -> None:
    """kill -9 of run and server after two steps; the resumed run logs what the uninterrupted one logged."""
    whole = run(tmp_path / "whole", tiny_model, 4, save_every=1)
    log_path, checkpoints = tmp_path / "killed", tmp_path / "checkpoints"
    command = [sys.executable, toy_rl.__file__, str(tiny_model), str(log_path), str(checkpoints), "4"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        deadline = time.monotonic() + 200
        logged = log_path / "metrics.jsonl"
        while child.poll() is None and not (logged.exists() and logged.read_bytes().count(b"\n") >= 2):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child.kill()
    assert (log_path / "checkpoints.jsonl").exists()
    # The kill may leave half a line, to which the cookbook appends; our recipes cut it off as this does.
    for path in log_path.glob("*.jsonl"):
        drop_torn_lines(path)
    with local_engine(checkpoints=checkpoints):
        resumed = run(log_path, tiny_model, 4, save_every=1)
    # The run may have been killed between saving a step and logging it; that step has no metrics.
    last = {m["step"]: m for m in resumed}
    assert {0, 1, 3} <= set(last)
    for expected in whole:
        got = last.get(expected["step"], expected)
        assert got.keys() == expected.keys()
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)


# From cookbook 0.6 on, an async run has a loss of its own, by default one that the engine refuses.
ASYNC_LOSS: Any = {"loss_fn": "importance_sampling"} if "loss_fn" in train.AsyncConfig.__annotations__ else {}


@pytest.mark.parametrize(
    "options",
    [
        {"async_config": train.AsyncConfig(max_steps_off_policy=1, groups_per_batch=4, **ASYNC_LOSS)},
        {"stream_minibatch_config": train.StreamMinibatchConfig(groups_per_batch=4, num_minibatches=2)},
        {"loss_fn": "ppo", "num_substeps": 2},
    ],
    ids=["async", "stream_minibatch", "ppo"],
)
def test_other_modes_of_the_loop(options: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    logged = run(tmp_path, tiny_model, 2, save_every=0, **options)
    assert len(logged) >= 2
    assert any("env/all/reward/total" in m for m in logged)


def test_kl_reference(tiny_model: Path, tmp_path: Path) -> None:
    reference = train.KLReferenceConfig(base_model=str(tiny_model))
    logged = run(tmp_path, tiny_model, 2, save_every=0, kl_penalty_coef=0.1, kl_reference_config=reference)
    key = next(k for k in logged[0] if "kl_policy_base" in k)
    # The policy starts as its own reference and then leaves it.
    assert abs(logged[0][key]) < 1e-4
    assert logged[1][key] != logged[0][key]


@chz.chz
class Answers(SupervisedDatasetBuilder):
    """Every question is answered with the same label."""

    model: str

    def __call__(self) -> tuple[SupervisedDataset, None]:
        from tinker_cookbook.renderers import get_renderer

        renderer = get_renderer("qwen3_instruct", get_tokenizer(self.model))
        questions = datasets.Dataset.from_dict({"question": make_prompts(32, seed=5)})

        def to_datum(row: dict[str, str]) -> Any:
            talk = [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": LABELS[0]}]
            return conversation_to_datum(talk, renderer, 256, TrainOnWhat.LAST_ASSISTANT_MESSAGE)  # pyright: ignore

        return SupervisedDatasetFromHFDataset(questions, batch_size=8, map_fn=to_datum), None


def test_supervised_training(tiny_model: Path, tmp_path: Path) -> None:
    config = supervised_train.Config(
        log_path=str(tmp_path),
        model_name=str(tiny_model),
        recipe_name="engine_test",
        renderer_name="qwen3_instruct",
        dataset_builder=Answers(model=str(tiny_model)),
        learning_rate=1e-2,
        lora_rank=4,
        save_every=2,
        eval_every=0,
    )
    asyncio.run(supervised_train.main(config))
    losses = [m["train_mean_nll"] for m in metrics(tmp_path) if "train_mean_nll" in m]
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    saved = [json.loads(line) for line in (tmp_path / "checkpoints.jsonl").read_text().splitlines()]
    assert saved[-1]["name"] == "final"
