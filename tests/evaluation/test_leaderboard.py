"""A leaderboard: boards by hand, its files, its page with hostile texts, and the command with and without a model."""

import asyncio
import json
import os
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tinker_cookbook.eval.benchmarks import BenchmarkBuilder, register
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.datasets.atomic_files import write_json_atomically
from scisci_gym.datasets.store import load_card
from scisci_gym.evaluation.ask import Answer
from scisci_gym.evaluation.leaderboard import Leaderboard, LeaderboardOptions, board, entry, write_results
from scisci_gym.evaluation.probes.flips import Challenged, flips
from scisci_gym.evaluation.public_benchmarks import public_benchmarks
from scisci_gym.evaluation.records import plain
from scisci_gym.evaluation.render.evaluation_page import write_page
from scisci_gym.evaluation.render.tables import leaderboard_markdown, leaderboard_tables, result_tables
from scisci_gym.recipes.experiments.evaluate import evaluate_all

HOSTILE = "<script>alert(1)</script>|x"
PRIOR = np.full(3, 1 / 3)


def answers(predicted: list[str], text: str = "") -> list[Answer]:
    expected = ["disruptive", "consolidating", "neutral"] * (len(predicted) // 3)
    return [
        Answer(f"disruption-v0:W{at}", true, said, text or said, 1.0 if said == true else -1.0, None, 2000 + at % 2)
        for at, (true, said) in enumerate(zip(expected, predicted, strict=True))
    ]


def test_answers_that_were_cut_off_while_thinking_are_noted() -> None:
    said = ["", "", "neutral"]
    assert entry("model", "run", answers(said, "<think>Hm.</think>?"), "disruption-v0", PRIOR).notes == ()
    (note,) = entry("model", "run", answers(said, "<think>Hm"), "disruption-v0", PRIOR).notes
    assert note.startswith("model was still thinking when 2 of its 3 answers to disruption-v0 were cut off")


def test_policies_are_compared_with_the_best_baseline_and_the_base_model() -> None:
    right = ["disruptive", "consolidating", "neutral"] * 4
    entries = [
        entry("weak", "baseline", answers(["disruptive"] * 12), "disruption-v0", PRIOR),
        entry("strong", "baseline", answers([*right[:9], "", "", ""]), "disruption-v0", PRIOR),
        entry("base", "base model", answers([""] * 12), "disruption-v0", PRIOR),
        entry("trained", "run", answers(right), "disruption-v0", PRIOR),
    ]
    made = board("disruption-v0", PRIOR, entries)
    assert made.best_baseline.name == "strong"
    assert made.best_policy is not None
    assert made.best_policy.name == "trained"
    assert [(one.first, one.second) for one in made.versus] == [
        ("base", "strong"),
        ("trained", "strong"),
        ("trained", "base"),
    ]
    against_strong = made.versus[1]
    assert (against_strong.labels.n_only_first_right, against_strong.labels.n_only_second_right) == (3, 0)
    # Three of twelve answers earn 1 instead of -1.
    assert against_strong.reward_difference.value == pytest.approx(0.5)
    # Exact McNemar test of 3 : 0.
    assert against_strong.labels.mcnemar_p == pytest.approx(0.25)


def test_entries_on_different_examples_are_refused() -> None:
    one = entry("one", "baseline", answers(["neutral"] * 6), "disruption-v0", PRIOR)
    other = entry("other", "run", answers(["neutral"] * 9), "disruption-v0", PRIOR)
    with pytest.raises(ValueError, match="different examples of disruption-v0"):
        board("disruption-v0", PRIOR, [one, other])


@pytest.mark.usefixtures("quick")
def test_the_command_without_a_model_prints_baselines_and_says_so(small_dataset: Path, tmp_path: Path) -> None:
    arguments = ["eval", "--all", "--dataset", str(small_dataset), "--out", str(tmp_path / "out")]
    arguments += ["--env", "disruption-v0", "--env", "cd-forecast-v0", "--max-examples", "30"]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    assert "No model took part: baselines only" in " ".join(done.output.split())
    assert max(map(len, done.output.split("written to")[0].splitlines())) <= 80
    for name in ("majority class", "TF-IDF + logistic", "TF-IDF + ridge", "macro-F1", "mean reward"):
        assert name in done.output
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert found["dataset"]["content_hash"] == load_card(small_dataset)["content_hash"]
    assert found["made"]["options"]["max_examples"] == 30
    assert {each["env"]: each["n"] for each in found["environments"]} == {"disruption-v0": 30, "cd-forecast-v0": 30}
    rows = (tmp_path / "out" / "predictions" / "disruption-v0" / "00.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["entry"] == "majority class"
    assert len(rows) == 31
    markdown = (tmp_path / "out" / "leaderboard.md").read_text()
    value = found["environments"][0]["entries"][-1]["outcome"]["scores"]["macro_f1"]["value"]
    assert f"| TF-IDF + logistic | {value:.3f} [" in markdown
    for name in ("leaderboard.svg", "leaderboard.png", "evaluation.html"):
        assert (tmp_path / "out" / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all"], "--all needs --dataset"),
        ([], "either the folder of a run"),
        (["--all", "--dataset", "nowhere"], "nowhere"),
        (["--all", "--dataset", "nowhere", "--public", "gsm8k"], "--public goes with a single run"),
        (["nowhere"], "nowhere is not a run"),
        (["nowhere", "--model", "x"], "--model goes with --all"),
        (["--all", "--dataset", "nowhere", "--embeddings", "./no-such-model"], "embeddings"),
    ],
)
def test_wrong_arguments_are_explained(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["eval", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("quick")
def test_environments_that_cannot_be_served(small_dataset: Path, tmp_path: Path) -> None:
    """Papers without CD index and citation percentile: no pairs, no numbers, no hits."""
    from scisci_gym.datasets.store import load_papers, save_dataset

    rows = {
        part: [type(paper).from_row({**paper.to_row(), "cd_index": None}) for paper in load_papers(small_dataset, part)]
        for part in ("train", "validation", "test")
    }
    folder = tmp_path / "data"
    saved = save_dataset(folder, rows)
    card = {**load_card(small_dataset), "content_hash": saved.content_hash}
    (folder / "card.json").write_text(json.dumps(card))
    options = LeaderboardOptions(str(folder), tmp_path, ("cd-forecast-v0",))
    with pytest.raises(ValueError, match="cannot serve cd-forecast-v0"):
        evaluate_all(options)
    result = evaluate_all(LeaderboardOptions(str(folder), tmp_path, max_examples=12))
    assert {"cd-forecast-v0", "disruption-pairwise-v0"} <= set(result.skipped)
    assert "disruption-v0" in {each.env_id for each in result.boards}


def test_texts_of_papers_and_models_are_escaped(small_dataset: Path, tmp_path: Path) -> None:
    from scisci_gym.datasets.store import load_papers

    papers = [paper for paper in load_papers(small_dataset, "test") if paper.disruption_label]
    found = [
        Answer(f"disruption-v0:{p.openalex_id}", str(p.disruption_label), "", HOSTILE, -1.0, None, p.publication_year)
        for p in papers
    ]
    entries = [
        entry("majority class", "baseline", found, "disruption-v0", PRIOR),
        entry(HOSTILE, "run", found, "disruption-v0", PRIOR, sampled=found, notes=[HOSTILE]),
    ]
    options = LeaderboardOptions(str(small_dataset), tmp_path)
    card = load_card(small_dataset)
    made = board("disruption-v0", PRIOR, entries)
    public = asyncio.run(public_benchmarks([HOSTILE], None, None, tmp_path, max_tokens=4))  # pyright: ignore
    result = Leaderboard(options, (made,), {}, card, {"public": public})
    challenged = flips([Challenged("truth", "neutral", "disruptive", "neutral", "neutral")])
    report = {"split": "test", "challengers": {HOSTILE: challenged}}
    write_json_atomically(tmp_path / "flips.json", plain(report))
    (tmp_path / "consistency.json").write_text(json.dumps({"split": "validation", "never shown": 1}))
    whole = write_results(result, tmp_path / "leaderboard.json")
    page = write_page(result, tmp_path / "evaluation.html", whole["made"]).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "Under challenge" in page
    assert "never shown" not in page
    assert not [line for line in page.splitlines() if 'src="http' in line or 'href="http' in line]
    first_table = page.split("</thead>")[0]
    assert first_table.count(">macro-F1</th>") == 1, "the main score is not repeated"
    assert "|x" not in leaderboard_markdown(result, "command").replace("\\|x", "")
    console = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(leaderboard_tables(result))
    assert "alert(1)" in console.export_text()


def test_further_layers_are_tables() -> None:
    assert result_tables("held_out_nll", {"held_out/nll": 0.123456})[0].rows == [["held_out/nll", "0.1235"]]
    task = {"task": "scisci_gym/novelty", "version": 0, "samples": 1200, "metrics": {"f1": 0.5}, "log": "x.eval"}
    tasks, settings = result_tables("inspect", {"tasks": [task], "packages": {"inspect_ai": "0.3"}, "max_tokens": 64})
    assert tasks.rows == [["scisci_gym/novelty", "0", "1,200", "f1", "0.5", "x.eval"]]
    assert (settings.rows, settings.detail) == ([["max tokens", "64"]], True)
    done = {"score": 0.25, "n": 1000, "errors": 0, "truncated": 3, "problem": "", "experimental": True}
    (public,) = result_tables("public", {"benchmarks": {"gsm8k": done}, "versions": {"datasets": "4"}})
    assert public.rows == [["gsm8k", "0.250", "1,000", "0", "3", "experimental", ""]]


class Unreachable(BenchmarkBuilder):
    name = "scisci_unreachable"

    def make_envs(self, renderer, config):
        raise ConnectionError("no network\nsecond line")


def test_public_benchmarks_that_cannot_run_are_reported(tmp_path: Path) -> None:
    register(Unreachable())
    names = ["scisci_unreachable", "scisci_no_such_benchmark"]
    found = asyncio.run(public_benchmarks(names, None, None, tmp_path, max_tokens=4))  # pyright: ignore
    first, second = found["benchmarks"].values()
    assert (first["score"], first["problem"]) == (None, "ConnectionError: no network")
    assert "scisci_no_such_benchmark" in second["problem"]
    assert found["versions"]["tinker-cookbook"]
