"""`disruption-pairwise-v0`: which of two papers of the same field and year disrupts more?"""

import random
from collections import defaultdict
from collections.abc import Sequence

from ..datasets.paper import Paper
from ..rewards import RewardBreakdown, correctness
from .disruption import horizon
from .kit.answers import format_answer, parse_label
from .kit.base import Example, missing_label
from .kit.prompts import DATA, paper_block
from .kit.single_turn import Grade, SingleTurnEnv
from .registry import register

QUESTION = """\
Compare two papers of the same field and year by what was known on the day they were published. {data}

{papers}

{criteria}

Reason as long as you like. Then finish with {ending}"""

PAPERS = "<first>\n{first}\n</first>\n<second>\n{second}\n</second>"

CRITERIA = """\
Look ahead {horizon}. The CD index of a paper looks at the papers that cite it or its references: it is the share of \
them that cite the paper without citing what it builds on, minus the share that cite both. Which one has the higher CD \
index, that is, disrupts more?"""

ENDING = '"first" or "second" between answer tags and nothing after it:\n<answer>LABEL</answer>'

MARGIN = 0.05
"""CD indices that are closer than this are not clearly different: a few citations could turn them around."""


@register
class DisruptionPairwiseEnv(SingleTurnEnv):
    """Say which of two papers of the same field and year disrupts more.

    Description
    -----------
    Comparing inside a field and year removes a shortcut: some fields, and earlier years, disrupt more than others. Of
    the dataset's papers of a field and year, one of the third with the lowest and one of the third with the highest CD
    index make a pair, at least 0.05 apart; every paper is in one pair at most. Training draws other pairs in every
    epoch. The seed decides which paper comes first; in half of the pairs it is the one that disrupts more. The
    benchmark shows every pair in both orders, so a habit of position earns nothing.

    Action
    ------
    A text that ends with ``<answer>first</answer>`` or ``<answer>second</answer>``. Anything before the tags is free.

    Observation
    -----------
    One user message with both papers: title, abstract, year, field, venue, and the reference lists if asked for. Never
    a citation count or anything else from later papers.

    Rewards
    -------
    +1 for the right one, -1 otherwise. Anything that is not an answer, and a cut-off answer, earns -1. The metric
    ``said_first`` shows a habit of position: it should be 1/2.

    Arguments
    ---------
    first, second : Paper
        With different `cd_index`, of the same field and year.
    prompt : "full" | "short"
        ``short`` shows titles and abstracts only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that they cite.
    """

    env_id = "disruption-pairwise-v0"
    labels = ("first", "second")
    presentations = 2
    drawn = True

    def __init__(self, first: Paper, second: Paper, *, prompt: str = "full", references: bool = False):
        super().__init__(first, second, prompt=prompt, references=references)
        self.first, self.second = first, second
        if _stratum(first) != _stratum(second):
            raise ValueError(
                f"{self.env_id} compares papers of the same field and year, got {_stratum(first)} and "
                f"{_stratum(second)}"
            )
        if first.cd_index is None or second.cd_index is None:
            raise missing_label(self)
        if first.cd_index == second.cd_index:
            raise ValueError(f"{self.env_id} needs different CD indices, both papers have {first.cd_index!r}")
        self._label = "first" if first.cd_index > second.cd_index else "second"

    @classmethod
    def has_label(cls, paper: Paper) -> bool:
        return paper.cd_index is not None

    @classmethod
    def examples(cls, papers: Sequence[Paper], seed: int = 0) -> list[Example]:
        strata: defaultdict[tuple[str, int], list[Paper]] = defaultdict(list)
        for paper in papers:
            if cls.has_label(paper):
                strata[_stratum(paper)].append(paper)
        rng = random.Random(seed)
        pairs: list[Example] = []
        coins: list[float] = []
        for members in strata.values():
            members.sort(key=_cd)
            third = len(members) // 3
            low, high = members[:third], members[len(members) - third :]
            rng.shuffle(low)
            rng.shuffle(high)
            for pair in zip(low, high, strict=True):
                if _cd(pair[1]) - _cd(pair[0]) >= MARGIN:
                    pairs.append(pair)
                    coins.append(rng.random())
        # Exactly half, not a coin for each pair: a policy could learn an excess of one side.
        middle = sorted(coins)[len(coins) // 2] if coins else 0.0
        return [pair if coin < middle else pair[::-1] for pair, coin in zip(pairs, coins, strict=True)]

    @classmethod
    def benchmark_examples(cls, papers: Sequence[Paper]) -> list[Example]:
        return [order for pair in cls.examples(papers) for order in (pair, pair[::-1])]

    @property
    def gold_label(self) -> str:
        return self._label

    def gold_answer(self) -> str:
        return format_answer(self._label)

    def criteria(self) -> str:
        """What is asked about the two papers."""
        return CRITERIA.format(horizon=horizon(self.first.cd_window))

    def shown(self) -> str:
        """Both papers, as the prompt shows them."""
        full = self.prompt == "full"
        first, second = (paper_block(paper, details=full, references=self.references) for paper in self.papers)
        return PAPERS.format(first=first, second=second) if full else f"{first}\n{second}"

    def question(self) -> str:
        if self.prompt == "short":
            return f"{self.shown()}\nfirst second ?"
        return QUESTION.format(data=DATA, papers=self.shown(), criteria=self.criteria(), ending=ENDING)

    def grade(self, text: str) -> Grade:
        predicted = parse_label(text, self.labels)
        if predicted is None:
            return self.no_answer()
        right = predicted == self._label
        reward = RewardBreakdown(correctness(predicted, self._label))
        return Grade(reward, predicted, right, valid=True, metrics={"said_first": float(predicted == "first")})


def _stratum(paper: Paper) -> tuple[str, int]:
    return paper.primary_field, paper.publication_year


def _cd(paper: Paper) -> float:
    return paper.cd_index if paper.cd_index is not None else 0.0
