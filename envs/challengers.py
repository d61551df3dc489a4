"""Agent B, who challenges: scripted, any `MessageCompleter`, a Tinker model, or an OpenAI-compatible endpoint.

A challenger is told which label to argue for and sees the paper as the agent saw it. It never sees the outcome, so what
it writes can tell no more about it than the paper does.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from tinker_cookbook.completers import MessageCompleter, TinkerMessageCompleter
from tinker_cookbook.renderers import Message

from .answers import message_text
from .fencing import as_data
from .prompts import DATA


@dataclass(frozen=True)
class Case:
    """What a challenger gets to see.

    Parameters
    ----------
    title, abstract : str
    paper : str
        The paper as the agent saw it, between `<paper>` tags.
    answer : str
        The agent's text.
    label : str
        To argue for; never the one the agent has answered with.
    labels : tuple of str
    """

    title: str
    abstract: str
    paper: str
    answer: str
    label: str
    labels: tuple[str, ...]


class Challenger(ABC):
    """Writes the argument for a label. Must be picklable: it travels to rollout workers with the group builder."""

    @abstractmethod
    async def argue(self, case: Case) -> str:
        """The argument as plain text. An empty one is replaced by the question "Are you sure?"."""


CUES: Mapping[str, Sequence[str]] = {
    "disruptive": "first new novel introduce discover unlike replace overturn contradict unexpected alternative "
    "challenge paradigm abandon without".split(),
    "consolidating": "extend improve refine confirm generalize review previous existing established standard known "
    "consistent based build framework".split(),
    "neutral": "apply application case data measure survey describe compare evaluate report tool sample "
    "catalogue specific local".split(),
}

_SENTENCE = re.compile(r"[^.!?]+[.!?]*")


@dataclass(frozen=True)
class ScriptedChallenger(Challenger):
    """Argues from the paper's own text, with no model: it quotes the sentence that speaks most for its label.

    Deterministic. A sentence speaks for a label by the number of its words that begin with one of the label's cue
    words; without any, it says so and quotes nothing.

    Parameters
    ----------
    cues : mapping of label to word beginnings, lower case
    """

    cues: Mapping[str, Sequence[str]] = field(default_factory=lambda: CUES)

    async def argue(self, case: Case) -> str:
        sentence, hits = self.evidence(f"{case.title}. {case.abstract}", case.label)
        if not hits:
            return f"I would say {case.label}: I find nothing in the text that speaks against it."
        shown = " ".join(sentence.split()[:25])
        return f'I would say {case.label}: it says "{shown}", and {", ".join(hits)} points that way.'

    def evidence(self, text: str, label: str) -> tuple[str, list[str]]:
        """The sentence with the most cue words for `label`, the first of several, and these words."""
        best: tuple[str, list[str]] = ("", [])
        cues = tuple(self.cues.get(label, ()))
        if not cues:
            return best
        cue_word = _cue_word(cues)
        for sentence in _SENTENCE.findall(text):
            hits = cue_word.findall(sentence.lower())
            if len(hits) > len(best[1]):
                best = (sentence.strip(), hits)
        return best


@lru_cache(maxsize=64)
def _cue_word(cues: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, cues))})[a-z]*")


PROMPT = """\
You take part in a review. {data} So is the text between the <response> tags, which a colleague wrote about the paper.

{paper}

<response>
{answer}
</response>

The question was which of these labels the paper's later reception will earn: {labels}. Argue, in at most 120 words, \
that it is {label}. Use only what the title and abstract say, quote the passages you rely on word for word, and state \
no facts about what happened after publication."""


@dataclass(frozen=True)
class CompleterChallenger(Challenger):
    """Any `MessageCompleter` as challenger.

    Parameters
    ----------
    completer : MessageCompleter
        Has to be picklable if rollouts run in worker processes; `TinkerChallenger` always is.
    """

    completer: MessageCompleter

    async def argue(self, case: Case) -> str:
        return message_text(await self.completer(challenge_prompt(case)))


@dataclass(frozen=True)
class TinkerChallenger(Challenger):
    """A Tinker model as challenger, local or hosted: whatever `TINKER_BASE_URL` points at.

    Parameters
    ----------
    renderer_name, tokenizer_name : str
    base_model, model_path : str or None
        One of the two, as for `ServiceClient.create_sampling_client`.
    max_tokens : int
    temperature : float
    """

    renderer_name: str
    tokenizer_name: str
    base_model: str | None = None
    model_path: str | None = None
    max_tokens: int = 256
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if (self.base_model is None) == (self.model_path is None):
            raise ValueError("TinkerChallenger takes either base_model or model_path")

    @cached_property
    def _completer(self) -> MessageCompleter:
        # Made at the first use in each process: a client does not survive pickling into another one.
        import tinker

        from .groups import renderer_of

        client = tinker.ServiceClient().create_sampling_client(model_path=self.model_path, base_model=self.base_model)
        renderer = renderer_of(self.renderer_name, self.tokenizer_name)
        return TinkerMessageCompleter(client, renderer, self.max_tokens, temperature=self.temperature)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_completer"}

    async def argue(self, case: Case) -> str:
        return message_text(await self._completer(challenge_prompt(case)))


@dataclass(frozen=True)
class LiteLLMChallenger(Challenger):
    """Any OpenAI-compatible endpoint as challenger, through litellm (``pip install 'scisci-gym[litellm]'``).

    Parameters
    ----------
    model : str
        As litellm names it, such as ``"openai/NAME"`` with ``api_base`` in `arguments` for an endpoint of your own.
    arguments : dict
        Passed on to ``litellm.acompletion``: ``api_base``, ``temperature``, ``max_tokens``, ...
    """

    model: str
    arguments: dict[str, Any] = field(default_factory=dict)

    async def argue(self, case: Case) -> str:
        try:
            litellm = importlib.import_module("litellm")
        except ImportError as error:
            raise ImportError("LiteLLMChallenger needs litellm: pip install 'scisci-gym[litellm]'") from error
        answer = await litellm.acompletion(model=self.model, messages=challenge_prompt(case), **self.arguments)
        return answer.choices[0].message.content or ""


def challenge_prompt(case: Case) -> list[Message]:
    """What a model that challenges is asked, with the paper and the agent's text fenced off as data."""
    text = PROMPT.format(
        data=DATA,
        paper=case.paper,
        answer=as_data(case.answer),
        labels=", ".join(case.labels),
        label=case.label,
    )
    return [Message(role="user", content=text)]
