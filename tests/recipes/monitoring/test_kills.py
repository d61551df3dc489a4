"""A kill at any system call leaves files with which the same command goes on."""

import json
from pathlib import Path

import pytest
from kill_points import kill_points

from scisci_gym.datasets.atomic_files import drop_torn_lines, write_json_atomically
from scisci_gym.evaluation.compat import keep_whole_answers
from scisci_gym.recipes.kit.checkpoints import checkpoints, last_checkpoint
from scisci_gym.recipes.kit.compat import prepare_rl_resume
from scisci_gym.recipes.monitoring import record
from scisci_gym.recipes.monitoring.metrics import read_metrics
from scisci_gym.recipes.monitoring.record import read_state
from scisci_gym.recipes.monitoring.recorded import read_register, recorded_run

from .conftest import log


def train(config, first: int, end: int) -> Path:
    with recorded_run("rl", config):
        log(config.log_path, [{"step": step, "progress/done_frac": (step + 1) / 5} for step in range(first, end)])
    return Path(config.log_path)


@pytest.mark.slow
def test_a_resumed_run_that_is_killed_anywhere_is_taken_up_again(
    config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first kill left half a line, to which the cookbook appends. Heartbeat, record, register: all are whole."""
    monkeypatch.setattr(record, "git_revision", lambda: "abc")
    folder = train(config(), 0, 3)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "progr')
    for point in kill_points(tmp_path / "runs", lambda: train(config(), 3, 5)):
        train(config(), 3, 5)
        assert [row["step"] for row in read_metrics(folder)] == [0, 1, 2, 3, 4], point
        assert read_state(folder).status == "finished", point
        assert set(read_register(folder.parent)) == {"one"}, point


def test_checkpoints_of_a_run_with_half_a_line_can_be_used(tmp_path: Path) -> None:
    record = json.dumps({"name": "000002", "batch": 2, "state_path": "tinker://s", "sampler_path": "tinker://p"})
    (tmp_path / "checkpoints.jsonl").write_text(f'{record}\n{{"name": "0000')
    assert [found.name for found in checkpoints(tmp_path)] == ["000002"]
    assert last_checkpoint(tmp_path) == "tinker://s"


def test_settling_a_resumed_run_is_whole_or_undone(tmp_path: Path) -> None:
    log(tmp_path, [{"step": 0, "progress/batch": 0}, {"step": 1, "progress/batch": 1}])
    names = [{"name": f"{at:06d}", "batch": at, "state_path": f"tinker://{at}"} for at in (1, 2, 3)]
    path = tmp_path / "checkpoints.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in names))
    for point in kill_points(tmp_path, lambda: prepare_rl_resume(tmp_path)):
        prepare_rl_resume(tmp_path)
        assert [found.step for found in checkpoints(tmp_path)] == [1, 2], point


def test_kept_answers_are_whole_or_untouched(tmp_path: Path) -> None:
    path = tmp_path / "b" / "trajectories.jsonl"
    path.parent.mkdir()
    path.write_text('{"error": null}\n{"error": "timeout"}\n{"err')
    for point in kill_points(tmp_path, lambda: keep_whole_answers(tmp_path, "b")):
        keep_whole_answers(tmp_path, "b")
        assert path.read_text() == '{"error": null}\n', point


def test_json_is_the_old_or_the_new(tmp_path: Path) -> None:
    path = write_json_atomically(tmp_path / "sweep.json", {"runs": [1]})
    for point in kill_points(tmp_path, lambda: write_json_atomically(path, {"runs": [1, 2]})):
        assert json.loads(path.read_text())["runs"] in ([1], [1, 2]), point


def test_what_is_appended_after_any_cut_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    text = "".join(json.dumps({"step": step, "name": "größer"}) + "\n" for step in range(3)).encode()
    for cut in range(len(text) + 1):
        path.write_bytes(text[:cut])
        drop_torn_lines(path)
        log(tmp_path, [{"step": 9}])
        assert [row["step"] for row in read_metrics(tmp_path)] == [*range(text[:cut].count(b"\n")), 9]
