"""What the tests of the environments share: the built-in papers, and a renderer and policies that need no model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers.base import ParseTermination

from scisci_gym import Paper
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.training import groups


class ByteRenderer:
    """One token for every byte. A message that contains a null byte cannot be parsed. It is its own tokenizer."""

    @property
    def tokenizer(self):
        return self

    def decode(self, tokens, **_):
        return bytes(tokens).decode(errors="replace")

    def get_stop_sequences(self):
        return ["\n\n"]

    def build_generation_prompt(self, messages):
        return tinker.ModelInput.from_ints(list("\n".join(str(m["content"]) for m in messages).encode()))

    def parse_response(self, tokens):
        text = bytes(tokens).decode()
        ending = ParseTermination.MALFORMED if "\x00" in text else ParseTermination.STOP_SEQUENCE
        return {"role": "assistant", "content": text}, ending


@dataclass
class TextPolicy(TokenCompleter):
    """A policy that writes text: from the prompt to the answer. An answer that ends with "..." was cut off there."""

    write: Callable[[str], str]

    async def __call__(self, model_input, stop, *, max_tokens=None):
        text = self.write(bytes(model_input.to_ints()).decode())
        tokens = list(text.removesuffix("...").encode())
        return TokensWithLogprobs(tokens, [0.0] * len(tokens), "length" if text.endswith("...") else "stop")


@pytest.fixture
def papers() -> list[Paper]:
    return sample_papers()


@pytest.fixture(scope="session")
def training_papers() -> list[Paper]:
    """The built-in papers six times over, told apart by their titles: enough for a reader to be fitted on."""
    return [
        dataclasses.replace(paper, openalex_id=f"{paper.openalex_id}{copy}", title=f"{paper.title}, {copy}")
        for copy in range(6)
        for paper in sample_papers()
    ]


@pytest.fixture
def byte_renderer(monkeypatch: pytest.MonkeyPatch) -> ByteRenderer:
    """Group builders use the byte renderer, whatever names they carry."""
    renderer = ByteRenderer()
    monkeypatch.setattr(groups, "renderer_of", lambda *names: renderer)
    return renderer


@pytest.fixture
def text_policy() -> type[TextPolicy]:
    return TextPolicy
