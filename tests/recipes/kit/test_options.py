"""Small parts of the recipes: options, engines, learning rates, baselines, choice of the checkpoint."""

import json
from pathlib import Path

import pytest
from tinker_cookbook.checkpoint_utils import load_checkpoints_file

from scisci_gym.recipes.kit.checkpoints import best_checkpoint, checkpoints, state_path
from scisci_gym.recipes.kit.compat import prepare_sft_resume
from scisci_gym.recipes.kit.config import learning_rate_for, parse_options, renderer_name_for
from scisci_gym.recipes.kit.engines import EngineConfig, engine_kind, open_engine
from scisci_gym.recipes.monitoring.metrics import read_metrics
from scisci_gym.recipes.monitoring.summary import RunSummary, comparison_sentence


def test_options_of_an_environment() -> None:
    assert parse_options("disruption-v0", "prompt=short, references=true") == {"prompt": "short", "references": True}
    assert parse_options("disruption-v0", "") == {}


@pytest.mark.parametrize(
    ("text", "message"), [("promt=short", "no option 'promt'"), ("prompt", "name=value"), ("references", "name=value")]
)
def test_bad_options_say_what_there_is(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_options("disruption-v0", text)


@pytest.mark.parametrize(
    ("env_id", "text", "message"),
    [
        ("disruption-forecast-v1", "prior=0.5", "prior must be one probability for each of disruptive"),
        ("disruption-forecast-v1", "prior=abc", "prior must be one probability for each of disruptive"),
        ("cd-forecast-v1", "ranks=3", "ranks must be CD indices in ascending order, at least one, got 3"),
        ("cd-forecast-v1", "ranks=[]", r"ranks must be CD indices in ascending order, at least one, got \[\]"),
    ],
)
def test_values_that_an_environment_refuses_are_refused_before_a_run_begins(
    env_id: str, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_options(env_id, text)


def test_engine_is_local_without_a_key_and_hosted_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    assert engine_kind(None) == "local"
    monkeypatch.setenv("TINKER_API_KEY", "tml-something")
    assert engine_kind(None) == "hosted"
    assert engine_kind(None, "Qwen/Qwen3-8B") == "hosted"
    assert engine_kind("local") == "local"
    assert engine_kind("http://127.0.0.1:1") == "http://127.0.0.1:1"


def test_a_model_of_this_machine_stays_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the hosted service is asked for by name."""
    monkeypatch.setenv("TINKER_API_KEY", "tml-something")
    assert engine_kind(None, str(tmp_path)) == "local"
    assert engine_kind("hosted", str(tmp_path)) == "hosted"


def test_options_of_the_local_engine(tmp_path: Path) -> None:
    """Those that are set are handed on, and refused where another service computes."""
    config = EngineConfig(dtype="bfloat16", threads=2)
    assert config.local_options() == {"dtype": "bfloat16", "threads": 2}
    assert EngineConfig().local_options() == {}
    with pytest.raises(ValueError, match="dtype=bfloat16 threads=2: options of the local engine; with --engine http"):
        open_engine("http://127.0.0.1:1", tmp_path, **config.local_options()).__enter__()
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        open_engine("local", tmp_path, threads=0).__enter__()


def test_engine_choices_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with pytest.raises(ValueError, match="TINKER_API_KEY"):
        engine_kind("hosted")
    with pytest.raises(ValueError, match="'lokal'"):
        engine_kind("lokal")


def test_learning_rate_of_an_unknown_model_must_be_given() -> None:
    assert learning_rate_for("no/such", 0.1) == 0.1
    with pytest.raises(ValueError, match="pass learning_rate="):
        learning_rate_for("no/such")


def test_renderer_of_an_unknown_model_must_be_given() -> None:
    assert renderer_name_for("no/such", "role_colon") == "role_colon"
    with pytest.raises(ValueError, match="renderer_name="):
        renderer_name_for("no/such-model")


def write_run(folder, metrics: list[dict], checkpoints: list[dict]) -> None:
    for name, rows in (("metrics", metrics), ("checkpoints", checkpoints)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_best_checkpoint_is_the_earliest_of_the_best_validated(tmp_path) -> None:
    metrics = [
        {"step": step, "validation/macro_f1": value} for step, value in ((0, 0.2), (10, 0.6), (20, 0.6), (30, 0.9))
    ]
    # Step 30 has no checkpoint, so its score cannot be chosen.
    checkpoints = [{"name": str(b), "batch": b, "sampler_path": f"tinker://m/{b}"} for b in (10, 20)]
    write_run(tmp_path, metrics, checkpoints)
    checkpoint, value = best_checkpoint(tmp_path)
    assert (checkpoint.step, value) == (10, 0.6)


def test_checkpoints_of_forecasts_are_chosen_by_the_mean_reward(tmp_path) -> None:
    """The label that a number or the largest probability stands for says little about a forecast."""
    metrics = [
        {"step": step, "validation/macro_f1": macro_f1, "validation/reward": reward}
        for step, macro_f1, reward in ((10, 0.6, 0.1), (20, 0.2, 0.5))
    ]
    write_run(tmp_path, metrics, [{"name": str(b), "batch": b, "sampler_path": f"tinker://m/{b}"} for b in (10, 20)])
    for env, step in (("disruption-v0", 10), ("disruption-adversarial-v0", 10), ("not-installed-v0", 10)):
        (tmp_path / "run.json").write_text(json.dumps({"config": {"env": env}}))
        assert best_checkpoint(tmp_path)[0].step == step
    for env in ("cd-forecast-v1", "disruption-forecast-v0", "hit-paper-forecast-v1"):
        (tmp_path / "run.json").write_text(json.dumps({"config": {"env": env}}))
        checkpoint, value = best_checkpoint(tmp_path)
        assert (checkpoint.step, value) == (20, 0.5)
        assert comparison_sentence(RunSummary.of(tmp_path)) == "Best validation reward is 0.500 (step 20)."


def test_checkpoints_are_chosen_by_mcc_where_the_run_says_so(tmp_path) -> None:
    metrics = [{"step": 10, "validation/macro_f1": 0.6, "validation/mcc": 0.1}]
    metrics += [{"step": 20, "validation/macro_f1": 0.5, "validation/mcc": 0.2}]
    write_run(tmp_path, metrics, [{"name": str(b), "batch": b, "sampler_path": f"tinker://m/{b}"} for b in (10, 20)])
    for choose_by, step, value in ((None, 10, 0.6), ("macro_f1", 10, 0.6), ("mcc", 20, 0.2)):
        (tmp_path / "run.json").write_text(json.dumps({"config": {"env": "disruption-v0", "choose_by": choose_by}}))
        checkpoint, found = best_checkpoint(tmp_path)
        assert (checkpoint.step, found) == (step, value)
    assert comparison_sentence(RunSummary.of(tmp_path)) == "Best validation MCC is 0.200 (step 20)."


def test_a_run_without_validated_checkpoint_is_refused(tmp_path) -> None:
    write_run(tmp_path, [{"step": 0, "reward": 1.0}], [{"name": "0", "batch": 0, "sampler_path": "tinker://m/0"}])
    with pytest.raises(FileNotFoundError, match="eval_every"):
        best_checkpoint(tmp_path)


def paths(name: str) -> dict[str, str]:
    return {"name": name, "state_path": f"tinker://m/{name}", "sampler_path": f"tinker://m/s{name}"}


def test_training_starts_from_a_path_or_from_the_folder_of_a_run(tmp_path) -> None:
    """From a run with validation its best checkpoint, from another its last."""
    records = [{**paths("000010"), "batch": 10}, {**paths("final"), "batch": 20, "final": True}]
    write_run(tmp_path, [], records)
    assert state_path(str(tmp_path)) == "tinker://m/final"
    write_run(tmp_path, [{"step": 10, "validation/macro_f1": 0.6}, {"step": 20, "validation/macro_f1": 0.5}], records)
    assert state_path(str(tmp_path)) == "tinker://m/000010"
    assert state_path("tinker://m/a") == "tinker://m/a"
    assert state_path(None) is None
    with pytest.raises(FileNotFoundError, match="nowhere"):
        state_path("nowhere")


def test_sft_checkpoints_count_the_update_that_their_name_leaves_out(tmp_path) -> None:
    """Six batches an epoch: checkpoint 5 was saved after update 5, so six updates are done and epoch 1 begins."""
    metrics = [{"step": step, "train_mean_nll": 1.0} for step in range(6)]
    records = [{**paths("000002"), "epoch": 0, "batch": 2}, {**paths("000005"), "epoch": 0, "batch": 5}]
    write_run(tmp_path, metrics, [*records, {**paths("000008"), "epoch": 1, "batch": 2}])
    assert [c.step for c in checkpoints(tmp_path)] == [3, 6, 9]
    prepare_sft_resume(tmp_path, batches=6)
    assert [(c.epoch, c.batch) for c in load_checkpoints_file(str(tmp_path))] == [(0, 3), (1, 0)], "8 was never logged"
    prepare_sft_resume(tmp_path, batches=6)
    assert [(c.epoch, c.batch) for c in load_checkpoints_file(str(tmp_path))] == [(0, 3), (1, 0)]


def test_steps_that_a_resumed_run_repeats_count_once(tmp_path) -> None:
    write_run(tmp_path, [{"step": 0, "r": 1}, {"step": 1, "r": 2}, {"step": 1, "r": 3}, {"step": 2, "r": 4}], [])
    assert [row["r"] for row in read_metrics(tmp_path)] == [1, 3, 4]
