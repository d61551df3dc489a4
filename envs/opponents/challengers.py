"""Agent B, who challenges: scripted, or any `MessageCompleter`, such as those of `envs/opponents/models.py`.

A challenger is told which label to argue for and sees the paper as the agent saw it. It never sees the outcome, so what
it writes can tell no more about it than the paper does.
"""

import hashlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tinker_cookbook.completers import MessageCompleter

from ..kit.answers import message_text
from ..kit.base import user_message
from ..kit.fencing import as_data
from ..kit.prompts import DATA
from ..kit.single_turn import LabelEnv
from .models import LIMITS, Limits, Named, ask
from .reader import fitted_readers


@dataclass(frozen=True)
class Case:
    """What a challenger gets to see.

    `paper` is the paper as the agent saw it, between its tags, and `answer` the agent's text. `label` is the one to
    argue for, never the one that the agent has answered with. The argument is about the question with the answers
    `labels`, to which the agent's answer is `named`; `question` is the environment that asks it.
    """

    title: str
    abstract: str
    paper: str
    answer: str
    label: str
    labels: tuple[str, ...]
    named: str = ""
    question: type[LabelEnv] | None = None


class Challenger(ABC):
    """Writes the argument for a label. Must be picklable: it travels to rollout workers with the group builder."""

    limits: Limits = LIMITS

    def prepare(self, question: type[LabelEnv]) -> None:
        """Called before a challenge about the question of an environment; raises `ValueError` if it cannot argue."""
        del question

    @abstractmethod
    async def argue(self, case: Case) -> str:
        """The argument as plain text. It may fail in any way; see `argument_of`."""


async def argument_of(challenger: Challenger, case: Case) -> str | None:
    """The argument, fenced off as data and cut to `limits.longest` characters; None if the challenger failed."""
    argument = await ask(lambda: challenger.argue(case), lambda text: text.strip() or None, challenger.limits)
    return None if argument is None else as_data(argument)


CUES: Mapping[str, Sequence[str]] = {
    "disruptive": "first new novel introduce discover unlike replace overturn contradict unexpected alternative "
    "challenge paradigm abandon without".split(),
    "consolidating": "extend improve refine confirm generalize review previous existing established standard known "
    "consistent based build framework".split(),
    "neutral": "apply application case data measure survey describe compare evaluate report tool sample "
    "catalogue specific local".split(),
    "novel": "novel first combine bridge across unusual interdisciplinary connect borrow import hybrid new".split(),
    "conventional": "standard established known conventional usual existing previous classical routine common".split(),
    "balanced": "both compare extend well while although together alongside apply and".split(),
}

MAX_WORDS = 25
"""Words of a quoted passage, at most."""

_SENTENCE = re.compile(r"[^.!?]+[.!?]*")


@dataclass(frozen=True)
class ScriptedChallenger(Challenger):
    """Argues from the paper's own text, with no model: it quotes the sentence that speaks most for its label.

    Deterministic. A sentence speaks for a label by the number of its words that begin with one of the label's cue
    words (`cues`, lower case); without any, it says so and quotes nothing.
    """

    cues: Mapping[str, Sequence[str]] = field(default_factory=lambda: CUES)

    async def argue(self, case: Case) -> str:
        sentence, hits = self.evidence(f"{case.title}. {case.abstract}", case.label)
        if not hits:
            return f"I would say {case.label}: I find nothing in the text that speaks against it."
        shown = " ".join(sentence.split()[:MAX_WORDS])
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


STRENGTHS = ("strong", "fair", "weak")


def strength(odds: float) -> str:
    """What the reader calls its case for one answer over another: from twice as likely on, strong; from half on, fair.

    Examples
    --------
    >>> strength(math.log(3)), strength(0.0), strength(-math.log(3))
    ('strong', 'fair', 'weak')
    """
    return STRENGTHS[0 if odds >= math.log(2) else 1 if odds >= -math.log(2) else 2]


@dataclass(frozen=True)
class ReaderChallenger(Challenger):
    """Argues with the evidence of a frozen reader, and says how strong it is; see `Reader`.

    It quotes the passage from which the reader believes most in the label, and calls its case strong if the reader
    holds the label at least twice as likely as the agent's answer, weak if half as likely or less, fair in between.
    The strength compares with the agent's own answer, so an honest first answer learns most about itself. The reader is
    fitted on the training split of the built dataset in the folder `dataset`.
    """

    dataset: str

    def prepare(self, question: type[LabelEnv]) -> None:
        fitted_readers(self.dataset, question)

    async def argue(self, case: Case) -> str:
        assert case.question is not None
        reader = next(reader for reader in fitted_readers(self.dataset, case.question) if case.label in reader.labels)
        odds = reader.log_odds(case.title, case.abstract, case.label, case.named)
        passages = _passages(f"{case.title}. {case.abstract}")
        belief = reader.probabilities(case.title, case.abstract, passages)[:, reader.labels.index(case.label)]
        return _argument(case.label, strength(odds), passages[int(belief.argmax())])


@dataclass(frozen=True)
class UninformedChallenger(Challenger):
    """Writes what the reader could write, with strength and passage drawn by a digest of the paper and the labels.

    For pre-training, which has to show the format of an argument and nothing that follows from labels, as the strength
    of a reader's case does.
    """

    async def argue(self, case: Case) -> str:
        text = f"{case.title}. {case.abstract}"
        digest = hashlib.blake2b(f"{text}\n{case.label}\n{case.named}".encode(), digest_size=8).digest()
        passages, draw = _passages(text), int.from_bytes(digest, "big")
        return _argument(case.label, STRENGTHS[draw % len(STRENGTHS)], passages[draw // 3 % len(passages)])


def _argument(label: str, strength: str, passage: str) -> str:
    return f'I would say {label}, the evidence is {strength}: "{passage}"'


def _passages(text: str) -> list[str]:
    """The sentences of a text; in place of one of more than 25 words, all runs of 25 words in it."""
    sentences = [sentence.split() for sentence in _SENTENCE.findall(text)]
    return [
        " ".join(words[start : start + MAX_WORDS])
        for words in sentences
        for start in range(max(1, len(words) - MAX_WORDS + 1))
    ]


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


LONGEST_ANSWER = 20_000
"""Characters of the agent's text that a model is shown, the last ones: they hold the answer."""


@dataclass(frozen=True)
class CompleterChallenger(Challenger):
    """Any `MessageCompleter` as challenger. It has to be picklable if rollouts run in worker processes, as those of
    `envs/opponents/models.py` are."""

    completer: MessageCompleter
    limits: Limits = LIMITS

    async def argue(self, case: Case) -> str:
        answer, labels = as_data(case.answer[-LONGEST_ANSWER:]), ", ".join(case.labels)
        text = PROMPT.format(data=DATA, paper=case.paper, answer=answer, labels=labels, label=case.label)
        return message_text(await self.completer(user_message(text)))


CHALLENGERS: Named[Challenger] = Named("challenger", Challenger)  # type: ignore[type-abstract]
CHALLENGERS.register("scripted", lambda _: ScriptedChallenger(), "quotes the sentence that speaks most for its label")
CHALLENGERS.register(
    "reader",
    ReaderChallenger,
    "a linear model, fitted on the training split of a dataset folder, says how strong its case is",
    "DATASET",
)
CHALLENGERS.register_models(CompleterChallenger)
