"""`disruption-adversarial-v0` and `impact-adversarial-v0`: predict, be challenged, defend or revise."""

import hashlib
import os
from collections.abc import Mapping
from itertools import product
from typing import Any

from ..datasets.paper import Paper
from .disruption import DisruptionEnv
from .impact import ImpactEnv
from .kit.reasons import Reasons
from .kit.two_turn import Challenge, TwoTurnEnv
from .opponents.challengers import CHALLENGERS, Case, Challenger, ReaderChallenger, UninformedChallenger, argument_of
from .opponents.judge import JUDGES, ReasonsJudge
from .opponents.reader import REASONS
from .registry import register


class AdversarialEnv(TwoTurnEnv):
    """The question of `question_env`, a challenge by agent B, and a final answer. Subclasses set `question_env`.

    Observation
    -----------
    First a user message with title, abstract, year, field, venue, and the reference list if asked for; then B's
    challenge, fenced off as data. Never a citation count or anything else from later papers.

    Arguments
    ---------
    challenger : Challenger or str
        A name: ``scripted``, ``reader:DATASET``, ``tinker:MODEL`` or ``litellm:MODEL``; see `envs/opponents`. With a
        built dataset the reader of its training split is the default, without one ``scripted``. If it fails, B asks
        "Are you sure?", and the metric ``challenger_failed`` of the episode is 1.
    control_rate : float in [0, 1]
        How often B only asks "Are you sure?".
    seed : int
        Decides whether B only asks, and for which label it argues. Training draws a new seed for every group.
    judge : ReasonsJudge or str or None
        A language model that can lower R_reasoning, or its name: ``tinker:MODEL`` or ``litellm:MODEL``. If it fails,
        R_reasoning is 0, and the metric ``judge_failed`` of the episode is 1.
    reasons : Reasons or str or None
        How quotes are paid: ``quotes`` or ``reader:DATASET``; see docs/rewards.md. With a built dataset the reader of
        its training split is the default, without one ``quotes``.
    partial : bool
        R_correctness is the mean over the questions that an answer holds, +1 for a right one and -1 for a wrong one:
        in [-1, 1], and 0 if one of two is right. It changes nothing where there is one question.
    argue_all : bool
        B argues about every question that an answer holds (the default), or about one of them that the seed draws. It
        changes nothing where there is one question.
    """

    def __init__(
        self,
        paper: Paper,
        *,
        challenger: Challenger | str | None = None,
        control_rate: float = 0.25,
        seed: int = 0,
        judge: ReasonsJudge | str | None = None,
        reasons: Reasons | str | None = None,
        partial: bool = False,
        argue_all: bool = True,
        **shared: Any,
    ):
        super().__init__(paper, reasons=REASONS.resolve(reasons or "quotes"), partial=partial, **shared)
        if not 0.0 <= control_rate <= 1.0:
            raise ValueError(f"control_rate must be in [0, 1], got {control_rate!r}")
        self.control_rate, self.seed, self.argue_all = control_rate, seed, argue_all
        self.judge = None if judge is None else JUDGES.resolve(judge)
        self.challenger = CHALLENGERS.resolve("scripted" if challenger is None else challenger)
        self.challenger.prepare(self.question_env)

    @classmethod
    def training_options(cls, dataset: str) -> dict[str, Any]:
        # Absolute: the names travel to rollout workers, and the reader of a folder is fitted once a process.
        reader = f"reader:{os.path.abspath(dataset)}"
        return {"challenger": reader, "reasons": reader}

    @classmethod
    def pretraining_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        named = options.get("challenger")
        if named is None or isinstance(CHALLENGERS.resolve(named), ReaderChallenger):
            return {**options, "challenger": UninformedChallenger()}
        return dict(options)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        if options.get("judge") is not None:
            JUDGES.resolve(options["judge"])
        if options.get("challenger") is not None:
            CHALLENGERS.resolve(options["challenger"]).prepare(cls.question_env)
        REASONS.resolve(options.get("reasons") or "quotes").prepare(cls.question_env)

    @classmethod
    def ways_to_argue(cls, label: str, argue_all: bool = True) -> list[tuple[tuple[str, ...], str]]:
        """What B may argue for after an answer, each way equally likely.

        Another answer to one of the questions or, with `argue_all`, to each of them; and the label that following makes
        of the agent's.
        """
        parts = cls.question_env.split_label(label)
        questions = zip(cls.label_parts or (cls.labels,), parts, strict=True)
        others = [[answer for answer in answers if answer != part] for answers, part in questions]
        if argue_all:
            return [(argued, ", ".join(argued)) for argued in product(*others)]
        return [
            ((other,), ", ".join((*parts[:place], other, *parts[place + 1 :])))
            for place, answers in enumerate(others)
            for other in answers
        ]

    async def challenge(self, answer: str, label: str) -> Challenge:
        """The control, or an argument for an answer that the agent did not give, as the seed draws it."""
        # A digest and not `random`: ten times faster to seed, and the same on every machine.
        digest = hashlib.blake2b(f"{self.seed}:{self.paper.openalex_id}".encode(), digest_size=8).digest()
        draw = int.from_bytes(digest, "big")
        if (draw >> 1) / 2**63 < self.control_rate:
            return Challenge()
        ways = self.ways_to_argue(label, self.argue_all)
        argued, followed = ways[draw % len(ways)]
        questions, parts = self.label_parts or (self.labels,), self.question_env.split_label(label)
        arguments = []
        for part in argued:
            answers, named = next(pair for pair in zip(questions, parts, strict=True) if part in pair[0])
            case = Case(*self._shown, self.paper_shown(), answer, part, answers, named, self.question_env)
            argument = await argument_of(self.challenger, case)
            if argument is None:
                return Challenge(failed=True)
            arguments.append(argument)
        return Challenge("\n".join(arguments), followed, argued[0] if len(argued) == 1 else None, failed=False)

    async def judged_share(self, text: str) -> tuple[float, dict[str, float]]:
        """The share of the credit that the judge leaves: 1 if there is no judge, 0 if it fails."""
        if self.judge is None:
            return 1.0, {}
        share = await self.judge.share(self.paper_shown(), text)
        return share or 0.0, {"judge_failed": float(share is None)}


@register
class AdversarialDisruptionEnv(AdversarialEnv):
    """Predict whether a paper disrupts its field, face a challenge, and defend or revise the prediction.

    Description
    -----------
    Agent A, who is trained, predicts one of three labels. Agent B, who is fixed, then argues for another label, or, in
    the control, only asks "Are you sure?". A has the last word.

    The label that B argues for is drawn by the seed among the two that A did not name, without looking at the outcome.
    So B is right exactly as often as by chance: a policy that obeys B, one that inverts it, and one that uses its first
    answer as a probe all gain nothing. Only B's argument, which comes from the paper's text, can be worth
    following.
    """

    env_id = "disruption-adversarial-v0"
    question_env = DisruptionEnv


@register
class AdversarialImpactEnv(AdversarialEnv):
    """Predict disruption and novelty of a paper, face a challenge about both, and defend or revise.

    Description
    -----------
    Agent A, who is trained, predicts how a paper is taken up and how it combines what it builds on, in one answer.
    Agent B, who is fixed, then argues for another answer to each of the two questions (with ``argue_all=false`` to one
    of them), or, in the control, only asks "Are you sure?". A has the last word.

    What B argues for is drawn by the seed among the answers that A did not give, two to each question, without looking
    at the outcome. So obeying B, inverting it, and probing it with a first answer gain nothing. Only B's arguments,
    which come from the paper's text, can be worth following. The metrics count a challenge as one for the truth if all
    that it argues for is right.
    """

    env_id = "impact-adversarial-v0"
    question_env = ImpactEnv
