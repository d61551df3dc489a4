"""What is wrong with an engine is said in one line before a run begins, and how it computes is recorded."""

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import tinker

from scisci_gym.engine import Engine
from scisci_gym.envs.kit.renderers import renderer_name_for
from scisci_gym.recipes.kit.engines import EngineTrouble, open_engine
from scisci_gym.recipes.kit.preflight import preflight, troubles_in_one_line


@pytest.fixture
def pointed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The shared engine, to which the environment points."""
    for name, value in engine.environment.items():
        monkeypatch.setenv(name, value)
    return engine


def test_how_the_engine_computes(pointed: Engine, tiny_model: Path) -> None:
    about = {"kind": "local", "device": "cpu", "dtype": "float32", "threads": 1, "adapter": "lora", "quantize": "none"}
    assert preflight(str(tiny_model)) == about


def test_a_model_that_the_engine_does_not_have(pointed: Engine, tmp_path: Path) -> None:
    with pytest.raises(EngineTrouble, match=r"base_model '.*/none' is not known; this server has 'tiny'"):
        preflight(str(tmp_path / "none"))


def test_a_model_that_does_not_fit(pointed: Engine, tiny_model: Path, tmp_path: Path) -> None:
    """The header of its weights says that they are 2 TB; nothing is read."""
    for file in tiny_model.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    size = 2 * 10**12
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    with pytest.raises(EngineTrouble, match=r"needs [0-9],000,000,000,000 bytes of memory .* are free on cpu"):
        preflight(str(tmp_path))


def test_a_wrong_key(pointed: Engine, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-wrong")
    with pytest.raises(EngineTrouble, match=r"^engine http://127.* refuses the key in TINKER_API_KEY"):
        preflight(str(tiny_model))


@pytest.fixture
def other_server() -> Iterator[str]:
    """A web server that knows nothing of Tinker."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_what_is_no_engine(other_server: str, tmp_path: Path) -> None:
    with open_engine(other_server, tmp_path), pytest.raises(EngineTrouble, match="something else than JSON"):
        preflight("model")
    with (
        open_engine("http://127.0.0.1:9", tmp_path),
        pytest.raises(EngineTrouble, match=r"cannot be reached \(.*refused"),
    ):
        preflight("model")


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-something")
    monkeypatch.setattr("scisci_gym.recipes.kit.preflight.service_url", lambda: "https://hosted.invalid")
    with pytest.raises(EngineTrouble, match=r"the hosted service https://hosted.invalid cannot be reached"):
        preflight("Qwen/Qwen3-8B")


def test_an_engine_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the local engine did not start: .*torch sees no CUDA device.*engine\.log"):
        open_engine("local", tmp_path, device="cuda").__enter__()


def test_a_failure_on_the_way_is_one_line_and_its_traceback_is_kept(tmp_path: Path) -> None:
    told = pytest.raises(EngineTrouble, match=r"^the engine failed: too long \(traceback in .*error\.log\)$")
    with told, troubles_in_one_line(tmp_path):
        raise tinker.RequestFailedError("too long\nmore", "id", tinker.types.RequestErrorCategory.User)
    assert "Traceback" in (tmp_path / "error.log").read_text()


def test_an_engine_that_the_system_kills_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        process = subprocess.Popen(["sleep", "600"])
        engine = contextlib.nullcontext(Engine("", "tml-x", process=process))
        monkeypatch.setattr("scisci_gym.recipes.kit.engines.local_engine", lambda *_, engine=engine, **__: engine)
        killed = pytest.raises(EngineTrouble, match=r"the system killed it, most likely for want of memory")
        with killed, open_engine("local", tmp_path):
            process.kill()
            time.sleep(60)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not a Hugging Face model folder: it has no config\.json"):
        renderer_name_for(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"the tokenizer in .* cannot be read"):
        renderer_name_for(str(tmp_path))
