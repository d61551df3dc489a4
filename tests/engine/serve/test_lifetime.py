"""Starting, stopping, killing and coming back."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import tinker
from tinker import types
from toy_data import random_tokens, supervised
from typer.testing import CliRunner

from scisci_gym.engine import local_engine
from scisci_gym.engine.cli import app
from scisci_gym.engine.serve.service import start_engine

SETTINGS = types.AdamParams(learning_rate=1e-2)
DATA = [supervised(random_tokens(30, seed)) for seed in range(3)]


def step(trainer: tinker.TrainingClient) -> tuple[float, list[list[int]]]:
    """A step, and a group of samples without seeds from the weights after it."""
    loss = trainer.forward_backward(DATA, "cross_entropy").result().metrics["loss:sum"]
    trainer.optim_step(SETTINGS).result()
    sampler = trainer.save_weights_and_get_sampling_client().result()
    prompt = types.ModelInput.from_ints(random_tokens(10, 5))
    futures = [sampler.sample(prompt, 1, types.SamplingParams(max_tokens=6)) for _ in range(6)]
    return loss, [list(f.result().sequences[0].tokens) for f in futures]


@pytest.mark.slow
def test_a_killed_server_is_resumed_exactly(tiny_model: Path, tmp_path: Path) -> None:
    """kill -9 in the middle; a new server on the same folder continues bit by bit, samples included."""
    with local_engine(checkpoints=tmp_path) as engine:
        trainer = (
            tinker.ServiceClient().create_lora_training_client(base_model=str(tiny_model), rank=4, seed=1).result()
        )
        step(trainer)
        state = trainer.save_state("one").result().path
        weights = trainer.save_weights_for_sampler("one").result().path
        uninterrupted = [step(trainer) for _ in range(2)]
        assert engine.process is not None
        engine.process.kill()
        engine.process.wait()
    with local_engine(checkpoints=tmp_path) as engine:
        service = tinker.ServiceClient()
        resumed = service.create_training_client_from_state_with_optimizer(state).result()
        assert [step(resumed) for _ in range(2)] == uninterrupted
        again = resumed.save_state("one").result().path
        assert again != state
        rest = tinker.RestClient(base_url=engine.url, api_key=engine.api_key)
        assert rest.get_weights_info_by_tinker_path(weights).result().lora_rank == 4
        assert rest.get_training_run_by_tinker_path(state).result().lora_rank == 4
        sampler = service.create_sampling_client(model_path=weights).result()
        assert len(sampler.compute_logprobs(types.ModelInput.from_ints([5, 6, 7])).result()) == 3


def test_the_environment_is_put_back(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_BASE_URL", "http://elsewhere")
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with local_engine({"tiny": tiny_model}, checkpoints=tmp_path, process=False) as engine:
        assert os.environ["TINKER_BASE_URL"] == engine.url
        assert os.environ["TINKER_API_KEY"].startswith("tml-")
        assert urllib.request.urlopen(f"{engine.url}/api/v1/healthz", timeout=5).status == 200
    assert os.environ["TINKER_BASE_URL"] == "http://elsewhere"
    assert "TINKER_API_KEY" not in os.environ
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{engine.url}/api/v1/healthz", timeout=5)


@pytest.mark.slow
def test_a_server_that_cannot_start_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RuntimeError, match="ended with status"):
        start_engine(checkpoints=tmp_path / "ck", log=tmp_path / "log", port=taken.getsockname()[1])
    assert "address already in use" in (tmp_path / "log").read_text()


def test_options_that_are_refused_start_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'nothing'.*config\.json"):
        start_engine({"nothing": tmp_path}, checkpoints=tmp_path / "ck", log=tmp_path / "log")
    with pytest.raises(TypeError, match="'thread'"):
        start_engine(checkpoints=tmp_path / "ck", thread=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_server_does_not_outlive_its_parent(end: signal.Signals, tmp_path: Path) -> None:
    """Neither kill -9 nor Ctrl-C of the parent leaves a server behind."""
    # Python leaves Ctrl-C alone where it was started with it ignored, as a shell's background jobs are.
    script = (
        "import signal, time\nfrom scisci_gym.engine import local_engine\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"with local_engine(checkpoints={str(tmp_path)!r}) as engine:\n"
        "    print(engine.process.pid, flush=True)\n    time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        parent.send_signal(end)
        parent.wait(timeout=30)
    deadline = time.monotonic() + 20
    while _alive(server):
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.1)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(app, ["serve", "--port", str(port), "--checkpoints", str(tmp_path)])
    assert done.exit_code == 1
    assert f"error: port {port} of 127.0.0.1 is in use" in done.output
