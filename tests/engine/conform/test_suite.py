"""The conformance suite passes on this engine, and names what is wrong with a server that is not as it should be."""

import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scisci_gym.engine import Engine, local_engine
from scisci_gym.engine.cli import app
from scisci_gym.engine.compute import losses
from scisci_gym.engine.conform.client import Client, Nonconformity
from scisci_gym.engine.conform.suite import NEEDED, OPTIONAL, conform


def test_this_engine_conforms(engine: Engine) -> None:
    done = CliRunner().invoke(app, ["conform", engine.url, "--json", "--tolerance", "1e-4"], env=engine.environment)
    report = json.loads(done.stdout)
    assert {check["name"]: check["detail"] for check in report["checks"] if check["status"] != "pass"} == {}
    assert (done.exit_code, report["conforms"], report["model"]) == (0, True, "tiny")
    assert len(report["checks"]) == sum(len(checks) for checks in [*NEEDED.values(), *OPTIONAL.values()])
    left = Client(engine.url, engine.api_key).get("checkpoints")["checkpoints"]
    assert [each["tinker_path"] for each in left if "conform-" in each["tinker_path"]] == []


def test_a_server_with_faults(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ppo does not clip, its samples ignore the seed, and it has no route for copies."""
    keys = itertools.count()
    monkeypatch.setitem(losses.LOSSES, "ppo", losses.importance_sampling)
    monkeypatch.setattr("scisci_gym.engine.protocol.messages.seeded_key", lambda *_: f"{next(keys)}".encode())
    monkeypatch.setattr("scisci_gym.engine.serve.checkpoint_routes.CheckpointRoutes.copy_weights", missing)
    with local_engine({"tiny": tiny_model}, checkpoints=tmp_path, process=False, gather_seconds=0) as engine:
        report = conform(Client(engine.url, engine.api_key), 1e-3)
    failed = {result.name: result for result in report.results if result.status == "fail"}
    assert failed.keys() == {
        "ppo",
        "clipped_tokens_have_no_gradient",
        "a_seed_decides_the_samples",
        "many_requests_at_once",
        "copies",
    }
    assert failed["ppo"].detail == "loss:sum is 1, and 1.3 by hand"
    assert not report.conforms
    text = "\n".join(report.lines())
    assert "FAIL  a seed decides the samples: seed 1 gave other samples the second time" in text
    assert "miss  copies: POST copy_weights: HTTP 404" in text


async def missing(*_: object) -> None:
    from aiohttp import web

    raise web.HTTPNotFound


def test_what_is_no_server_is_said_in_one_line() -> None:
    done = CliRunner().invoke(app, ["conform", "http://127.0.0.1:9"])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "GET healthz: no answer" in done.output
    with pytest.raises(Nonconformity):
        Client("http://127.0.0.1:9", "tml-none").get("healthz")
