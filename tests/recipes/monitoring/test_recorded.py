"""What is written around a run: its end, however it ends; its resumptions; its sign of life."""

import json
import multiprocessing
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scisci_gym.datasets.atomic_files import FolderInUse
from scisci_gym.evaluation.records import without_secrets
from scisci_gym.recipes.monitoring.heartbeat import HEARTBEAT, Heartbeat, is_alive, read_heartbeat
from scisci_gym.recipes.monitoring.record import read_run_record, read_state
from scisci_gym.recipes.monitoring.recorded import read_register, recorded_run

from .conftest import log

FORK = multiprocessing.get_context("fork")


def trained(config, steps: int = 3, first: int = 0) -> Path:
    with recorded_run("rl", config):
        log(config.log_path, [{"step": step, "progress/done_frac": (step + 1) / 4} for step in range(first, steps)])
    return Path(config.log_path)


def wait_for(condition, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_run_that_finishes(config) -> None:
    folder = trained(config())
    record, heartbeat = read_run_record(folder), read_heartbeat(folder)
    assert record["status"] == "finished"
    assert record["started"] <= record["ended"]
    assert record["dataset"]["content_hash"] == "ab" * 32
    assert record["chosen"] == ["dataset", "log_path"]
    assert heartbeat is not None
    assert (heartbeat["status"], heartbeat["step"], heartbeat["total"]) == ("finished", 3, 4)
    assert heartbeat["pid"] == os.getpid()
    assert not is_alive(folder)


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no luck"), "failed"), (KeyboardInterrupt(), "interrupted"), (SystemExit(3), "interrupted")],
)
def test_a_run_that_does_not(config, error: BaseException, status: str) -> None:
    def training() -> None:
        with recorded_run("rl", config()):
            assert is_alive(config().log_path)
            raise error

    with pytest.raises(type(error)):
        training()
    record = read_run_record(config().log_path)
    assert record["status"] == status
    assert record.get("error") == ("ValueError: no luck" if status == "failed" else None)
    assert read_state(config().log_path).status == status
    assert read_register(Path(config().log_path).parent)["one"]["status"] == status


def test_a_resumed_run_keeps_its_start_and_lists_its_resumptions(config) -> None:
    folder = trained(config(), 2)
    first = read_run_record(folder)
    stamped = {**first, "started": "2026-01-01T00:00:00+00:00"}
    (folder / "run.json").write_text(json.dumps(stamped))
    trained(config(lora_rank=8), 4, first=2)
    record = read_run_record(folder)
    assert record["started"] == "2026-01-01T00:00:00+00:00"
    (resumption,) = record["resumptions"]
    assert (resumption["was"], resumption["updates_before"]) == ("finished", 2)
    assert resumption["changed"] == {"lora_rank": [4, 8]}
    assert record["config"]["lora_rank"] == 8
    assert list(read_register(folder.parent)) == ["one"], "one entry, however often it is resumed"


def test_a_finished_run_that_is_started_again_and_has_nothing_to_do_stays_as_it_was(config) -> None:
    folder = trained(config(), 4)
    before = {**read_run_record(folder), "revision": "abc", "ended": "2026-01-02T00:00:00+00:00"}
    (folder / "run.json").write_text(json.dumps(before))
    trained(config(), 0)
    assert read_run_record(folder) == before


def test_the_revisions_of_all_attempts_are_kept(config) -> None:
    folder = trained(config(), 2)
    (folder / "run.json").write_text(json.dumps({**read_run_record(folder), "revision": "abc"}))
    trained(config(), 4, first=2)
    record = read_run_record(folder)
    later = record["resumptions"][0]["revision"]
    assert record["revision"] == "abc" != later
    assert read_register(folder.parent)["one"]["revision"] == f"abc -> {later}"
    assert f"code {later}" in (folder / "EXPERIMENT.md").read_text()


def _train_for_ever(config, every: float) -> None:
    with recorded_run("rl", config, every):
        log(config.log_path, [{"step": 0, "progress/done_frac": 0.25}])
        time.sleep(60)


def started(config, every: float = 0.05):
    child = FORK.Process(target=_train_for_ever, args=(config, every))
    child.start()
    wait_for(lambda: (read_heartbeat(config.log_path) or {}).get("step") == 1)
    return child


def test_kill_9_is_recognised_and_resumed(config) -> None:
    child = started(config())
    folder = Path(config().log_path)
    before = (folder / HEARTBEAT).stat().st_mtime_ns
    wait_for(lambda: (folder / HEARTBEAT).stat().st_mtime_ns > before)
    assert is_alive(folder)
    assert read_state(folder).status == "running"
    child.kill()
    child.join()
    heartbeat = read_heartbeat(folder)
    assert heartbeat is not None
    assert heartbeat["status"] == "running", "a killed process cannot write its end"
    stale = {**heartbeat, "time": (datetime.now(UTC) - timedelta(seconds=61)).isoformat()}
    (folder / HEARTBEAT).write_text(json.dumps(stale))
    assert not is_alive(folder)
    assert is_alive(folder, stale_after=120)
    state = read_state(folder)
    assert state.status == "killed"
    assert [(alarm.name, alarm.level) for alarm in state.alarms] == [("killed", "error")]
    trained(config(), 4, first=1)
    record = read_run_record(folder)
    assert record["status"] == "finished"
    assert [at["was"] for at in record["resumptions"]] == ["killed"]


def test_sigterm_ends_a_run_as_interrupted(config) -> None:
    child = started(config())
    assert child.pid is not None
    os.kill(child.pid, signal.SIGTERM)
    child.join(10)
    assert child.exitcode == 128 + signal.SIGTERM
    assert read_run_record(config().log_path)["status"] == "interrupted"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_two_processes_do_not_train_in_one_folder(config) -> None:
    child = started(config())
    try:
        with pytest.raises(FolderInUse, match="another process is training in"), recorded_run("rl", config()):
            pytest.fail("two at once")
    finally:
        child.kill()
        child.join()
    trained(config(), 2)


def _train_with_a_worker(config, worker) -> None:
    with recorded_run("rl", config):
        child = FORK.Process(target=time.sleep, args=(60,))
        child.start()
        worker.value = child.pid
        time.sleep(60)


def test_a_worker_that_outlives_a_killed_run_does_not_keep_the_folder(config) -> None:
    worker = FORK.Value("i", 0)
    child = FORK.Process(target=_train_with_a_worker, args=(config(), worker))
    child.start()
    wait_for(lambda: worker.value)
    child.kill()
    child.join()
    try:
        trained(config(), 2)
        os.kill(worker.value, 0)
    finally:
        os.kill(worker.value, signal.SIGKILL)


def test_a_heartbeat_is_never_half_written(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path, every=0.0005)
    heartbeat.start()
    try:
        for _ in range(300):
            found = read_heartbeat(tmp_path)
            assert found is not None
            assert found["status"] == "running"
    finally:
        heartbeat.stop("finished")
    assert [path.name for path in tmp_path.iterdir()] == [HEARTBEAT], "nothing is left aside"


def test_no_key_is_written_anywhere(config, monkeypatch: pytest.MonkeyPatch) -> None:
    key, password = "tml-0123456789abcdef", "correct horse battery"
    monkeypatch.setenv("TINKER_API_KEY", key)
    monkeypatch.setenv("SERVICE_PASSWORD", password)
    monkeypatch.setattr("sys.argv", ["scisci-gym", "train", f"engine=http://me:{key}@host/", password])
    with pytest.raises(RuntimeError), recorded_run("rl", config(question=f"is {key} good?")):
        raise RuntimeError(f"401 for {key} and {password}")
    files = [path for path in Path(config().log_path).parent.rglob("*") if path.is_file()]
    assert {"run.json", "heartbeat.json", "EXPERIMENT.md", "register.json", "REGISTER.md"} <= {p.name for p in files}
    for path in files:
        text = path.read_text()
        assert key not in text
        assert password not in text
    assert "[removed]" in (Path(config().log_path) / "run.json").read_text()


def test_what_is_no_key_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = {"path": "tinker://session-52461c383f8c43eb9357b58ced6b12dc:train:0/weights/000006", "n": 3, "x": [None]}
    assert without_secrets(harmless, {"SHORT_TOKEN": "0"}) == harmless
