"""Commands write into folders and over files that are theirs, and leave every other byte as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.recipes.experiments.plan import Arm, StudyPlan
from scisci_gym.recipes.experiments.study import run_study


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")

    def start(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 2, result.output
        return result.output

    return start


def test_a_fresh_demo_keeps_what_was_there(run, tmp_path):
    """The demo then stops, because hosted Tinker does not have its model; the old folder has a new name."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "demo.json").write_text("{}")
    (tmp_path / "demo" / "thesis.txt").write_text("mine")
    assert "is in" in run("demo", "--out", "demo", "--fresh", "--engine", "hosted")
    assert (tmp_path / "demo.1" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--out", "theirs"),
        ("engine", "init-model", "theirs", "--corpus", "corpus"),
        ("engine", "init-model", "corpus/model", "--corpus", "corpus"),
        ("labels", "graph", "--out", "theirs/model.safetensors"),
    ],
)
def test_what_is_not_theirs_is_refused(run, tmp_path, arguments):
    theirs = tmp_path / "theirs" / "model.safetensors"
    theirs.parent.mkdir()
    (tmp_path / "corpus").mkdir()
    theirs.write_bytes(b"weights")
    CitationGraph.from_edges(np.array([1]), np.array([0]), np.array([1990, 1992])).save(tmp_path / "graph")
    assert "choose another" in run(*arguments)
    assert list(Path("theirs").iterdir()) == [Path("theirs/model.safetensors")]
    assert theirs.read_bytes() == b"weights"


def test_a_study_of_a_split_that_is_not_there_starts_nothing(run, tmp_path):
    papers = sample_papers()
    save_dataset(tmp_path / "data", {"train": papers, "validation": papers, "test": papers})
    (tmp_path / "data" / "card.json").write_text("{}")
    assert "no split 'tset'" in run(
        "study", "--dataset", "data", "--model", "model", "--out", "study", "--split", "tset"
    )
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "cd-forecast-v1"], "cd-forecast-v1 asks for a number, and a study compares labels"),
        (["--env", "disruption-selfplay-v0"], "arm dpo: disruption-selfplay-v0 offers no pairs"),
        (["--env", "novelty-v0"], "no paper of data (test) has the label that novelty-v0 grades against"),
    ],
)
def test_a_study_that_cannot_be_finished_starts_nothing(run, tmp_path, arguments, message):
    unknown = {"novelty_label": None, "novelty_score": None, "conventionality_score": None}
    papers = [replace(paper, **unknown) for paper in sample_papers()]
    save_dataset(tmp_path / "data", {"train": papers, "validation": papers, "test": papers})
    (tmp_path / "data" / "card.json").write_text("{}")
    shown = run("study", "--dataset", "data", "--model", "model", "--out", "study", *arguments)
    assert message in shown
    assert len(shown.splitlines()) == 1
    assert not (tmp_path / "study").exists()


def test_a_study_with_a_baseline_that_does_not_exist_starts_nothing(tmp_path):
    papers = sample_papers()
    save_dataset(tmp_path / "data", {"train": papers, "validation": papers, "test": papers})
    plan = StudyPlan(str(tmp_path / "data"), "model", (Arm("base", "base model"),), baselines=("oracle",))
    with pytest.raises(ValueError, match="disruption-v0 has no baseline 'oracle'; it has majority class"):
        run_study(plan, tmp_path / "study", Console(quiet=True))
    assert not (tmp_path / "study").exists()


def test_a_report_takes_the_place_of_a_report_only(tmp_path):
    from scisci_gym.datasets.errors import BadInput
    from scisci_gym.evaluation.render.pages import render_page

    (tmp_path / "report.html").write_text("<html>my page</html>")
    with pytest.raises(BadInput, match="is no report; choose another --out"):
        render_page("run_report.html.j2", tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "<html>my page</html>"
