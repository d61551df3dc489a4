"""What is logged about rollouts: shares of labels and truncations, and episodes as text."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers.base import ParseTermination
from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.utils import logtree

from scisci_gym import Paper
from scisci_gym.envs.training import groups
from scisci_gym.envs.training.outcomes import EPISODE
from scisci_gym.recipes.reporting.run_report import episodes_of

DISRUPTIVE, NEUTRAL = "<answer>disruptive</answer>", "<answer>neutral</answer>"


class ByteTokenizer:
    def decode(self, tokens):
        return bytes(tokens).decode()


class ByteRenderer:
    """One token for every byte."""

    tokenizer = ByteTokenizer()

    def get_stop_sequences(self):
        return ["\n\n"]

    def build_generation_prompt(self, messages):
        return tinker.ModelInput.from_ints(list("".join(f"{m['content']}|" for m in messages).encode()))

    def parse_response(self, tokens):
        return {"role": "assistant", "content": bytes(tokens).decode()}, ParseTermination.STOP_SEQUENCE


@dataclass
class Written(TokenCompleter):
    """Writes given texts, one after the other; one that ends with "..." is cut off there."""

    texts: list[str]

    async def __call__(self, model_input, stop, *, max_tokens=None):
        text = self.texts.pop(0)
        tokens = list(text.removesuffix("...").encode())
        return TokensWithLogprobs(tokens, [0.0] * len(tokens), "length" if text.endswith("...") else "stop")


@pytest.fixture(autouse=True)
def byte_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "renderer_of", lambda *names: ByteRenderer())


def group_of(env_id: str, texts: list[str], size: int, title: str = "On stones"):
    paper = Paper(openalex_id="W1", title=title, abstract="We look at stones.", cd_index=0.4)
    builder = groups.SciSciGroupBuilder(env_id, (paper,), "byte", "byte", size, {"prompt": "short"})
    return asyncio.run(do_group_rollout(builder, Written(list(texts))))


def test_shares_of_labels_and_of_truncated_rollouts() -> None:
    found = [
        group_of("disruption-v0", [DISRUPTIVE, NEUTRAL, NEUTRAL, "I do not know."], 4),
        group_of("disruption-v0", [NEUTRAL, NEUTRAL, NEUTRAL, "<answer>neut..."], 4),
    ]
    metrics = compute_trajectory_metrics(found, [["disruption-v0"]] * 2)
    assert metrics["env/all/truncated"] == 1 / 8
    assert metrics["env/all/max_tokens_reached"] == 1.0, "the cookbook's own is an average over the truncated ones"
    shares = {name.removeprefix("env/all/"): value for name, value in metrics.items() if "edicted/" in name}
    assert shares == {"predicted/disruptive": 1 / 8, "predicted/consolidating": 0.0, "predicted/neutral": 5 / 8}
    assert metrics["env/all/expected/disruptive"] == 1.0
    assert metrics["env/all/expected/neutral"] == 0.0


def logged(tmp_path: Path, *arguments) -> list[dict]:
    with logtree.init_trace("step", path=str(tmp_path / "page.html")) as trace:
        group_of(*arguments)
    log = tmp_path / "iteration_000000" / "train_logtree.json"
    log.parent.mkdir()
    log.write_text(json.dumps(trace.to_dict()))
    return [episode.data for episode in episodes_of(tmp_path)]


def test_episodes_are_logged_as_the_policy_saw_them(tmp_path: Path) -> None:
    title = "<script>alert(1)</script>"
    first, second = logged(tmp_path, "disruption-v0", [DISRUPTIVE, "nonsense"], 2, title)
    assert first["type"] == EPISODE
    ((asked, answered),) = first["turns"]
    assert title in asked
    assert answered == DISRUPTIVE
    assert (first["predicted"], first["expected"], first["reward"]) == ("disruptive", "disruptive", 1.0)
    assert (second["predicted"], second["reward"]) == ("", -1.0)
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_later_turn_shows_what_is_new_in_it(tmp_path: Path) -> None:
    episode = logged(tmp_path, "disruption-adversarial-v0", [DISRUPTIVE, DISRUPTIVE], 1)[0]
    (asked, answered), (then_asked, then_answered) = episode["turns"]
    assert answered == then_answered == DISRUPTIVE
    assert "We look at stones." in asked
    assert "We look at stones." not in then_asked
    assert then_asked.strip("|")


def test_groups_that_the_cookbook_does_not_log_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ByteRenderer, "tokenizer")
    group_of("disruption-v0", [DISRUPTIVE], 1)
