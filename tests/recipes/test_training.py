"""The recipes on the local engine, as a user starts them: SFT, RL, `kill -9`, resume, evaluation."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.engine.serve.service import start_engine
from scisci_gym.recipes.monitoring.heartbeat import is_alive
from scisci_gym.recipes.monitoring.metrics import read_metrics
from scisci_gym.recipes.monitoring.recorded import read_register

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "scisci_gym"]


def command(*arguments: str) -> list[str]:
    return [*COMMAND, *arguments]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}


def run(*arguments: str) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment(), timeout=280)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def rl_arguments(dataset: Path, model: Path, log_path: Path, checkpoints: Path) -> list[str]:
    return [
        *(
            "train",
            "rl",
            f"dataset={dataset}",
            f"model_name={model}",
            f"log_path={log_path}",
            "env_options=prompt=short",
        ),
        *("max_steps=6", "groups_per_batch=4", "group_size=4", "max_tokens=12", "learning_rate=1e-3", "lora_rank=4"),
        *("eval_every=2", "save_every=2", "validation_examples=16", f"checkpoints={checkpoints}"),
    ]


@pytest.fixture(scope="module")
def uninterrupted(dataset: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    arguments = rl_arguments(dataset, model, folder / "rl", folder / "checkpoints")
    printed = run(*arguments).splitlines()
    assert printed[0] == f"{folder / 'rl'}: finished, 6 of 6 updates"
    assert printed[1].startswith("Best validation macro-F1 is")
    assert printed[-1].startswith(f"next: scisci-gym eval {folder / 'rl'}")
    assert run(*arguments).splitlines() == printed, "a finished run is not trained again"
    return folder / "rl"


def learned(log_path: Path) -> list[tuple]:
    """What training did, step by step, without what depends on the clock."""
    names = ("env/all/reward/total", "env/all/correct", "optim/entropy", "validation/macro_f1", "optim/lr")
    return [(row["step"], *(row.get(name) for name in names)) for row in read_metrics(log_path)]


def test_a_run_records_what_it_was(uninterrupted: Path, dataset: Path) -> None:
    record = json.loads((uninterrupted / "run.json").read_text())
    assert record["config"]["group_size"] == 4
    about = {"kind": "local", "device": "cpu", "dtype": "float32", "threads": 1, "adapter": "lora", "quantize": "none"}
    assert record["engine"] == about
    assert "- Engine: `local; cpu, float32, 1 thread, lora`" in (uninterrupted / "EXPERIMENT.md").read_text()
    assert record["dataset"]["content_hash"] == json.loads((dataset / "card.json").read_text())["content_hash"]
    assert "API_KEY" not in json.dumps(record)
    assert "tml-" not in json.dumps(record)


def test_reward_diagnostics_are_logged(uninterrupted: Path) -> None:
    first = read_metrics(uninterrupted)[0]
    for name in ("reward_tie_group_rate", "reward_uniform_group_rate", "reward_tie_pair_rate"):
        assert 0 <= first[f"env/all/{name}"] <= 1
    assert 0 < first["env/all/reward_unique_fraction_mean"] <= 1
    assert first["env/all/reward/total"] == pytest.approx(2 * first["env/all/correct"] - 1)
    said = sum(first[f"env/all/predicted/{label}"] for label in ("disruptive", "consolidating", "neutral"))
    assert said == pytest.approx(first["env/all/format_valid"])


def started(arguments: list[str], log_path: Path, steps: int, **pipes: Any) -> subprocess.Popen[Any]:
    """A run in a process of its own, after so many steps."""
    child = subprocess.Popen(command(*arguments), env=environment(), **pipes)
    deadline = time.monotonic() + 200
    while len(read_metrics(log_path)) < steps:
        assert child.poll() is None, "training ended before it could be stopped"
        assert time.monotonic() < deadline, f"training did not reach step {steps}"
        time.sleep(0.05)
    return child


def test_interrupted_together_with_the_reader_of_its_output(dataset: Path, model: Path, tmp_path: Path) -> None:
    """As Ctrl-C does in `scisci-gym train ... 2>&1 | tee FILE`."""
    # More steps than can be taken before the signal comes, however busy the machine is.
    arguments = [*rl_arguments(dataset, model, tmp_path / "rl", tmp_path / "checkpoints"), "max_steps=2000"]

    def listen() -> None:
        """What a shell starts in the background, such as CI, and whatever that starts, ignores Ctrl-C."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with started(arguments, tmp_path / "rl", 2, **pipes, preexec_fn=listen) as child:
        assert child.stdout is not None
        child.stdout.close()
        child.send_signal(signal.SIGINT)
        try:
            assert child.wait(timeout=200) == 130
        finally:
            child.kill()
    assert json.loads((tmp_path / "rl" / "run.json").read_text())["status"] == "interrupted"


def test_a_finished_run_whose_reader_has_left(uninterrupted: Path, dataset: Path, model: Path) -> None:
    """As `scisci-gym train ... | head -1` leaves it: the run is finished, so that nothing has to go on."""
    arguments = rl_arguments(dataset, model, uninterrupted, uninterrupted.parent / "checkpoints")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(*arguments), env=environment(), **pipes) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert "stopped" not in child.stderr.read()
        assert child.wait(timeout=200) == 0


def test_killed_and_resumed_equals_uninterrupted(
    uninterrupted: Path, dataset: Path, model: Path, tmp_path: Path
) -> None:
    arguments = rl_arguments(dataset, model, tmp_path / "rl", tmp_path / "checkpoints")
    child = started(arguments, tmp_path / "rl", 3, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert is_alive(tmp_path / "rl")
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert json.loads((tmp_path / "rl" / "run.json").read_text())["status"] == "running", "nobody could write the end"
    run(*arguments)
    assert learned(tmp_path / "rl") == learned(uninterrupted)
    record = json.loads((tmp_path / "rl" / "run.json").read_text())
    assert (record["status"], [at["was"] for at in record["resumptions"]]) == ("finished", ["killed"])
    assert not is_alive(tmp_path / "rl")
    assert list(read_register(tmp_path)) == ["rl"]


def test_eval_scores_the_chosen_checkpoint_and_keeps_answers(uninterrupted: Path) -> None:
    shown = run("eval", str(uninterrupted), "--split", "validation")
    assert "TF-IDF + logistic" in shown
    found = json.loads((uninterrupted / "eval_validation.json").read_text())
    greedy = found["policy"]["greedy"]
    assert sum(map(sum, greedy["confusion"])) == greedy["n"]
    before = {path: path.read_bytes() for path in uninterrupted.rglob("trajectories.jsonl")}
    assert before
    run("eval", str(uninterrupted), "--split", "validation")
    assert {path: path.read_bytes() for path in before} == before, "an answer was asked for twice"
    again = json.loads((uninterrupted / "eval_validation.json").read_text())
    # `made` says when and by which command.
    assert {**again, "made": None} == {**found, "made": None}
    scores = read_register(uninterrupted.parent)["rl"]["scores"]["validation"]
    assert scores["macro_f1"] == greedy["macro_f1"]
    assert "TF-IDF + logistic" in (uninterrupted / "EXPERIMENT.md").read_text()


def test_sft_through_the_url_of_a_service_learns_the_gold_answers(dataset: Path, model: Path, tmp_path: Path) -> None:
    """The same recipe with nothing but `engine` changed, and as a module, the way the cookbook starts its recipes."""
    engine = start_engine({}, checkpoints=tmp_path / "checkpoints", log=tmp_path / "engine.log")
    arguments = [f"dataset={dataset}", f"model_name={model}", f"log_path={tmp_path / 'sft'}", f"engine={engine.url}"]
    arguments += ["env_options=prompt=short", "learning_rate=2e-3", "batch_size=16", "rows=160", "lora_rank=4"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "scisci_gym.recipes.sft", *arguments],
            capture_output=True,
            text=True,
            env=environment() | {"TINKER_API_KEY": engine.api_key},
            timeout=280,
        )
    finally:
        engine.close()
    assert done.returncode == 0, done.stderr[-4000:]
    losses = [row["train_mean_nll"] for row in read_metrics(tmp_path / "sft") if "train_mean_nll" in row]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dataset=nowhere"], "nowhere"),
        (["env_options=promt=x"], "promt"),
        (["env=disruption-v9"], "disruption-v0"),
        (["model_name=nobody/knows"], "nobody/knows"),
    ],
)
def test_wrong_arguments_are_explained(
    dataset: Path, model: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    given = {"dataset": dataset, "model_name": model, "log_path": tmp_path / "rl", "learning_rate": "1e-3"}
    given |= dict(argument.split("=", 1) for argument in arguments)
    done = CliRunner().invoke(app, ["train", "rl", *(f"{name}={value}" for name, value in given.items())])
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "rl").exists(), "nothing is started before the configuration is known to work"
