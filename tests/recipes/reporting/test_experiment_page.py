"""The page of an experiment: sections in order, marked rows, and texts that stay texts."""

from pathlib import Path

from scisci_gym.evaluation.bootstrap import Score
from scisci_gym.evaluation.render.pictures import scores_svg
from scisci_gym.recipes.reporting.experiment_page import BEST, Section, Table, Transcript, write_experiment_page

SCORES = Table(("", "macro-F1"), [("SFT", Score(0.5, 0.4, 0.6)), ("RL <b>", None), (BEST, "0.9")], style="scores")


def page_of(out: Path, *sections: Section, picture: str = "") -> str:
    path = write_experiment_page(out / "page.html", "name", "Title", "lead", ["RL won."], sections, picture=picture)
    return path.read_text()


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


def test_a_picture_of_the_result_stands_before_the_sentences(tmp_path: Path) -> None:
    score = Score(0.5, 0.4, 0.6)
    picture = scores_svg("Macro-F1", {"prior": score}, {"RL <b>": score}, (BEST, 0.9))
    page = page_of(tmp_path, Section("Scores", [SCORES]), picture=picture)
    assert page.index("<svg") < page.index("RL won.") < page.index("<h2>Scores")
    assert all(f">{name}<" in page for name in ("prior", "RL &lt;b&gt;"))
    assert f"{BEST} 0.900" in page
    assert f'aria-label="Macro-F1: prior 0.500, RL &lt;b&gt; 0.500, {BEST} 0.900"' in page
    assert "<svg" not in page_of(tmp_path, Section("Scores", [SCORES]))


def test_the_tokens_that_end_a_turn_are_no_part_of_the_message(tmp_path: Path) -> None:
    episode = Transcript("First", "ends with <|im_end|>", "<|a|> neutral<|im_end|><|endoftext|>\n", "neutral", 1.0)
    page = page_of(tmp_path, Section("One", episodes=[episode]))
    assert "<pre>&lt;|a|&gt; neutral</pre>" in page
    assert "<pre>ends with &lt;|im_end|&gt;</pre>" in page
