"""A policy's own probabilities of the labels, from log-probabilities that are known."""

import asyncio
import json
import math

import numpy as np
import pytest
import tinker
import torch

from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.registry import make, spec
from scisci_gym.evaluation.ask import Answer, label_probabilities
from scisci_gym.recipes.experiments.assessment import with_label_probabilities

LABELS = spec("disruption-v0").labels


class PlainRenderer:
    """Prompt and answer in bytes; the answer, and a byte that ends the turn, count."""

    def build_supervised_example(self, messages):
        prompt, answer = (str(message["content"]).encode() for message in messages)
        tokens = [*prompt, *answer, 0]
        weights = torch.tensor([0.0] * len(prompt) + [1.0] * (len(answer) + 1))
        return tinker.ModelInput.from_ints(tokens), weights


class KnownClient:
    """Every label's answer has the probability that `belief` gives it, all of it on the byte that ends the turn."""

    def __init__(self, belief):
        self.belief, self.asked = belief, 0

    async def compute_logprobs(self, tokens):
        self.asked += 1
        text = bytes(tokens.to_ints()[:-1]).decode()
        title = text.splitlines()[1]
        label = text.rpartition("<answer>")[2].removesuffix("</answer>")
        # Prompt tokens are not what is asked about, whatever they are worth.
        return (
            [None, *[-7.0] * (len(text.encode()) - 1 - len(f"<answer>{label}</answer>"))]
            + [0.0] * len(f"<answer>{label}</answer>")
            + [math.log(self.belief(title)[label])]
        )


def belief(title: str) -> dict[str, float]:
    """Depends on the paper; sums to 1/10, since a policy may say other things."""
    share = 0.01 * (1 + len(title) % 7)
    return {"disruptive": share, "consolidating": 0.09 - share, "neutral": 0.01}


def envs():
    return [make("disruption-v0", paper, prompt="short") for paper in sample_papers()]


def expected() -> np.ndarray:
    rows = [belief(paper.title) for paper in sample_papers()]
    return np.array([[row[label] / 0.1 for label in LABELS] for row in rows])


def test_probabilities_are_those_of_the_answers_normalised_over_labels() -> None:
    client = KnownClient(belief)
    found = asyncio.run(label_probabilities(client, PlainRenderer(), envs(), LABELS))  # pyright: ignore
    assert found == pytest.approx(expected())
    assert client.asked == 3 * len(sample_papers())


def test_what_is_kept_is_not_asked_again(tmp_path) -> None:
    path = tmp_path / "probabilities.jsonl"

    def call(client) -> np.ndarray:
        return asyncio.run(label_probabilities(client, PlainRenderer(), envs(), LABELS, path))  # pyright: ignore

    first = call(KnownClient(belief))
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:4]) + "\n" + lines[4][:30])
    client = KnownClient(belief)
    assert call(client) == pytest.approx(first)
    assert client.asked == 3 * (len(lines) - 4)
    # And once more, so that the line that was cut short has not spoiled the one after it.
    client = KnownClient(belief)
    assert call(client) == pytest.approx(first)
    assert client.asked == 0
    assert json.loads(path.read_text().splitlines()[-1])["probabilities"] == pytest.approx(first[-1].tolist())


def test_answers_with_probabilities_stay_the_same_otherwise() -> None:
    answers = [Answer("x:1", "neutral", "neutral", "text", 1.0, None, 2001)]
    (found,) = with_label_probabilities(answers, np.array([[0.2, 0.3, 0.5]]))
    assert found.probabilities == (0.2, 0.3, 0.5)
    assert (found.predicted, found.reward, found.year) == ("neutral", 1.0, 2001)
