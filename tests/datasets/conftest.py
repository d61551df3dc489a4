"""Real data beside the checkout, small made-up literatures, and a server that speaks the OpenAlex API over them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / ".." / "shared" / "data"
# Test modules are imported by path, so their helpers need a place to be found in.
sys.path.insert(0, str(HERE))


def _shared(name: str) -> Path:
    folder = SHARED / name
    if not folder.exists():
        pytest.skip(f"no ../shared/data/{name} beside this checkout: real works are not part of the project")
    return folder


@pytest.fixture(scope="session")
def hepth() -> Path:
    """27,770 real papers of high-energy physics as a snapshot folder."""
    return _shared("hepth/works")


@pytest.fixture(scope="session")
def real_works() -> Path:
    """859 works as OpenAlex has served them, of three schema eras."""
    return _shared("openalex_real_works/works.jsonl.gz")


@pytest.fixture(scope="session")
def api_answers() -> Path:
    """49 recorded answers of the OpenAlex API."""
    return _shared("openalex_api_fixtures/interactions.jsonl.gz")


@pytest.fixture(scope="session")
def small_works(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot folder of 2,000 made-up works."""
    from scisci_gym.datasets.labels.eligibility import LabelRules
    from scisci_gym.datasets.synthetic.corpus import SyntheticCorpus, write_synthetic_works

    corpus = SyntheticCorpus(papers=2000, seed=7)
    return write_synthetic_works(tmp_path_factory.mktemp("small"), corpus, LabelRules())


@dataclass
class Server:
    """A running server."""

    url: str

    def control(self, **wish: Any) -> None:
        """Set faults, key and budget, and forget what was asked for."""
        data = json.dumps(wish).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/_control", data, method="POST")).read()

    def log(self) -> list[tuple[str, str, bool]]:
        """``(address, outcome, authorised)`` of every request since."""
        answer = json.loads(urllib.request.urlopen(f"{self.url}/_log").read())
        return [tuple(entry) for entry in answer["log"]]


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], Server]]:
    """Starts a server over a snapshot folder; one for each folder."""
    running: dict[Path, tuple[subprocess.Popen, Server]] = {}

    def start(folder: Path) -> Server:
        if folder not in running:
            command = [sys.executable, str(HERE / "openalex_server.py"), str(folder)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            running[folder] = process, Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        server = running[folder][1]
        server.control()
        return server

    yield start
    for process, _ in running.values():
        process.terminate()
        process.wait()


@pytest.fixture
def command() -> Callable[..., Any]:
    """Runs `scisci-gym build ...` or `scisci-gym data ...`; the result has `exit_code` and `output` (both streams)."""
    from scisci_gym.datasets.cli import build as build_cli
    from scisci_gym.datasets.cli import data as data_cli

    def run(group: str, *arguments: Any, env: dict[str, str | None] | None = None) -> Any:
        app = {"build": build_cli.app, "data": data_cli.app}[group]
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env=env)

    return run


def write_part(folder: Path, works: list[Any], name: str = "updated_date=2026-01-01/part_0000.gz") -> Path:
    """Write works as one gzip part of a snapshot; the folder."""
    import gzip

    part = folder / name
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(gzip.compress(b"".join(json.dumps(work).encode() + b"\n" for work in works), mtime=0))
    return folder


@pytest.fixture(scope="session")
def snapshot_of() -> Callable[..., Path]:
    """`write_part`."""
    return write_part
