"""`disruption-adversarial-v0`: predict, be challenged, defend or revise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..datasets.paper import Paper
from .disruption import DisruptionEnv
from .kit.two_turn import Challenge, TwoTurnEnv
from .opponents.challengers import CHALLENGERS, Case, Challenger, argument_of
from .opponents.judge import JUDGES, ReasonsJudge
from .registry import register


@register
class AdversarialDisruptionEnv(TwoTurnEnv):
    """Predict whether a paper disrupts its field, face a challenge, and defend or revise the prediction.

    Description
    -----------
    Agent A, who is trained, predicts one of three labels. Agent B, who is fixed, then argues for another label, or, in
    the control, only asks "Are you sure?". A has the last word.

    The label that B argues for is drawn by the seed among the two that A did not name, without looking at the outcome.
    So it is right exactly as often as chance has it: A policy that obeys B, one that inverts it, and one that uses its
    first answer as a probe all gain nothing. Only B's argument, which comes from the paper's text, can be worth
    following.

    Action
    ------
    Twice a text that ends with exactly one of ``<answer>disruptive</answer>``, ``<answer>consolidating</answer>``,
    ``<answer>neutral</answer>``. In the second one, passages of the title or abstract between ``<quote>`` and
    ``</quote>`` count as reasons.

    Observation
    -----------
    First a user message with title, abstract, year, field, venue, and the reference list if asked for; then B's
    challenge, fenced off as data. Never a citation count or anything else from later papers.

    Arguments
    ---------
    paper : Paper with the label, or with the scores that it follows from
    challenger : Challenger or str
        A name: ``scripted`` (the default), ``tinker:MODEL`` or ``litellm:MODEL``; see `envs/opponents`. If it
        fails, B asks "Are you sure?", and the metric ``challenger_failed`` of the episode is 1.
    control_rate : float in [0, 1]
        How often B only asks "Are you sure?".
    seed : int
        Of the control and of the label that B argues for. Training draws a new one for every group.
    prompt : "full" | "short"
        ``short`` shows title, abstract and the labels only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that it cites.
    judge : ReasonsJudge or str or None
        A language model that can lower R_reasoning, or its name: ``tinker:MODEL`` or ``litellm:MODEL``. If it fails,
        R_reasoning is 0, and the metric ``judge_failed`` of the episode is 1.
    """

    env_id = "disruption-adversarial-v0"
    question_env = DisruptionEnv

    def __init__(
        self,
        paper: Paper,
        *,
        challenger: Challenger | str | None = None,
        control_rate: float = 0.25,
        seed: int = 0,
        prompt: str = "full",
        references: bool = False,
        judge: ReasonsJudge | str | None = None,
    ):
        super().__init__(paper, prompt=prompt, references=references)
        if not 0.0 <= control_rate <= 1.0:
            raise ValueError(f"control_rate must be in [0, 1], got {control_rate!r}")
        self.control_rate, self.seed = control_rate, seed
        self.judge = None if judge is None else JUDGES.resolve(judge)
        self.challenger = CHALLENGERS.resolve("scripted" if challenger is None else challenger)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        for name, registry in (("challenger", CHALLENGERS), ("judge", JUDGES)):
            if options.get(name) is not None:
                registry.resolve(options[name])

    async def challenge(self, answer: str, label: str) -> Challenge:
        """The control, or an argument for one of the labels that the agent did not name, as the seed draws it."""
        # A digest and not `random`: ten times faster to seed, and the same on every machine.
        digest = hashlib.blake2b(f"{self.seed}:{self.paper.openalex_id}".encode(), digest_size=8).digest()
        draw = int.from_bytes(digest, "big")
        if (draw >> 1) / 2**63 < self.control_rate:
            return Challenge()
        others = [other for other in self.labels if other != label]
        drawn = others[draw & 1]
        title, abstract = self._shown
        argument = await argument_of(
            self.challenger, Case(title, abstract, self.paper_shown(), answer, drawn, self.labels)
        )
        return Challenge(failed=True) if argument is None else Challenge(argument, drawn, failed=False)

    async def judged_share(self, text: str) -> tuple[float, dict[str, float]]:
        """What the judge leaves of the credit: all if there is none, nothing if it fails."""
        if self.judge is None:
            return 1.0, {}
        share = await self.judge.share(self.paper_shown(), text)
        return share or 0.0, {"judge_failed": float(share is None)}
