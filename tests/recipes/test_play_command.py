"""`scisci-gym play --run RUN`: the policy of a run answers beside the player."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from tinker_cookbook import completers
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.kit import renderers
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.evaluation.ask import Task
from scisci_gym.recipes.experiments import evaluate
from scisci_gym.recipes.kit import engines


class Completer:
    """Always the same answer, and the prompts that it was given."""

    prompts: list[str] = []  # noqa: RUF012

    def __init__(self, *_: object, **options: float) -> None:
        assert options == {"temperature": 0.0}

    async def __call__(self, messages: list[dict]) -> dict:
        self.prompts.append(messages[-1]["content"])
        return {"role": "assistant", "content": "<answer>consolidating</answer>"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    papers = sample_papers()
    save_dataset(tmp_path, {"train": papers, "validation": papers, "test": papers})

    async def client(_: Task) -> None:
        return None

    task = Task("disruption-v0", {"prompt": "short"}, str(tmp_path), "model", "renderer", 16)
    policy = SimpleNamespace(name="rl (step 3)", client=client)
    contestant = SimpleNamespace(task=task, policy=policy, engine="local", checkpoints="checkpoints")
    monkeypatch.setattr(evaluate, "run_contestant", lambda *_: contestant)
    monkeypatch.setattr(engines, "open_engine", lambda *_: nullcontext())
    monkeypatch.setattr(renderers, "renderer_of", lambda *_: None)
    monkeypatch.setattr(completers, "TinkerMessageCompleter", Completer)
    Completer.prompts.clear()
    return "runs/rl"


def test_its_answer_stands_beside_the_players(run: str) -> None:
    done = CliRunner().invoke(app, ["play", "disruption-v0", "--run", run], input="disruptive\n\n")
    assert done.exit_code == 0, done.output
    assert "You said disruptive; right is disruptive." in done.output
    assert "rl (step 3) said consolidating; reward -1.000." in done.output
    [prompt] = Completer.prompts
    assert prompt.endswith("?"), "the run sees the prompt that it was trained with, which is the short one"


def test_a_run_of_another_environment_is_refused(run: str) -> None:
    done = CliRunner().invoke(app, ["play", "novelty-v0", "--run", run])
    assert done.exit_code == 2
    assert "runs/rl was trained on disruption-v0; play that, or leave --run out" in " ".join(done.output.split())
