"""The cookbook's own recipes, as they are, on the engine.

They choose renderers by the model's name: the tiny model is called Qwen/Qwen3-8B here, for the engine by `models`, for
the cookbook's tokenizer by a folder of that name.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import chz
import pytest
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.preference.dpo_datasets import DPODatasetBuilderFromComparisons
from tinker_cookbook.preference.preference_datasets import ComparisonBuilderFromJsonl
from tinker_cookbook.recipes import sl_basic
from tinker_cookbook.recipes.chat_sl import train as chat_sl
from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig
from toy_data import LABELS, make_prompts

from scisci_gym.engine import local_engine

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def workplace(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the model under its name, and an engine that knows it by that name."""
    folder = tmp_path_factory.mktemp("stock")
    (folder / "Qwen").mkdir()
    (folder / MODEL).symlink_to(tiny_model)
    with local_engine({MODEL: tiny_model}, checkpoints=folder / "checkpoints"):
        yield folder


@pytest.fixture(autouse=True)
def _in_workplace(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)


def logged(log_path: Path, key: str) -> list[float]:
    rows = [json.loads(line) for line in (log_path / "metrics.jsonl").read_text().splitlines()]
    return [row[key] for row in rows if key in row]


def final_checkpoint(log_path: Path) -> dict[str, str]:
    return json.loads((log_path / "checkpoints.jsonl").read_text().splitlines()[-1])


def conversations(path: Path, count: int) -> Path:
    """Every question is answered with the same label."""
    lines = [
        {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": LABELS[0]}]}
        for question in make_prompts(count, seed=5)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("extra", [[], ["max_steps_off_policy=1"]], ids=["sync", "async"])
def test_math_rl_arithmetic(extra: list[str], tmp_path: Path) -> None:
    """With loss_fn named: from 0.6 on its default is `stable_reinforce`, which the engine has no formula for."""
    pytest.importorskip("math_verify", reason="the recipe needs the extra tinker-cookbook[math-rl]")
    from tinker_cookbook.recipes.math_rl import train as math_rl

    arguments = [
        "env=arithmetic", f"model_name={MODEL}", f"log_path={tmp_path / 'log'}", "groups_per_batch=4", "group_size=4",
        "lora_rank=4", "max_steps=3", "learning_rate=1e-4", "loss_fn=importance_sampling", *extra,
    ]  # fmt: skip
    asyncio.run(math_rl.cli_main(chz.Blueprint(math_rl.CLIConfig).make_from_argv(arguments)))
    assert len(logged(tmp_path / "log", "env/all/reward/total")) >= 2
    if not extra:
        assert max(map(abs, logged(tmp_path / "log", "optim/kl_sample_train_v1"))) < 1e-5
    assert final_checkpoint(tmp_path / "log")["state_path"].startswith("tinker://")


def test_sl_basic_on_a_local_file(tmp_path: Path) -> None:
    data = conversations(tmp_path / "conversations.jsonl", 32)
    arguments = [
        f"log_path={tmp_path / 'log'}", f"model_name={MODEL}", "lora_rank=4", "learning_rate=1e-2", "eval_every=2",
        "dataset_builder=tinker_cookbook.supervised.data:FromConversationFileBuilder",
        f"dataset_builder.file_path={data}", "dataset_builder.test_size=4",
        f"dataset_builder.common_config.model_name_for_tokenizer={MODEL}",
        "dataset_builder.common_config.renderer_name=qwen3_instruct", "dataset_builder.common_config.batch_size=7",
        "dataset_builder.common_config.max_length=256",
    ]  # fmt: skip
    config = sl_basic.build_config_blueprint(MODEL).make_from_argv(arguments)
    sl_basic.main(config)
    losses = logged(tmp_path / "log", "train_mean_nll")
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    assert logged(tmp_path / "log", "test/nll")
    assert final_checkpoint(tmp_path / "log")["name"] == "final"


def test_chat_sl_on_a_local_file(tmp_path: Path) -> None:
    arguments = [
        f"dataset={conversations(tmp_path / 'conversations.jsonl', 24)}", f"model_name={MODEL}", "lora_rank=4",
        f"log_path={tmp_path / 'log'}", "batch_size=8", "learning_rate=1e-2", "max_length=256",
    ]  # fmt: skip
    chat_sl.cli_main(chz.Blueprint(chat_sl.CLIConfig).make_from_argv(arguments))
    losses = logged(tmp_path / "log", "train_mean_nll")
    assert losses[-1] < losses[0]


def test_dpo_on_local_comparisons(tmp_path: Path) -> None:
    """Its loop with the cookbook's builder for files; the command line offers data sets of the hub only."""
    lines = []
    for question in make_prompts(24, seed=6):
        right, wrong = ([{"role": "assistant", "content": label}] for label in LABELS[:2])
        comparison = {
            "prompt_conversation": [{"role": "user", "content": question}],
            "completion_A": right,
            "completion_B": wrong,
        }
        lines.append(json.dumps({"comparison": comparison, "label": "A"}) + "\n")
    (tmp_path / "comparisons.jsonl").write_text("".join(lines))
    common = ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer=MODEL, renderer_name="qwen3_instruct", max_length=256, batch_size=8
    )
    train_dpo.main(
        train_dpo.Config(
            log_path=str(tmp_path / "log"),
            model_name=MODEL,
            recipe_name="recipe_preference_dpo",
            renderer_name="qwen3_instruct",
            dataset_builder=DPODatasetBuilderFromComparisons(
                common_config=common,
                comparison_builder=ComparisonBuilderFromJsonl(train_path=str(tmp_path / "comparisons.jsonl")),
            ),
            evaluator_builders=[],
            learning_rate=5e-3,
            dpo_beta=0.5,
            lora_rank=4,
        )
    )
    losses = logged(tmp_path / "log", "dpo_loss")
    # It starts as its own reference: -log sigmoid(0).
    assert losses[0] == pytest.approx(0.6931, abs=1e-3)
    assert losses[-1] < losses[0]
