"""Reading metrics as they grow, how far a run is, and what is made of its numbers."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.recipes.monitoring.metrics import (
    BLOCKS,
    DPO_LOSS,
    HELD_OUT_NLL,
    NLL,
    REWARD,
    SPEED,
    MetricsLog,
    finite,
    progress,
    sparkline,
    summary,
    tokens_per_second,
    values,
)

from .conftest import log


def test_rows_are_read_as_they_come(tmp_path: Path) -> None:
    metrics = MetricsLog(tmp_path)
    assert metrics.rows() == []
    log(tmp_path, [{"step": 0, "a": 1}, {"step": 1, "a": 2}])
    assert [row["a"] for row in metrics.rows()] == [1, 2]
    log(tmp_path, [{"step": 1, "a": 3, "b": 4}, {"note": "without a step"}])
    assert metrics.rows() == [{"step": 0, "a": 1}, {"step": 1, "a": 3, "b": 4}]


def test_a_line_in_the_making_waits_and_half_a_line_of_a_killed_run_is_passed_over(tmp_path: Path) -> None:
    metrics = MetricsLog(tmp_path)
    log(tmp_path, [{"step": 0, "a": 1}])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 1, "a"')
        file.flush()
        assert [row["step"] for row in metrics.rows()] == [0]
        file.write(': 2}\n{"step": 2, "a": ')
    assert [row["step"] for row in metrics.rows()] == [0, 1]
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "a": 9}\n{"step": 3, "a": 5}\n')
    assert [row["step"] for row in metrics.rows()] == [0, 1, 3]


def test_progress_after_three_of_ten_updates() -> None:
    """The third update is step 2. RL and SFT log the share done after it, 3 of 10; DPO the one before it, 2 of 10."""
    assert progress([{"step": 2, "progress/done_frac": 0.3}]) == (3, 10)
    assert progress([{"step": 2, "progress": 0.3, "train_mean_nll": 1.0}]) == (3, 10)
    assert progress([{"step": 2, "progress": 0.2, "dpo_loss": 1.0}]) == (3, 10)


@given(planned=st.integers(1, 3000), data=st.data())
def test_progress_is_found_at_every_step_of_every_plan(planned: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, planned - 1))
    rl = [{"step": step, "progress/done_frac": (step + 1) / planned}]
    sft = [{"step": step, "progress": min((step + 1) / planned, 1.0), "train_mean_nll": 1.0}]
    dpo = [{"step": step, "progress": step / planned, "dpo_loss": 1.0}]
    assert progress(rl) == progress(sft) == (step + 1, planned)
    assert progress(dpo) == (step + 1, planned if step else None)


def test_rows_after_the_last_update_are_no_progress() -> None:
    assert progress([{"step": 3, "progress": 0.5}, {"step": 8, "validation/macro_f1": 0.4}]) == (4, 8)
    assert progress([{"step": 8, "validation/macro_f1": 0.4}]) == (0, None)


def test_summary_of_a_measure() -> None:
    rows = [{"step": step, REWARD.key: value} for step, value in enumerate([0.1, 0.5, math.nan, 0.5, 0.2])]
    of = summary(rows, REWARD)
    assert of is not None
    assert (of.first, of.last, of.best) == ((0, 0.1), (4, 0.2), (1, 0.5))
    assert (of.lowest, of.highest) == ((0, 0.1), (1, 0.5))
    assert len(values(rows, REWARD.key)) == 5
    assert len(finite(rows, REWARD.key)) == 4
    assert summary([{"step": 0}], REWARD) is None
    assert {measure.better for measure in (NLL, DPO_LOSS, HELD_OUT_NLL)} == {"lower"}


def test_tokens_a_second_by_recipe() -> None:
    assert tokens_per_second({"env/all/total_ac_tokens": 300, "time/total": 2.0}) == 150
    assert tokens_per_second({"num_tokens": 100, "time/total": 4.0}) == 25
    sft = {"num_tokens": 100, "time/get_batch": 0.5, "time/submit_batch": 0.5, "time/finish_batch": 1.0, "time/step": 9}
    assert tokens_per_second(sft) == 50
    assert tokens_per_second({"validation/macro_f1": 0.5}) is None
    assert values([{"step": 0, **sft}], SPEED.key) == [(0, 50.0)]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=200), st.integers(1, 60))
def test_sparkline_never_breaks_and_fits(numbers: list[float], width: int) -> None:
    drawn = sparkline(numbers, width)
    assert len(drawn) == min(width, len(numbers))
    assert set(drawn) <= set(BLOCKS) | {"!"}


def test_sparkline_of_more_values_than_columns_is_of_means() -> None:
    """Means 1, 8 and 22: 8 is a third of the way up, 7/3 blocks, which is nearest to the third block."""
    assert sparkline([0, 2, 7, 9, 23, 21], 3) == "▁▃█"


@pytest.mark.parametrize("unit", [1e-320, 1.0, 1.7e308])
def test_sparkline_has_the_same_shape_in_any_unit(unit: float) -> None:
    assert sparkline([-unit, -unit, 0.0, 0.0, unit, unit], 3) == sparkline([-1, 0, 1]) == "▁▅█"


@pytest.mark.parametrize("text", ["", "\n", "not json\n", "[1, 2]\n", '{"step": "x"}\n'])
def test_a_broken_line_is_no_row_and_hides_no_other(tmp_path: Path, text: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(text)
    metrics = MetricsLog(tmp_path)
    assert metrics.rows() == []
    log(tmp_path, [{"step": 0, "a": 1}])
    assert metrics.rows() == MetricsLog(tmp_path).rows() == [{"step": 0, "a": 1}]


def test_nothing_logged_is_no_progress_of_an_unknown_plan() -> None:
    assert progress([]) == (0, None)
