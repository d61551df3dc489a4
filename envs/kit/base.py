"""What every environment of the suite has in common."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal

from tinker_cookbook.renderers import Message
from tinker_cookbook.rl.message_env import MessageEnv

from ...datasets.paper import Paper
from .answers import format_answer

PROMPTS = ("full", "short")

Example = tuple[Paper, ...]
"""What one episode is about: the papers that are passed to the environment's constructor, in order."""


class SciSciEnv(MessageEnv):
    """A `MessageEnv` about one or several papers, with a verifiable reward. Single-use: one episode, then discard.

    Subclasses set `env_id`, `reward_range` and `labels`, and write `initial_observation`, `step`, `gold_answer` and
    `gold_label`. The last `step` of an episode reports the metrics ``correct`` and ``format_valid`` (0 or 1) and the
    logs ``predicted`` ("" if nothing could be parsed) and ``expected``.

    The docstring of a class is the environment's card. Sections that a class leaves out are those of its bases;
    `register` fills them in.

    Version history
    ---------------
    v0: first version.
    """

    env_id: ClassVar[str]
    reward_range: tuple[float, float]
    """(floor, best); of the class for default options. The floor is also what an episode earns that ends early or
    cannot be parsed."""
    labels: ClassVar[tuple[str, ...]] = ()
    """The values that `gold_label` can have."""
    score_fields: ClassVar[tuple[str, ...]] = ("cd_index",)
    """Scores of a paper that the gold label follows from: how far a paper lies from where the label would change."""
    label_order: ClassVar[tuple[str, ...]] = ()
    """`labels` from lowest to highest, where they have an order."""
    label_parts: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """For labels that answer several questions at once, as "A, B": the labels of each question."""
    asks_for: ClassVar[Literal["label", "probabilities", "number"]] = "label"
    """What an answer is: one of `labels`, a probability for each of them, or a number."""
    turns: ClassVar[int] = 1
    """Messages of the agent in an episode that runs to its end."""
    roles: ClassVar[int] = 1
    """The smallest group in which every kind of episode occurs."""
    drawn: ClassVar[bool] = False
    """Whether the seed of `examples` decides which episodes there are, so that every epoch of training draws others."""
    side: ClassVar[str] = ""
    """Rollouts of a group compete with those of the same side; the name is a prefix of metrics of that side alone."""
    presentations: ClassVar[int] = 1
    """How many neighbours among the benchmark's examples are one question, shown in several ways."""
    ungraded: ClassVar[Mapping[str, float]] = {"correct": 0.0, "format_valid": 0.0}
    """Metrics of an episode that ended before it was graded. Without them a metric would be an average over finished
    answers only, and a policy that is cut off whenever it is unsure would look good."""

    def __init__(self, *papers: Paper, prompt: str = "full", references: bool = False):
        for paper in papers:
            if not isinstance(paper, Paper):
                raise TypeError(f"{self.env_id} is about Paper objects, got {type(paper).__name__}")
        if prompt not in PROMPTS:
            raise ValueError(f"prompt must be {' or '.join(PROMPTS)}, got {prompt!r}")
        self.papers: Example = papers
        self.prompt, self.references = prompt, references
        self.example_id = ":".join([self.env_id, *[paper.openalex_id for paper in papers]])

    @abstractmethod
    def gold_answer(self) -> str:
        """Text that a perfect agent would write (in the last turn)."""

    @property
    @abstractmethod
    def gold_label(self) -> str:
        """The right answer as metrics know it."""

    @property
    def truth(self) -> str | float:
        """What a model that learns this task is fitted to: `gold_label`, or the number behind it if that is asked for.
        Never shown to a policy."""
        return self.gold_label

    @classmethod
    def answer_for(cls, label: str) -> str:
        """Text of a policy that is certain of one of `labels`."""
        return format_answer(label)

    @classmethod
    def honest_guess(cls) -> str | None:
        """What a policy that knows nothing would best answer; None if that is any one of `labels`."""
        return None

    @classmethod
    def examples(cls, papers: Sequence[Paper], seed: int = 0) -> list[Example]:
        """Episodes that can be made of `papers`: by default one for every paper that has the label graded against."""
        del seed
        return [(paper,) for paper in papers if cls.has_label(paper)]

    @classmethod
    def benchmark_examples(cls, papers: Sequence[Paper]) -> list[Example]:
        """Episodes of the benchmark. The same as `examples`, unless an environment shows both orders of a pair."""
        return cls.examples(papers)

    @classmethod
    def has_label(cls, paper: Paper) -> bool:
        """Whether `paper` has what this environment grades against; by default every paper has."""
        del paper
        return True

    @classmethod
    def make_group(cls, example: Example, size: int, options: Mapping[str, Any]) -> list[SciSciEnv]:
        """Environments of one group: `size` episodes about the same example, unless they play with each other."""
        return [cls(*example, **options) for _ in range(size)]

    def group_reward(self) -> float:
        """Reward for what is known only when all episodes of a group have ended; the sum stays in `reward_range`."""
        return 0.0

    def abandon(self) -> None:
        """Called when the episode ended outside `step`: cut off by a token limit, or not parsable as a message."""
        return

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Keyword options of the constructor, and of those it passes options on to, for help texts and messages."""
        names: list[str] = []
        for init in (vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)):
            code = init.__code__
            names = [*code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount], *names]
            if not code.co_flags & inspect.CO_VARKEYWORDS:
                break
        return tuple(dict.fromkeys(names))

    @classmethod
    def training_options(cls, dataset: str) -> dict[str, Any]:
        """Options that follow from the training split of a built dataset, such as a prior or a reader that is fitted on
        it; those that the user sets come first."""
        del dataset
        return {}

    @classmethod
    def pretraining_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """From the options of an environment to those of the episodes that a tiny model is pre-trained on, which must
        show nothing that follows from labels."""
        return dict(options)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Check, before a run begins, what can be checked of options without a paper; raises `ValueError`."""
        del options


class PaperEnv(SciSciEnv):
    """An environment about one paper with one gold label. Subclasses write `label_of`.

    Arguments
    ---------
    paper : Paper with the label, or with the scores that it follows from
    prompt : "full" | "short"
        ``short`` shows title, abstract and the labels only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that it cites.
    facts : bool
        Show the number of authors, and of references that certainly appeared before the paper (up to 20). Default: in
        the full prompt of a forecast's v1, nowhere else.
    """

    facts_in_full: ClassVar[bool] = False
    """Whether the full prompt shows facts by default."""

    def __init__(self, paper: Paper, *, prompt: str = "full", references: bool = False, facts: bool | None = None):
        super().__init__(paper, prompt=prompt, references=references)
        self.paper = paper
        self.facts = (prompt == "full" and self.facts_in_full) if facts is None else facts
        label = self.label_of(paper)
        if label is None:
            raise missing_label(self)
        self._label = label

    @classmethod
    @abstractmethod
    def label_of(cls, paper: Paper) -> str | None:
        """The gold label of a paper, one of `labels`; None if the paper has none."""

    @classmethod
    def has_label(cls, paper: Paper) -> bool:
        return cls.label_of(paper) is not None

    @property
    def gold_label(self) -> str:
        return self._label

    def gold_answer(self) -> str:
        return self.answer_for(self._label)


def is_numbers(value: object) -> bool:
    """Whether an option's value is a collection of finite numbers, such as a list."""
    if not isinstance(value, Collection) or isinstance(value, str | Mapping):
        return False
    return all(isinstance(item, Real) and not isinstance(item, bool) and math.isfinite(item) for item in value)


def user_message(text: str) -> list[Message]:
    """A conversation that consists of one user message."""
    return [Message(role="user", content=text)]


def missing_label(env: SciSciEnv) -> ValueError:
    """The error that says which paper lacks the label of an environment."""
    paper = next(paper for paper in env.papers if not env.has_label(paper))
    return ValueError(
        f"{env.env_id} needs a label but paper {paper.openalex_id!r} has none; give the label, or the scores that it "
        f"follows from: {', '.join(env.score_fields)}"
    )
