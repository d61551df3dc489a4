"""The study in small, as the command runs it: every arm, every file, and a second run that asks for nothing."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app

pytestmark = pytest.mark.slow
FEW = ["--seeds", "1", "--flip-examples", "6", "--max-examples", "24", "--validation-examples", "12"]
SMALL = [
    *("rl.max_steps=2", "rl.groups_per_batch=2", "rl.group_size=2", "sft_rl.max_steps=2", "sft_rl.groups_per_batch=2"),
    *("sft.num_epochs=1", "sft.rows=64", "sft.save_every=0", "dpo.num_epochs=1", "dpo.rows=64", "format.rows=64"),
]


def study(dataset: Path, model: Path, out: Path, *more: str):
    arguments = ["study", "--dataset", str(dataset), "--model", str(model), "--out", str(out), "--engine", "local"]
    return CliRunner().invoke(app, [*arguments, *FEW, *SMALL, *more])


@pytest.fixture(scope="module")
def done(dataset: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("study") / "out"
    result = study(dataset, model, out)
    assert result.exit_code == 0, result.output
    return out, result.output


def test_every_arm_is_scored_on_the_same_papers(done: tuple[Path, str]) -> None:
    out, shown = done
    found = json.loads((out / "study.json").read_text())
    rows = {row["name"]: row for row in found["rows"]}
    assert set(rows) == {
        *("majority class", "class prior", "TF-IDF + logistic"),
        *("base", "format", "sft", "rl", "sft_rl", "dpo"),
    }
    for name in ("sft", "rl", "sft_rl", "dpo"):
        assert len(rows[name]["by_seed"]) == 1
        assert rows[name]["cost"]["trained"] > 0
        assert 0 <= rows[name]["ece"] <= 1
        assert rows[name]["title"] in shown
    assert rows["base"]["cost"] is None
    compared = {(each["first"], each["second"]) for each in found["differences"]}
    assert {("rl", "sft"), ("sft_rl", "sft"), ("rl", "TF-IDF + logistic")} <= compared
    assert all(len(each["mcnemar_p"]) == 1 for each in found["differences"])
    assert {"ties", "no signal"} <= set(found["ties"]["rl"])
    assert len(found["flips"]["rl"]) == 1


def test_arms_start_from_where_the_plan_says(done: tuple[Path, str]) -> None:
    out, _ = done
    config = json.loads((out / "seed1" / "sft_rl" / "run.json").read_text())["config"]
    assert config["load_checkpoint_path"] == str(out / "seed1" / "sft")
    assert config["seed"] == 1


def test_the_report_stands_on_its_own(done: tuple[Path, str]) -> None:
    out, _ = done
    page = (out / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)
    assert page.count("<svg") > 8
    assert page.index("<svg") < page.index("<li>"), "the picture of all scores comes first"
    assert "RL" in re.findall(r"<li>(.*?)</li>", page, re.DOTALL)[0], "the answer to the question comes first"


def test_a_second_run_asks_for_nothing(done: tuple[Path, str], dataset: Path, model: Path) -> None:
    out, _ = done
    answers = {path: path.read_bytes() for path in out.rglob("trajectories.jsonl")}
    before = json.loads((out / "study.json").read_text())
    assert answers
    again = study(dataset, model, out)
    assert again.exit_code == 0, again.output
    assert "(done before)" in again.output
    assert {path: path.read_bytes() for path in answers} == answers
    assert json.loads((out / "study.json").read_text()) == before


def test_another_plan_in_the_same_folder_is_refused(done: tuple[Path, str], dataset: Path, model: Path) -> None:
    out, _ = done
    refused = study(dataset, model, out, "rl.temperature=0.5")
    assert refused.exit_code == 2
    assert "arms" in refused.output
