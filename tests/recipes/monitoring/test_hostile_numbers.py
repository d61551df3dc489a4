"""Whatever number a run logs, what shows it goes on: infinities, NaN, -0.0, 1e308, integers beyond all floats."""

import math
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from scisci_gym.evaluation.render.figures import mean_of, shown
from scisci_gym.evaluation.render.pictures import curves_svg
from scisci_gym.recipes.experiments.sweep import SweepRun, measures, tabulated
from scisci_gym.recipes.monitoring.alarms import alarms, history
from scisci_gym.recipes.monitoring.metrics import BLOCKS, EXPECTED, MEASURES, PREDICTED, progress, sparkline
from scisci_gym.recipes.monitoring.record import RunState
from scisci_gym.recipes.monitoring.recorded import experiment_text
from scisci_gym.recipes.monitoring.summary import RunSummary
from scisci_gym.recipes.monitoring.watch import screen, snapshot

from .conftest import log

HUGE = [1e308, -1e308, 1.7976931348623157e308, 5e-324, -0.0, 0.0, math.inf, -math.inf, math.nan]
NUMBERS = st.one_of(st.sampled_from([*HUGE, 2**63, -(2**64), 10**400, -(10**400)]), st.floats(), st.integers())
KEYS = [*(measure.key for measure in MEASURES), PREDICTED + "a", EXPECTED + "a", "progress/done_frac", "progress"]
KEYS += ["time/total", "env/all/total_ac_tokens", "env/all/total_episodes", "num_tokens", "time/run_evals"]
ROWS = st.lists(st.dictionaries(st.sampled_from(KEYS), NUMBERS, max_size=len(KEYS)), max_size=14)


def rows_of(found: list[dict]) -> list[dict]:
    return [{**row, "step": step} for step, row in enumerate(found)]


@given(ROWS)
def test_everything_that_watches_goes_on(found: list[dict]) -> None:
    rows = rows_of(found)
    step, total = progress(rows)
    state = RunState(Path("x"), {}, rows, None, "running", None, step, total, alarms(rows))
    with Console(width=100, quiet=True) as console:
        console.print(screen(state))
    history(rows)
    assert snapshot(state)["step"] == step
    assert experiment_text(RunSummary(state))


@given(st.lists(NUMBERS, max_size=80), st.integers(1, 40))
def test_a_sparkline_is_blocks(values: list[float], width: int) -> None:
    drawn = sparkline(values, width)
    assert len(drawn) == min(width, len(values))
    assert set(drawn) <= {*BLOCKS, "!"}


def test_a_sparkline_reaches_from_the_smallest_to_the_largest_float() -> None:
    assert sparkline([-1.7e308, 0.0, 1.7e308]) in ("▁▄█", "▁▅█")


@given(NUMBERS)
def test_any_number_has_a_text(value: float) -> None:
    assert shown(value) not in ("", "-0")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_mean_lies_between_the_ends(values: list[float]) -> None:
    slack = 1e-9 * max(map(abs, values))
    assert min(values) - slack <= mean_of(values) <= max(values) + slack


@given(ROWS)
@settings(max_examples=12, deadline=None)
def test_curves_are_drawn(found: list[dict]) -> None:
    rows = rows_of(found)
    for key in (KEYS[0], "num_tokens"):
        assert curves_svg({"a": [rows], "b": [rows, rows]}, key, "t", smooth=3).startswith("<svg")


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_tables_and_costs_are_made(tmp_path_factory, found: list[dict]) -> None:
    folder = tmp_path_factory.mktemp("run")
    log(folder, rows_of(found))
    (folder / "run.json").write_text("{}")
    one = SweepRun({"seed": "0"}, folder, measures(folder))
    tabulated([one], ["seed"])
    tabulated([one, one], ["seed"])
    assert RunSummary.of(folder).cost.trained is not None
