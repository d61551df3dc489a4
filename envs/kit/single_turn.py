"""One question, one answer: the base of all environments without an opponent, and of those that ask for one label."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from tinker_cookbook.renderers import Message
from tinker_cookbook.rl.message_env import MessageStepResult

from ...datasets.paper import Paper
from ...rewards import CORRECT, WRONG, RewardBreakdown, correctness
from .answers import format_answer, message_text, parse_label
from .base import SciSciEnv, require_label, user_message
from .prompts import DATA, paper_block

PROMPTS = ("full", "short")

QUESTION = """\
Judge this paper by what was known on the day it was published. {data}

{paper}

{criteria}

Reason as long as you like. Then finish with {ending}"""

LABEL_ENDING = "one label between answer tags and nothing after it:\n<answer>LABEL</answer>"


class Grade(NamedTuple):
    """What an answer is worth.

    Parameters
    ----------
    reward : RewardBreakdown
    predicted : str
        The label it amounts to; "" where nothing could be parsed, or no label stands out.
    correct : bool
    valid : bool
        Whether it could be parsed.
    details : mapping
        More for the logs, such as the single probabilities.
    metrics : mapping
        More for the training metrics, averaged over the answers that could be parsed.
    """

    reward: RewardBreakdown
    predicted: str
    correct: bool
    valid: bool
    details: Mapping[str, str | int | float] = MappingProxyType({})
    metrics: Mapping[str, float] = MappingProxyType({})


NO_ANSWER = Grade(RewardBreakdown(WRONG), "", correct=False, valid=False)
"""A text that is not an answer: it never pays more than a wrong one."""


class SingleTurnEnv(SciSciEnv):
    """An episode of one question and one answer. Subclasses write `question` and `grade`."""

    reward_range = (WRONG, CORRECT)

    @abstractmethod
    def question(self) -> str:
        """The user message."""

    @abstractmethod
    def grade(self, text: str) -> Grade:
        """Grade any text; never raises."""

    async def initial_observation(self) -> list[Message]:
        return user_message(self.question())

    async def step(self, message: Message) -> MessageStepResult:
        grade = self.grade(message_text(message))
        return MessageStepResult(
            reward=grade.reward.total,
            episode_done=True,
            next_messages=[],
            metrics={"correct": float(grade.correct), "format_valid": float(grade.valid), **grade.metrics},
            logs={"predicted": grade.predicted, "expected": self.gold_label, **grade.details},
        )


@lru_cache(maxsize=256)
def _frame(criteria: str, ending: str) -> tuple[str, str]:
    """What stands before and after the paper; the same for all papers of a dataset."""
    before, _, after = QUESTION.partition("{paper}")
    return before.format(data=DATA), after.format(criteria=criteria, ending=ending)


class LabelEnv(SingleTurnEnv):
    """A question about one paper whose answer is one label. Subclasses set `label_field` and write `criteria`.

    Parameters
    ----------
    paper : Paper
    prompt : "full" | "short"
        ``short`` shows title, abstract and the labels only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that it cites.
    """

    label_field: ClassVar[str]
    """Attribute of `Paper` that is graded against."""
    ending: ClassVar[str] = LABEL_ENDING

    def __init__(self, paper: Paper, *, prompt: str = "full", references: bool = False):
        super().__init__(paper)
        if prompt not in PROMPTS:
            raise ValueError(f"prompt must be full or short, got {prompt!r}")
        self.paper, self.prompt, self.references = paper, prompt, references
        self._label: str = require_label(self, getattr(paper, self.label_field), self.label_field)

    @classmethod
    def has_label(cls, paper: Paper) -> bool:
        return getattr(paper, cls.label_field) is not None

    @abstractmethod
    def criteria(self) -> str:
        """What is asked, and what each label means for this paper."""

    @classmethod
    def hint(cls) -> str:
        """What the short prompt says about the answer."""
        return " ".join(cls.labels)

    @property
    def gold_label(self) -> str:
        return self._label

    def gold_answer(self) -> str:
        return format_answer(self._label)

    def question(self) -> str:
        if self.prompt == "short":
            shown = paper_block(self.paper, details=False, references=self.references)
            return f"{shown}\n{self.hint()} ?"
        shown = paper_block(self.paper, references=self.references)
        before, after = _frame(self.criteria(), self.ending)
        return f"{before}{shown}{after}"

    def grade(self, text: str) -> Grade:
        predicted = parse_label(text, self.labels)
        if predicted is None:
            return NO_ANSWER
        right = predicted == self._label
        return Grade(RewardBreakdown(correctness(predicted, self._label)), predicted, right, valid=True)
