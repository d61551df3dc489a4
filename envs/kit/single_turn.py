"""One question, one answer: the base of all environments without an opponent, and of those that ask for one label."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from tinker_cookbook.renderers import Message
from tinker_cookbook.rl.message_env import MessageStepResult

from ...rewards import CORRECT, WRONG, RewardBreakdown, correctness
from .answers import message_text, parse_label
from .base import PaperEnv, SciSciEnv, user_message
from .prompts import DATA, paper_block

QUESTION = """\
Judge this paper by what was known on the day it was published. {data}

{paper}

{criteria}

Reason as long as you like. Then finish with {ending}"""

LABEL_ENDING = "one label between answer tags and nothing after it:\n<answer>LABEL</answer>"


class Grade(NamedTuple):
    """What an answer is worth.

    `predicted` is the label that it amounts to, "" where nothing could be parsed or no label stands out; `valid` says
    whether it could be parsed. `details` are more for the logs, such as the single probabilities, and `metrics` more
    for the training metrics, averaged over the answers that could be parsed.
    """

    reward: RewardBreakdown
    predicted: str
    correct: bool
    valid: bool
    details: Mapping[str, str | int | float] = MappingProxyType({})
    metrics: Mapping[str, float] = MappingProxyType({})


class SingleTurnEnv(SciSciEnv):
    """An episode of one question and one answer. Subclasses write `question` and `grade`.

    Observation
    -----------
    One user message: title, abstract, year, field, venue, and the reference list if asked for. Never a citation count
    or anything else from later papers.

    Episode end
    -----------
    After the first message.
    """

    reward_range = (WRONG, CORRECT)

    @abstractmethod
    def question(self) -> str:
        """The user message."""

    @abstractmethod
    def grade(self, text: str) -> Grade:
        """Grade any text; never raises."""

    def no_answer(self) -> Grade:
        """The grade of a text that is not an answer: the floor, so that it never pays more than a wrong answer."""
        floor = self.reward_range[0]
        return Grade(RewardBreakdown(floor, floor=floor), "", correct=False, valid=False)

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


class LabelEnv(PaperEnv, SingleTurnEnv):
    """A question about one paper whose answer is one label. Subclasses write `label_of` and `criteria`.

    Rewards
    -------
    +1 for the right label, -1 otherwise. No answer, several answers and a cut-off answer earn -1 as well.
    """

    ending: ClassVar[str] = LABEL_ENDING
    """How the prompt describes the format of the answer."""

    @abstractmethod
    def criteria(self) -> str:
        """What is asked, and what each label means for this paper."""

    @classmethod
    def hint(cls) -> str:
        """What the short prompt says about the answer."""
        return " ".join(cls.labels)

    @classmethod
    def parse(cls, text: str) -> str | None:
        """The one of `labels` that a text answers with, or None; never raises."""
        return parse_label(text, cls.labels)

    @classmethod
    def split_label(cls, label: str) -> tuple[str, ...]:
        """The answers to the single questions that one of `labels` is made of, in the order of `label_parts`."""
        return tuple(label.split(", ")) if cls.label_parts else (label,)

    @classmethod
    def partial_correctness(cls, predicted: str, truth: str) -> float:
        """Mean of `correctness` over the single questions, in [-1, 1]."""
        pairs = list(zip(cls.split_label(predicted), cls.split_label(truth), strict=True))
        return sum(correctness(*pair) for pair in pairs) / len(pairs)

    def question(self) -> str:
        if self.prompt == "short":
            shown = paper_block(self.paper, details=False, references=self.references, facts=self.facts)
            return f"{shown}\n{self.hint()} ?"
        shown = paper_block(self.paper, references=self.references, facts=self.facts)
        before, after = _frame(self.criteria(), self.ending)
        return f"{before}{shown}{after}"

    def grade(self, text: str) -> Grade:
        predicted = self.parse(text)
        if predicted is None:
            return self.no_answer()
        reward = RewardBreakdown(correctness(predicted, self._label))
        return Grade(reward, predicted, predicted == self._label, valid=True)
