"""The held-out NLL by hand, with a client whose log-probabilities are known, and on the tiny engine."""

import asyncio
import math
import pickle
from pathlib import Path

import pytest
import tinker

from scisci_gym import make
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.evaluation import evaluators
from scisci_gym.evaluation.evaluators import HeldOutNLL, held_out_nll_builder


class ByteTokenizer:
    def decode(self, tokens, **_):
        return bytes(tokens).decode()


class ByteRenderer:
    """One token for every byte of prompt and answer, and a line feed that ends the turn."""

    tokenizer = ByteTokenizer()

    def build_supervised_example(self, messages, train_on_what=None):
        import torch

        prompt, answer = messages[0]["content"].encode(), (messages[-1]["content"] + "\n").encode()
        weights = torch.tensor([0.0] * len(prompt) + [1.0] * len(answer))
        return tinker.ModelInput.from_ints([*prompt, *answer]), weights


class Client:
    """Every token has log-probability -1, save the letter "d", which has -3."""

    def __init__(self):
        self.calls = 0

    async def compute_logprobs_async(self, prompt):
        self.calls += 1
        return [None, *(-3.0 if token == ord("d") else -1.0 for token in prompt.to_ints()[1:])]

    # Its name since cookbook 0.6.
    compute_logprobs = compute_logprobs_async


def test_by_hand_every_answer_token_weighs_the_same() -> None:
    disruptive, neutral = (
        next(p for p in sample_papers() if p.disruption_label == label) for label in ("disruptive", "neutral")
    )
    envs = [make("disruption-v0", paper) for paper in (disruptive, neutral)]
    client = Client()
    evaluator = HeldOutNLL(envs, ByteRenderer())  # pyright: ignore[reportArgumentType]
    metrics = asyncio.run(evaluator(client))
    # "<answer>disruptive</answer>\n": 28 tokens, one of them a "d"; "<answer>neutral</answer>\n": 25, none.
    assert metrics["held_out/nll"] == pytest.approx((27 + 3 + 25) / 53)
    # One byte a token, so bits per byte are nats per token over ln 2.
    assert metrics["held_out/bpb"] == pytest.approx(55 / 53 / math.log(2))
    assert asyncio.run(evaluator(client)) == metrics
    assert client.calls == 4


def test_builders_travel_and_spread_their_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = sample_papers()
    save_dataset(tmp_path / "data", {"train": papers, "validation": papers, "test": papers})
    monkeypatch.setattr(evaluators, "renderer_of", lambda *names: ByteRenderer())
    build = held_out_nll_builder("disruption-v0", str(tmp_path / "data"), {"prompt": "short"}, "r", "t", 3)
    evaluator = pickle.loads(pickle.dumps(build))()
    assert [env.papers[0].publication_year for env in evaluator.envs] == [2003, 2008, 2012]
    assert len(held_out_nll_builder("disruption-v0", str(tmp_path / "data"), {}, "r", "t", None)().envs) == 9


def test_refuses_what_has_no_examples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        held_out_nll_builder("disruption-v0", "data", {}, "r", "t", 0)
    with pytest.raises(FileNotFoundError, match="no dataset split"):
        held_out_nll_builder("disruption-v0", str(tmp_path), {}, "r", "t", 4)()
    with pytest.raises(ValueError, match="at least one example"):
        HeldOutNLL([], ByteRenderer())  # pyright: ignore[reportArgumentType]
