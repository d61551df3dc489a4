"""`scisci-gym report`: one file that stands on its own and shows texts as texts."""

import json
import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.envs.training.outcomes import EPISODE
from scisci_gym.evaluation.render.pages import render_page
from scisci_gym.evaluation.render.pictures import curves_svg, running_mean
from scisci_gym.recipes.monitoring.recorded import recorded_run
from scisci_gym.recipes.reporting.run_report import episodes_of

from .conftest import log
from .test_register import evaluated

ATTACK = "</pre><script>alert('x')</script><img src=x onerror=alert(1)>"
VOID = {"meta", "img", "input", "br", "link", "hr"}


class Outline(HTMLParser):
    """Tags in order, and whether they are closed in the order in which they were opened."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def episode_node(number: int, text: str) -> dict:
    data = {
        "type": EPISODE,
        "example_id": f"disruption-v0:W{number}",
        "turns": [[f"Judge this: {text}", "<answer>neutral</answer>"]],
        "reward": -1.0,
        "expected": "disruptive",
        "predicted": "neutral",
    }
    return {"tag": "div", "attrs": {}, "children": [], "data": data}


def run_of(config, steps: int = 6, text: str = "On stones") -> Path:
    with recorded_run("rl", config):
        rows = [
            {
                "step": step,
                "progress/done_frac": (step + 1) / steps,
                "env/all/reward/total": math.nan if step == 2 else step / steps,
                "validation/macro_f1": 0.2 + step / 10,
                "optim/entropy": 1 - step / 10,
                "env/all/predicted/neutral": 0.5,
            }
            for step in range(steps)
        ]
        log(config.log_path, rows)
        for step in range(steps):
            folder = Path(config.log_path) / f"iteration_{step:06d}"
            folder.mkdir()
            tree = {"root": {"children": ["text", {"children": [episode_node(at, text) for at in range(6)]}]}}
            (folder / "train_logtree.json").write_text(json.dumps(tree))
    return Path(config.log_path)


def reported(tmp_path: Path, *runs: Path, options: tuple[str, ...] = ()) -> str:
    out = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", *map(str, runs), "--out", str(out), *options])
    assert done.exit_code == 0, done.output
    return out.read_text()


def test_a_report_stands_on_its_own(config, tmp_path: Path) -> None:
    page = Outline(reported(tmp_path, run_of(config())))
    addresses = [value for _, name, value in page.attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(address.startswith("#") for address in addresses), "it must load nothing"
    assert not {"link", "iframe", "object", "img"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert page.tags.count("svg") == 4, "reward, validation, entropy, labels"
    text = " ".join(page.text)
    assert "not-finite" in text
    assert "6 of 6" in text


def test_texts_of_papers_and_models_are_shown_and_not_run(config, tmp_path: Path) -> None:
    page = Outline(reported(tmp_path, run_of(config(question=ATTACK, model_name=ATTACK), text=ATTACK)))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "".join(page.text).count(ATTACK) > 3


def test_several_runs_side_by_side(config, tmp_path: Path) -> None:
    one, other = run_of(config("one")), run_of(config("other", seed=7, lora_rank=8))
    evaluated(one, "test", "data")
    page = reported(tmp_path, one, other)
    text = " ".join(" ".join(Outline(page).text).split())
    differ = text.split("Options that differ")[1].split("Records")[0]
    assert "seed 0 7" in differ
    assert "lora_rank 4 8" in differ
    assert "env_options" not in differ
    assert "majority class 80 0.700 0.600 – 0.800" in text
    top = page.split("<h2>")[0]
    assert "Macro-F1 on test papers" in top, "the picture with the result comes first"
    assert "majority class 0.700, one 0.700" in top
    assert page.count('id="line-2"') == 3, "the second run in reward, validation and entropy"


def test_runs_of_the_same_name_are_told_apart_and_the_same_run_twice_is_refused(config, tmp_path: Path) -> None:
    one, other = run_of(config("a/same")), run_of(config("b/same"))
    text = " ".join(Outline(reported(tmp_path, one, other)).text)
    assert "a/same" in text
    assert "b/same" in text
    done = CliRunner().invoke(app, ["report", str(one), str(one), "--out", str(tmp_path / "x.html")])
    assert done.exit_code == 2
    assert "twice" in done.stderr


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "x.html")])
    assert done.exit_code == 2
    assert not (tmp_path / "x.html").exists()


def test_episodes_are_spread_over_the_run(config) -> None:
    folder = run_of(config(), steps=9)
    found = episodes_of(folder, most=12, per_step=3)
    assert [(episode.step, episode.number) for episode in found[:3]] == [(0, 0), (0, 1), (0, 2)]
    assert [episode.step for episode in found[::3]] == [0, 3, 5, 8]
    assert episodes_of(folder, most=0) == []
    (folder / "iteration_000008" / "train_logtree.json").write_text('{"root": {"chil')
    assert {episode.step for episode in episodes_of(folder, most=100)} == set(range(8)), "a file in the making"


def test_headings_of_a_report_do_not_skip_a_level(config, tmp_path: Path) -> None:
    page = Outline(reported(tmp_path, run_of(config("a")), run_of(config("b"))))
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_report_shows_prompts_without_the_tokens_of_the_chat_template(config, tmp_path: Path) -> None:
    prompt = "<|im_start|>user\nJudge<|im_end|>\n<|im_start|>assistant\n"
    text = "".join(Outline(reported(tmp_path, run_of(config(), text=prompt))).text)
    assert "Judge this: Judge\n" in text
    assert "<|" not in text
    assert "[assistant]" not in text


def test_a_band_of_seeds_is_lowest_mean_and_highest_where_all_have_values() -> None:
    seeds = [[{"step": step, "x": value + step} for step in range(4)] for value in (0, 3)]
    seeds[1] = seeds[1][:3]
    svg = curves_svg({"arm": seeds}, "x", "title")
    line = re.search(r'<g id="line-1">\s*<path d="([^"]*)"', svg)
    assert line is not None
    assert len(re.findall("[ML]", line.group(1))) == 3, "three steps that both seeds have"
    assert "fill-opacity: 0.16" in svg
    assert "fill-opacity: 0.16" not in curves_svg({"arm": seeds[:1]}, "x", "title")


def test_rounding_errors_are_drawn_as_zero() -> None:
    """The divergence of equal policies is 1e-13 or so, and no curve."""
    noise = [{"step": step, "x": (-1) ** step * 1e-13} for step in range(4)]
    assert "e−13" not in curves_svg({"": [noise]}, "x", "title")
    signal = [{**row, "x": row["x"] * 1e9} for row in noise]
    assert "1e−6" not in curves_svg({"": [signal]}, "x", "title"), "what is larger keeps its own scale"


def test_pictures_take_their_colours_from_the_page_and_escape_names() -> None:
    svg = curves_svg({"<b>": [[{"step": 0, "x": 1.0}]], "$y$": [[]]}, "x", "a < b", legend=True)
    assert "var(--c1" in svg
    assert "#0101" not in svg
    assert "<style" not in svg
    assert 'aria-label="a &lt; b: &lt;b&gt; from 1 at step 0 to 1 at step 0"' in svg, "what the picture shows, in words"
    assert "&lt;b&gt;" in svg
    assert "$y$" in svg
    with pytest.raises(ValueError, match="smooth must be"):
        curves_svg({}, "x", "t", smooth=0)


def test_running_mean_looks_back_only() -> None:
    values = np.array([4.0, 0.0, 2.0, 6.0])
    assert running_mean(values, 3).tolist() == pytest.approx([4, 2, 2, 8 / 3])
    assert running_mean(values, 1).tolist() == values.tolist()


def test_a_page_with_an_unknown_name_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="undefined"):
        render_page("run_report.html.j2", tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
