"""What README and tutorials show runs as it stands there."""

import json
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import chz
import pandas as pd
import pytest
from typer.testing import CliRunner

from scisci_gym.cli import COMMANDS, ENGINE_COMMANDS, app
from scisci_gym.envs.kit.renderers import renderer_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "tutorials").glob("*.md"))]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code in a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The `scisci-gym` commands in a page's blocks, as words."""
    lines = [line for block in blocks(page, "bash") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("scisci-gym ")]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists_with_its_options(page: str) -> None:
    """Words are parsed as they are when the command runs, and `name=value` is an option of the recipe."""
    for words in commands(page):
        if words == ["--help"]:
            continue
        known = ENGINE_COMMANDS if words[0] == "engine" else COMMANDS
        words = words[1:] if words[0] == "engine" else words
        command = known[words[0]].load(words[0])
        if hasattr(command, "commands"):
            command, words = command.commands[words[1]], words[1:]
        context: Any = command.make_context(words[0], words[1:])
        if words[0] == "train":
            config = import_module(f"scisci_gym.recipes.{words[1]}").CLIConfig
            given = {word.split("=")[0] for word in context.args if "=" in word}
            assert given <= set(chz.chz_fields(config)), words


@pytest.mark.parametrize("page", PAGES)
def test_commands_can_be_pasted_into_any_shell(page: str) -> None:
    """zsh takes a comment on its command line for words of the command, and an apostrophe in it for an open quote."""
    assert [line for block in blocks(page, "bash") for line in block.splitlines() if "#" in line] == []


def run(page: str, numbers: slice, folder: Path, **names: Any) -> dict[str, Any]:
    """The names that are there after the page's Python blocks have run in `folder`."""
    for block in blocks(page, "python")[numbers]:
        exec(compile(block, f"{page} in {folder}", "exec"), names)
    return names


def test_an_episode_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    from scisci_gym.engine.tiny.chat_tokenizer import train_tokenizer

    train_tokenizer(["a river"], 300).save_pretrained(str(tmp_path / "runs" / "demo" / "model"))
    monkeypatch.chdir(tmp_path)
    run("README.md", slice(0, 2), tmp_path)
    printed = capsys.readouterr().out
    assert (
        'I would say consolidating: it says "It extends a known result to ice.", and extends, known points' in printed
    )
    assert printed.splitlines()[-2:] == ["1.5 1.0 0.3 0.2", "1.2"]


def test_an_own_renderer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    from tinker_cookbook.renderers import unregister_renderer

    from scisci_gym.engine.tiny.chat_tokenizer import train_tokenizer

    train_tokenizer(["a river"], 300).save_pretrained(str(tmp_path / "runs" / "model"))
    monkeypatch.chdir(tmp_path)
    names = run("docs/tutorials/own-renderer.md", slice(None), tmp_path, __name__="own_renderer")
    unregister_renderer("me/plain")
    assert capsys.readouterr().out == "1.2\n"
    # The first block as a module, which the name of the renderer says.
    (tmp_path / "plain.py").write_text(blocks("docs/tutorials/own-renderer.md", "python")[0])
    with pytest.raises(ValueError, match=r"renderer plain:me/plain: No module named 'plain'; install the package"):
        renderer_of("plain:me/plain", "runs/model")
    monkeypatch.syspath_prepend(tmp_path)
    renderer = renderer_of("plain:me/plain", "runs/model")
    unregister_renderer("me/plain")
    assert type(renderer).__name__ == names["PlainRenderer"].__name__


def test_the_scientometricians_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/tutorials/scientometrician.md"
    monkeypatch.chdir(tmp_path)
    names = run(page, slice(0, 1), tmp_path)
    for words in commands(page):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    names = run(page, slice(1, None), tmp_path, **names)
    labels, papers = names["labels"], names["papers"]
    assert labels.id.tolist() == papers.id.tolist()
    pd.testing.assert_series_equal(labels.cd, papers.cd)
    pd.testing.assert_series_equal(labels.z10, papers.z10)
    assert 100 < labels.eligible.sum() < len(labels)
    shown = re.findall(r"`([\w]+)`", (ROOT / page).read_text().split("| column |")[1].split("\n\n")[0])
    assert set(shown) - set(labels.columns) == {"coverage", "reference_count"}


@pytest.mark.real_model
def test_the_engineers_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SmolLM2 itself, on fewer papers and steps than the page takes."""
    smaller = {
        "build": ["--papers", "3000"],
        "sft": ["rows=16", "batch_size=8", "validation_examples=8"],
        "rl": ["max_steps=2", "groups_per_batch=2", "group_size=2", "validation_examples=8"],
        "watch": ["--once", "--json"],
        "eval": ["--max-examples", "8"],
    }
    monkeypatch.chdir(tmp_path)
    page = [words for words in commands("docs/tutorials/engineer.md") if words[0] != "sweep"]
    walk = page[: page.index(["eval", "runs/smol"]) + 1]
    assert [words[1] if words[0] == "train" else words[0] for words in walk] == ["engine", *smaller]
    for words in walk:
        options = smaller.get(words[1] if words[0] == "train" else words[0], [])
        given = {option.split("=")[0] for option in options if "=" in option}
        words = [word for word in words if word.split("=")[0] not in given]
        done = subprocess.run([sys.executable, "-m", "scisci_gym", *words, *options], capture_output=True, text=True)
        # Two updates of SFT do not teach the format, and an alarm that says so is what ends `watch --once` with 1.
        assert done.returncode == (1 if words[0] == "watch" else 0), done.stderr
        assert words[0] != "watch" or [a["name"] for a in json.loads(done.stdout)["alarms"]] == ["untrained-format"]
    assert "macro-F1" in done.stdout


@pytest.mark.slow
def test_the_researchers_loop_trains(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Two of its updates; the toy model writes no answer, so the mean reward is the floor."""
    from scisci_gym.datasets.store import save_dataset
    from scisci_gym.envs.kit.samples import sample_papers

    papers = sample_papers()
    save_dataset(tmp_path / "runs" / "data", {"train": papers, "validation": papers, "test": papers})
    (tmp_path / "runs" / "model").symlink_to(tiny_model)
    monkeypatch.chdir(tmp_path)
    [loop] = blocks("docs/tutorials/rl-researcher.md", "python")
    assert len([line for line in loop.splitlines() if line.strip()]) <= 40
    assert "UPDATES = 60" in loop
    exec(compile(loop.replace("UPDATES = 60", "UPDATES = 2"), "loop.py", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.splitlines() == [f"update {n}: mean reward -1.000" for n in (0, 1)]
    assert list((tmp_path / "runs" / "checkpoints").iterdir())
