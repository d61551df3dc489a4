"""What people see: the commands, the gallery, and that a new environment is one file."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from scisci_gym import make, specs
from scisci_gym.cli import app
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.integrations import gallery as pages
from scisci_gym.envs.integrations.gallery import gallery
from scisci_gym.envs.integrations.play import Rival, play_examples
from scisci_gym.envs.kit.cards import sections
from scisci_gym.envs.kit.episodes import play_episode, run_sync

ROOT = Path(__file__).resolve().parents[2]
BLIND = ("datasets", "engine", "rewards")


@pytest.fixture
def command(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("SCISCI_GYM_DATASET", raising=False)
    return lambda *words, **options: CliRunner().invoke(app, [str(word) for word in words], **options)


def test_list_names_every_environment(command):
    done = command("list")
    assert done.exit_code == 0
    assert all(env_class.env_id in done.output for env_class in specs())


@pytest.mark.parametrize("env_id", [env_class.env_id for env_class in specs()])
def test_show_has_card_shares_and_example(command, env_id):
    done = command("show", env_id)
    assert done.exit_code == 0
    for said in ("Rewards", "Episode end", "Labels of", "%", "a perfect answer", "scisci_"):
        assert said in done.output


def test_show_takes_the_shares_from_a_dataset(command, papers, tmp_path):
    save_dataset(tmp_path, {"train": papers[:1], "validation": [], "test": papers})
    one = command("show", "disruption-v0", "--dataset", tmp_path)
    assert "100.0%" in one.output
    assert "Labels of 9 examples" in command("show", "disruption-v0", "--dataset", tmp_path, "--split", "test").output


def test_play_explains_the_reward(command):
    # A label alone is put between tags; the second message has them.
    said = "because it says so\ndisruptive\n\n<answer>disruptive</answer>\n\n"
    done = command("play", "disruption-adversarial-v0", input=said)
    assert done.exit_code == 0
    for line in ("right is disruptive", "adaptation   +0.20", "Reward +1.200 (from -1 to 1.5)", "CD index 0.42"):
        assert line in done.output


def test_play_pays_as_training_with_the_dataset_does(command, papers, tmp_path):
    neutral = [paper for paper in papers if paper.disruption_label == "neutral"]
    save_dataset(tmp_path, {"train": neutral, "validation": [], "test": []})
    done = command("play", "disruption-forecast-v1", "--dataset", tmp_path, input="\n")
    assert "(from -2 to 1)" not in done.output
    shares = [count / (len(neutral) + 3) for count in (1, 1, len(neutral) + 1)]
    assert f"Reward {1 - 2 / (1 - sum(share**2 for share in shares)):+.3f}" in done.output


def test_play_tells_what_an_answer_is(command):
    done = command("play", "disruption-v0", input="\n")
    assert "Reward -1.000" in done.output
    assert "exactly one pair of answer tags" in done.output


def test_play_asks_again_for_what_is_no_answer(command):
    done = command("play", "disruption-v0", input="disruptiv\n\ndisruptive\n\n")
    assert "That is no answer; it has to be one of: disruptive; consolidating; neutral." in done.output
    assert "Reward +1.000" in done.output
    done = command("play", "disruption-forecast-v0", input="disruptive\n\n\n")
    assert "it has to be such as <answer>disruptive: 0.33" in done.output
    assert "Reward -1.000" in done.output


def test_play_gives_hints_and_never_the_answer(command):
    done = command("play", "disruption-v0", input="?\n?\n?\ndisruptive\n\n")
    assert "Labels of all examples here: 33% disruptive, 33% consolidating, 33% neutral." in done.output
    assert ("It is not consolidating." in done.output) != ("It is not neutral." in done.output)
    assert "There is no further hint." in done.output
    assert "with 2 hints" in done.output


def test_play_shows_several_papers_and_a_model_beside_the_player(command, papers, monkeypatch):
    done = command("play", "disruption-v0", "--examples", "2", "--index", "8", input="disruptive\n\ndisruptive\n\n")
    assert "example 2 of 2" in done.output
    assert "You: 1 of 2 right, mean reward +0.000." in done.output

    def consolidating(example):
        env = make("disruption-v0", *example)
        return run_sync(play_episode(env, lambda _: "[because] <answer>consolidating</answer>"))

    typed = iter(["disruptive", ""] * 2)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: next(typed))
    shown = Console(record=True, width=120)
    play_examples(shown, "disruption-v0", [(papers[0],), (papers[1],)], {}, {}, Rival("rl", consolidating))
    text = shown.export_text()
    assert "rl said consolidating; reward -1.000." in text
    assert "[because] <answer>consolidating</answer>" in text
    assert "rl: 1 of 2 right" in text


def test_check_prints_every_check(command):
    done = command("check", "novelty-v0")
    assert done.exit_code == 0
    assert "✓ gold answer earns the best" in done.output


def test_check_fails_loudly(command, monkeypatch):
    monkeypatch.setattr("scisci_gym.envs.novelty.NoveltyEnv.reward_range", (-1.0, 2.0))
    done = command("check", "novelty-v0")
    assert done.exit_code == 1
    assert "gold_answer_earns_the_best" in done.output


@pytest.mark.parametrize(
    ("words", "cause", "remedy"),
    [
        (("show", "novlty-v0"), "no environment 'novlty-v0'", "did you mean novelty-v0"),
        (("play", "novlty-v0"), "no environment 'novlty-v0'", "did you mean novelty-v0"),
        (("check", "novlty-v0"), "no environment 'novlty-v0'", "did you mean novelty-v0"),
        (("show", "novelty-v0", "--split", "tset"), "no split 'tset'", "choose train, validation, test"),
        (("play", "novelty-v0", "--split", "tset"), "no split 'tset'", "choose train, validation, test"),
        (("show", "novelty-v0", "--dataset", "nowhere"), "no dataset split at nowhere", "build one with `scisci-gym"),
        (("play", "novelty-v0", "--dataset", "nowhere"), "no dataset split at nowhere", "build one with `scisci-gym"),
        (
            ("show", "novelty-v0", "--dataset", "DATASET", "--split", "test_pre_cutoff"),
            "no split 'test_pre",
            "it has t",
        ),
        (("play", "novelty-v0", "--dataset", "DATASET"), "none of the 1 papers of", "choose another --split"),
    ],
)
def test_a_wrong_argument_is_answered_in_one_line(command, papers, tmp_path, words, cause, remedy):
    unlabelled = dataclasses.replace(papers[0], novelty_score=None, conventionality_score=None, novelty_label=None)
    save_dataset(tmp_path, {"train": [unlabelled], "validation": [], "test": papers})
    done = command(*[tmp_path if word == "DATASET" else word for word in words])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert done.output.startswith("error: ")
    assert cause in done.output
    assert remedy in done.output


def test_the_gallery_says_which_checks_an_environment_failed(tmp_path, monkeypatch):
    found = [
        ("learnable.headroom", "fail", 301),
        ("learnable.headroom", "fail", 302),
        ("semantic.oracle_max", "pass", 301),
    ]
    checks = [{"id": name, "status": status, "seed": seed} for name, status, seed in found]
    (tmp_path / "novelty-v0.json").write_text(json.dumps({"verdict": "fail", "checks": checks, "seeds": []}))
    monkeypatch.setattr(pages, "CERTIFICATES", tmp_path)
    assert pages.learnable("novelty-v0") == "[no](certificates/novelty-v0.json): `learnable.headroom`"
    assert pages.learnable("impact-v0") == "not yet certified"


def test_the_gallery_is_not_stale():
    made = "python -m scisci_gym.envs.integrations.gallery docs/gallery.md"
    assert (ROOT / "docs" / "gallery.md").read_text() == gallery(), f"docs/gallery.md is stale: {made}"


def test_every_card_has_its_sections():
    for env_class in specs():
        assert list(sections(env_class))[:5] == ["Description", "Action", "Observation", "Rewards", "Episode end"]


NOT_COPIED = shutil.ignore_patterns(".*", "build", "dist", "runs", "checkpoints", "*.egg-info")


@pytest.fixture
def copy_with_another_environment(tmp_path):
    """The folder of a copy of the project to which the file of docs/add-an-environment.md was added, and no more."""
    page = (ROOT / "docs" / "add-an-environment.md").read_text()
    package = tmp_path / "scisci_gym"
    shutil.copytree(ROOT, package, ignore=NOT_COPIED)
    shutil.copy(ROOT / ".importlinter", package)
    (package / "envs" / "authors.py").write_text(page.split("```python\n")[1].split("```")[0])
    return tmp_path


def run_in(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the copy of the package before the installed one."""
    # Without what pytest tells its own workers.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTHONPATH"] = str(copy)
    return subprocess.run([sys.executable, *arguments], cwd=copy, env=env, capture_output=True, text=True)


def test_the_page_on_adding_an_environment_works_as_written(copy_with_another_environment):
    """Its file is put into a copy of the package: nothing else is edited, and everything has it."""
    copy = copy_with_another_environment
    code = (
        "import sys, scisci_gym\n"
        "assert scisci_gym.__file__.startswith(sys.argv[1]), scisci_gym.__file__\n"
        "print(len(scisci_gym.check_env('team-size-v0')))\n"
        "from scisci_gym.envs.integrations.gallery import gallery\n"
        "print('## team-size-v0' in gallery())\n"
        "from tinker_cookbook.eval.benchmarks import REGISTRY\n"
        "print('scisci_team_size' in REGISTRY)\n"
        "from scisci_gym.envs.integrations.registration import env_ids\n"
        "print('team-size-v0' in env_ids())\n"
    )
    done = run_in(copy, "-c", code, str(copy))
    assert done.stdout.split() == ["20", "True", "True", "True"], done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_quick_suite_passes_with_another_environment(copy_with_another_environment):
    """The quick tests, unedited, in the copy, once its gallery is written anew as the page says.

    Left out is what cannot notice another environment and takes most of the time: the tests of `datasets`, `rewards`
    and `engine`, which import none (`.importlinter`), those that carry the id of one of the project's own, and of
    `recipes`, which finds environments in the registry, all that do not carry the new id.
    """
    copy = copy_with_another_environment
    written = run_in(copy, "-m", "scisci_gym.envs.integrations.gallery", "scisci_gym/docs/gallery.md")
    assert f"{len(specs()) + 1} environments" in written.stdout, written.stderr[-2000:]
    tests = [path for path in sorted((copy / "scisci_gym" / "tests").iterdir()) if path.name not in BLIND]
    chosen = [str(path) for path in tests if path.name.startswith("test_") or any(path.rglob("test_*.py"))]
    others = " and ".join(f"not {env_class.env_id}" for env_class in specs())
    noticing = f"{others} and (not recipes or team-size-v0)"
    options = ["-c", "scisci_gym/pyproject.toml", "-m", "not slow", "-k", noticing, "-rA"]
    done = run_in(copy, "-m", "pytest", *chosen, *options)
    assert done.returncode == 0, done.stdout[-10_000:]
    for test in (
        "test_every_environment_passes[team-size-v0]",
        "test_its_own_check_passes_without_a_warning[team-size-v0]",
        "test_a_short_prompt_is_short[team-size-v0]",
        "test_a_constant_answer_scores_what_theory_says[team-size-v0]",
        "test_show_has_card_shares_and_example[team-size-v0]",
        "test_its_documents_are_episodes_up_to_the_last_answer[team-size-v0]",
        "test_the_gallery_is_not_stale",
    ):
        assert f"::{test}" in done.stdout, test
