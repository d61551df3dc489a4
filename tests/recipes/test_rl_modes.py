"""Every way to run RL, and every environment, through the recipe on the local engine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chz
import pytest

from scisci_gym.datasets.store import load_papers
from scisci_gym.envs.registry import make, spec, specs
from scisci_gym.recipes import rl
from scisci_gym.recipes.kit.engines import open_engine
from scisci_gym.recipes.kit.rollouts import rollout_executor
from scisci_gym.recipes.monitoring.metrics import read_metrics

pytestmark = pytest.mark.slow
STEPS = 2


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    with open_engine("local", folder):
        yield folder


def train(dataset: Path, model: Path, log_path: Path, **options: Any) -> list[dict]:
    given = {
        "dataset": str(dataset),
        "model_name": str(model),
        "log_path": str(log_path),
        "env_options": "prompt=short",
        "lora_rank": 2,
        "learning_rate": 1e-3,
        "max_tokens": 12,
        "validation_examples": 4,
        "groups_per_batch": 2,
        "group_size": 2,
        "max_steps": STEPS,
        "eval_every": STEPS,
        "save_every": STEPS,
        **options,
    }
    rl.RECIPE.run(chz.Blueprint(rl.CLIConfig).apply(given).make())
    return read_metrics(log_path)


@pytest.mark.parametrize(
    "options",
    [
        {"max_steps_off_policy": 1},
        {"num_minibatches": 2},
        {"balance_labels": "adaptive", "loss_fn": "ppo", "num_substeps": 2},
        {"kl_penalty_coef": 0.1, "held_out": 4, "held_out_nll": True},
        {"curriculum": "pass_rate", "pass_rate_attempts": 1},
        {"rollouts": "processes", "rollout_workers": 1},
    ],
    ids=lambda options: next(iter(options)),
)
def test_each_mode_trains_to_the_end(
    options: dict[str, Any], checkpoints: Path, dataset: Path, model: Path, tmp_path: Path
) -> None:
    rows = train(dataset, model, tmp_path / "run", **options)
    assert {row["step"] for row in rows if "env/all/reward/total" in row} == set(range(STEPS))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"
    if "held_out_nll" in options:
        assert any(row.get("held_out/nll", 0) > 0 for row in rows)
        assert any("kl_policy_base" in row for row in rows)
    if "curriculum" in options:
        rates = json.loads((tmp_path / "run" / "pass_rates.json").read_text())
        assert set(rates.values()) <= {0.0, 1.0}
        assert len(rates) == json.loads((dataset / "card.json").read_text())["splits"]["train"]["papers"]


@pytest.mark.parametrize("env", [env.env_id for env in specs()])
def test_each_environment_trains(env: str, checkpoints: Path, dataset: Path, model: Path, tmp_path: Path) -> None:
    rows = train(dataset, model, tmp_path / "run", env=env, max_steps=1, eval_every=1, save_every=1, max_tokens=24)
    logged = {name.removeprefix("env/all/"): value for name, value in rows[0].items()}
    if "reward_correctness" in logged:
        expected = sum(logged[f"reward_{part}"] for part in ("correctness", "reasoning", "adaptation"))
    elif env in ("disruption-v0", "novelty-v0", "disruption-pairwise-v0"):
        expected = 2 * logged["correct"] - 1
    else:
        # The model was taught to answer with one label: no probabilities, no number, no pair of labels.
        assert logged["format_valid"] == 0
        # The floor of a forecast paid by skill follows from the training papers.
        papers = load_papers(dataset, "train")
        example = spec(env).examples(papers)[0]
        expected = make(env, *example, **spec(env).training_options(str(dataset))).reward_range[0]
    assert logged["reward/total"] == pytest.approx(expected)


def test_contradictions_are_refused_before_anything_starts(dataset: Path, model: Path, tmp_path: Path) -> None:
    for options in (
        {"max_steps_off_policy": 1, "num_minibatches": 2},
        {"curriculum": "margin", "balance_labels": "equal"},
    ):
        with pytest.raises(ValueError, match="exclude each other"):
            train(dataset, model, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_workers_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="rollout_workers"), rollout_executor("processes", 0):
        pass
