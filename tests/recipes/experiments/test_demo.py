"""The demo in small: every stage runs, a second run takes up the first, the report stands on its own."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from sklearn.metrics import accuracy_score, f1_score

from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.store import load_papers
from scisci_gym.recipes.experiments.demo import Demo, DemoResult, DemoSettings
from scisci_gym.recipes.experiments.demo_report import challenge_rows, print_summary, write_report
from scisci_gym.recipes.experiments.evaluate import run_contestant

pytestmark = pytest.mark.slow
SMALL = DemoSettings(
    papers=6000, rl_steps=4, groups=4, group_size=4, sft_epochs=1, pretraining_steps=30, eval_every=2, lora_rank=4
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoResult]:
    out = tmp_path_factory.mktemp("demo") / "run"
    return out, Demo(out, SMALL, Console(quiet=True), engine="local", challenge=True).run()


def test_results_are_complete(finished: tuple[Path, DemoResult]) -> None:
    out, result = finished
    stored = json.loads((out / "results.json").read_text())
    assert stored == json.loads(json.dumps(result.to_json()))
    assert set(stored["baselines"]) == {"majority class", "class prior", "TF-IDF + logistic"}
    test_papers = result.card["splits"]["test"]["papers"]
    assert all(policy.greedy.n == test_papers == len(policy.answers) for policy in result.policies)
    assert stored["chosen_step"] in (2, 4)


def test_scores_are_those_of_the_answers_counted_again(finished: tuple[Path, DemoResult]) -> None:
    out, result = finished
    gold = [paper.disruption_label for paper in load_papers(out / "data", "test")]
    labels = ["disruptive", "consolidating", "neutral"]
    for policy in result.policies:
        said = [answer.predicted for answer in policy.answers]
        assert policy.greedy.accuracy.value == pytest.approx(accuracy_score(gold, said))
        expected = f1_score(gold, said, labels=labels, average="macro", zero_division=0)  # pyright: ignore[reportArgumentType]
        assert policy.greedy.macro_f1.value == pytest.approx(expected)
    most = max(labels, key=gold.count)
    assert result.baselines["majority class"].accuracy.value in {gold.count(each) / len(gold) for each in labels}
    assert result.baselines["TF-IDF + logistic"].accuracy.value > gold.count(most) / len(gold)


def test_no_policy_beats_the_perfect_reader_beyond_luck(finished: tuple[Path, DemoResult]) -> None:
    _, result = finished
    for scores in [*result.baselines.values(), *(policy.greedy for policy in result.policies)]:
        assert scores.accuracy.low <= result.card["ceiling"]["test"]["accuracy"]


def test_report_is_self_contained(finished: tuple[Path, DemoResult]) -> None:
    out, result = finished
    page = write_report(out, result).read_text()
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page), "the report must load nothing from elsewhere"
    assert "<script" not in page
    assert page.count("<svg") == 1 + 4 + 1, "the scores, four of the first act, one of the second"
    assert "im_end" not in page
    assert page.count('class="episode"') >= 2
    for policy in result.policies:
        assert policy.name in page
        assert f"{policy.greedy.macro_f1.value:.3f}" in page


def test_summary_names_the_report_and_three_commands(finished: tuple[Path, DemoResult], capsys) -> None:
    out, result = finished
    print_summary(result, out / "report.html", out, Console(width=80, highlight=False))
    shown = capsys.readouterr().out
    assert str(out / "report.html") in shown
    assert len(re.findall(r"^  scisci-gym ", shown, re.MULTILINE)) == 3
    assert "best reachable" in shown


def test_a_second_run_takes_up_the_first(finished: tuple[Path, DemoResult]) -> None:
    out, first = finished
    made = [
        *out.glob("*model/model.safetensors"),
        *out.glob("*/metrics.jsonl"),
        *out.rglob("trajectories.jsonl"),
    ]
    first_act, second_act = 1 + 3 + 6, 1 + 1 + 4
    assert len(made) == first_act + second_act, (
        "the model, three runs, and answers of each at two temperatures; "
        "another model, its run, and greedy answers of both, those under every kind of challenge apart"
    )
    before = [path.stat().st_mtime_ns for path in made]
    again = Demo(out, SMALL, Console(quiet=True), engine="local", challenge=True).run()
    assert [path.stat().st_mtime_ns for path in made] == before
    assert [policy.to_json() for policy in again.policies] == [policy.to_json() for policy in first.policies]
    assert again.challenged == first.challenged


def test_the_second_act_counts_flips_by_kind_before_and_after_rl(finished: tuple[Path, DemoResult], capsys) -> None:
    out, result = finished
    before, after = result.challenged
    assert (before.step, after.step) == (0, 4)
    assert -1.0 <= before.reward <= 1.5
    kinds = {"argued", "truth", "wrong", "control"}
    assert {row[1] for row in challenge_rows(result) if row[0] == before.title} <= kinds
    for policy in (before, after):
        argued, truth, wrong = (policy.row(kind).get("n", 0) for kind in ("argued", "truth", "wrong"))
        assert argued == truth + wrong
    page = write_report(out, result).read_text()
    assert "Under challenge" in page
    print_summary(result, out / "report.html", out, Console(width=80, highlight=False))
    shown = capsys.readouterr().out
    heading = next(line for line in shown.splitlines() if "right first" in line)
    assert heading.split() == "challenge n right first right last given up corrected".split(), "80 columns hold it"
    assert f"to {after.reward:.3f}." in shown


def test_without_the_second_act_nothing_of_it_is_shown(finished: tuple[Path, DemoResult], capsys) -> None:
    out, _ = finished
    alone = Demo(out, SMALL, Console(quiet=True), engine="local").run()
    assert (alone.challenged, "challenge" in alone.seconds) == ([], False)
    assert "Under challenge" not in write_report(out, alone).read_text()
    print_summary(alone, out / "report.html", out, Console(width=80, highlight=False))
    assert "second act" not in capsys.readouterr().out.lower()


def test_its_run_can_be_evaluated_by_its_folder(finished: tuple[Path, DemoResult]) -> None:
    """As the last of the commands that the demo prints does."""
    out, result = finished
    contestant = run_contestant(out / "rl")
    assert contestant.checkpoints == str(out / "checkpoints")
    assert contestant.policy.name == f"rl (step {result.chosen_step})"


def test_other_settings_in_the_same_folder_are_refused(finished: tuple[Path, DemoResult]) -> None:
    out, _ = finished
    with pytest.raises(BadInput, match=r"seed=0.*--fresh"):
        Demo(out, DemoSettings(**{**vars(SMALL), "seed": 1}), Console(quiet=True)).run()
