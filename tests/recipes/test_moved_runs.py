"""A run can be used from any working directory, moves with its folder, and says what it misses."""

import json
import shutil
from pathlib import Path

import pytest

from scisci_gym.recipes.experiments.runner import is_finished
from scisci_gym.recipes.monitoring.record import read_run_record, require_folders
from scisci_gym.recipes.rl import CLIConfig

NAMES = ("dataset", "model_name", "checkpoints", "load_checkpoint_path")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Folders as a study leaves them, with a run that started from another one."""
    for name in ("data", "study/model", "study/checkpoints", "study/seed0/sft", "study/seed0/rl"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "study"


def config(study: Path, **more: str) -> CLIConfig:
    options = {"dataset": "data", "model_name": "study/model", "checkpoints": "study/checkpoints"}
    options |= {"load_checkpoint_path": "study/seed0/sft", "log_path": "study/seed0/rl", **more}
    return CLIConfig(**options)


def record(cfg: CLIConfig) -> None:
    fields = {name: getattr(cfg, name) for name in (*NAMES, "log_path")}
    Path(cfg.log_path, "run.json").write_text(json.dumps({"recipe": "rl", "status": "finished", "config": fields}))


def test_folders_of_a_configuration_hold_in_any_working_directory(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study.parent)
    cfg = config(study)
    monkeypatch.chdir("/")
    assert [getattr(cfg, name) for name in NAMES] == [
        *(str(study.parent / "data"), str(study / "model"), str(study / "checkpoints"), str(study / "seed0" / "sft")),
    ]
    assert cfg.log_path == str(study / "seed0" / "rl")


def test_names_and_addresses_are_no_folders(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study.parent)
    cfg = config(study, model_name="Qwen/Qwen3-8B", load_checkpoint_path="tinker://a/weights/b")
    assert (cfg.model_name, cfg.load_checkpoint_path) == ("Qwen/Qwen3-8B", "tinker://a/weights/b")


def test_a_study_that_is_moved_finds_what_moved_with_it(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(config(study))
    elsewhere = tmp_path / "attic" / "study"
    shutil.move(study, elsewhere)
    found = read_run_record(elsewhere / "seed0" / "rl")["config"]
    assert found["dataset"] == str(tmp_path / "data"), "what stayed is found where it was"
    assert found["model_name"] == str(elsewhere / "model")
    assert found["checkpoints"] == str(elsewhere / "checkpoints")
    assert found["load_checkpoint_path"] == str(elsewhere / "seed0" / "sft")
    assert found["log_path"] == str(elsewhere / "seed0" / "rl")
    require_folders(elsewhere / "seed0" / "rl", NAMES)


def test_folders_in_options_of_the_environment_are_found_too(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers that challenge and that pay reasons are fitted on a dataset, which is an option by its folder."""
    monkeypatch.chdir(tmp_path)
    (study / "reader").mkdir()
    options = "prompt=short,challenger=reader:study/reader,reasons=reader:data,judge=litellm:openai/name"
    cfg = config(study, env="disruption-adversarial-v0", env_options=options)
    monkeypatch.chdir("/")
    shown = "prompt=short,challenger=reader:{},reasons=reader:{},judge=litellm:openai/name"
    assert cfg.env_options == shown.format(study / "reader", tmp_path / "data")
    fields = {"log_path": cfg.log_path, "env_options": cfg.env_options}
    Path(cfg.log_path, "run.json").write_text(json.dumps({"recipe": "rl", "config": fields}))
    elsewhere = tmp_path / "attic" / "study"
    shutil.move(study, elsewhere)
    found = read_run_record(elsewhere / "seed0" / "rl")["config"]["env_options"]
    assert found == shown.format(elsewhere / "reader", tmp_path / "data")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_gone_is_named_with_its_remedy(
    name: str, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cfg = config(study)
    record(cfg)
    shutil.rmtree(getattr(cfg, name))
    with pytest.raises(FileNotFoundError, match=rf"{name}={getattr(cfg, name)}, which is gone; .*run.json"):
        require_folders(cfg.log_path, NAMES)


def test_a_run_that_is_moved_and_started_again_is_still_done(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import chz

    monkeypatch.chdir(tmp_path)
    cfg = config(study)
    fields = json.loads(json.dumps(chz.asdict(cfg), default=str))
    Path(cfg.log_path, "run.json").write_text(json.dumps({"status": "finished", "config": fields}))
    assert is_finished(Path(cfg.log_path), cfg)
    (tmp_path / "b").mkdir()
    for name in ("study", "data"):
        shutil.move(tmp_path / name, tmp_path / "b" / name)
    monkeypatch.chdir(tmp_path / "b")
    again = config(tmp_path / "b" / "study")
    assert is_finished(Path(again.log_path), again)
