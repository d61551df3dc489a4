"""The page of an experiment: sections in order, marked rows, and texts that stay texts."""

from pathlib import Path

from scisci_gym.evaluation.bootstrap import Score
from scisci_gym.recipes.reporting.experiment_page import BEST, Section, Table, Transcript, write_experiment_page

SCORES = Table(("", "macro-F1"), [("SFT", Score(0.5, 0.4, 0.6)), ("RL <b>", None), (BEST, "0.9")], style="scores")


def page_of(out: Path, *sections: Section) -> str:
    return write_experiment_page(out / "page.html", "name", "Title", "lead", ["RL won."], sections).read_text()


def test_scores_have_their_interval_and_the_rows_of_rl_and_of_the_best_score_are_marked(tmp_path: Path) -> None:
    page = page_of(tmp_path, Section("Scores", [SCORES], "A note."))
    assert "<tr><td>SFT</td><td>0.500 <small>0.400 – 0.600</small></td></tr>" in " ".join(page.split("\n"))
    assert '<tr class="ours"><td>RL &lt;b&gt;</td><td></td></tr>' in page
    assert f'<tr class="best"><td>{BEST}</td><td>0.9</td></tr>' in page
    assert "A note." in page


def test_a_section_without_content_is_left_out(tmp_path: Path) -> None:
    page = page_of(tmp_path, Section("Empty", [Table(("a",), [])], "A note."), Section("Full", [SCORES], folded=True))
    assert "Empty" not in page
    assert "A note." not in page
    assert "<summary>Full</summary>" in page


def test_episodes_and_pictures_are_shown(tmp_path: Path) -> None:
    episode = Transcript("First", "Judge <this>", "neutral", "disruptive", -1.0)
    page = page_of(tmp_path, Section("Both", pictures=["<svg></svg>"], legend=["RL"], episodes=[episode]))
    assert "<figure><svg></svg></figure>" in page
    assert "Judge &lt;this&gt;" in page
    assert "reward -1.00" in page
