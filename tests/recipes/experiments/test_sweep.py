"""The grid, the table, and the options that a sweep takes from an earlier run."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from scisci_gym.recipes.experiments.sweep import (
    Sweep,
    SweepRun,
    alternatives,
    base_options,
    grid,
    measures,
    sweep_table,
    tabulated,
)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_the_grid_has_every_combination_once(sizes: list[int]) -> None:
    options = {f"o{at}": [str(value) for value in range(size)] for at, size in enumerate(sizes)}
    points = [tuple(point.values()) for point in grid(options)]
    assert len(points) == len(set(points))
    expected = 1
    for size in sizes:
        expected *= size
    assert len(points) == expected


def test_alternatives_of_options_that_hold_commas_are_separated_by_semicolons() -> None:
    found = alternatives(["group_size=4,8", "env_options=prompt=short,references=true;prompt=full"])
    assert found == {"group_size": ["4", "8"], "env_options": ["prompt=short,references=true", "prompt=full"]}


@pytest.mark.parametrize("argument", ["group_size", "=4", "group_size=4,,8"])
def test_what_is_no_option_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.split("=")[0] or "="):
        alternatives([argument])


def write_metrics(folder: Path, rows: list[dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_measures_are_means_of_the_last_ten_steps_and_median_rates(tmp_path: Path) -> None:
    """Twelve steps with rewards 0..11: the last ten have mean 6.5. A step takes 2 s, evaluations not counted."""
    rows = []
    for step in range(12):
        evaluation = 8.0 if step % 3 == 0 else 0.0
        row = {"step": step, "env/all/reward/total": float(step), "env/all/total_episodes": 16}
        rows.append(
            row | {"env/all/total_ac_tokens": 128, "time/total": 2.0 + evaluation, "time/run_evals": evaluation}
        )
    write_metrics(tmp_path, [*rows, {"step": 12, "validation/macro_f1": 0.5}, {"step": 6, "validation/macro_f1": 0.7}])
    found = measures(tmp_path)
    assert found["reward"] == 6.5
    assert found["validation"] == 0.7
    assert (found["episodes/s"], found["tokens/s"]) == (8.0, 64.0)
    assert found["loss"] is None


def test_seeds_of_one_point_become_one_row_with_a_t_interval() -> None:
    """Rewards 1 and 3: mean 2, s = sqrt(2), half width t_1 s / sqrt(2) = 12.706."""
    points = [({"group_size": size, "seed": seed}, float(seed)) for size in ("4", "8") for seed in ("1", "3")]
    runs = [SweepRun(point, Path("x"), {"reward": value}) for point, value in points]
    headings, rows = tabulated(runs, ["group_size", "seed"])
    assert headings == ["group_size", "seeds", "reward"]
    assert rows == [["4", "2", "2.000 ±12.706"], ["8", "2", "2.000 ±12.706"]]


@pytest.mark.parametrize("width", [72, 100, 200])
def test_the_table_fits_the_terminal_and_breaks_no_number(width: int) -> None:
    names = ("reward", "correct", "ties", "no signal", "all floor", "all best", "validation", "episodes/s", "tokens/s")
    runs = [SweepRun({"seed": str(seed)}, Path("x"), dict.fromkeys(names, 0.125 * (seed + 1))) for seed in range(3)]
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(sweep_table(runs, ["seed"], console))
    shown = console.export_text()
    assert "0.250" in shown
    assert "±0.311" in shown, "t_2 * 0.125 / sqrt(3)"
    assert "…" not in shown


def test_a_sweep_needs_an_option_of_the_recipe(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="grup_size"):
        Sweep("rl", {"grup_size": ["1"]}, tmp_path, {})
    with pytest.raises(ValueError, match="--out"):
        Sweep("rl", {"log_path": ["x"]}, tmp_path, {})


def test_options_of_an_earlier_run_are_taken_without_its_folder(tmp_path: Path) -> None:
    record = {"recipe": "rl", "config": {"dataset": "d", "log_path": "old", "group_size": 8, "wandb_name": "w"}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert base_options(tmp_path, "rl", print) == {"dataset": "d", "group_size": 8}
    with pytest.raises(ValueError, match="sft"):
        base_options(tmp_path, "sft", print)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        base_options(tmp_path / "nowhere", "rl", print)
