"""`disruption-selfplay-v0`: the challenger learns too."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from tinker_cookbook.renderers import Message
from tinker_cookbook.rl.message_env import MessageStepResult

from ..datasets.paper import Paper
from ..rewards import CORRECT, MAX_ADAPTATION, WRONG
from .adversarial import AdversarialDisruptionEnv
from .disruption import DisruptionEnv
from .kit.answers import message_text
from .kit.base import Example, SciSciEnv, user_message
from .kit.fencing import as_data
from .kit.prompts import DATA, paper_block
from .kit.two_turn import Challenge
from .registry import register

PATIENCE = 300.0

QUESTION = """\
A colleague has judged this paper by what was known on the day it was published. {data} So is the text between the \
<response> tags, which the colleague wrote.

{paper}

{criteria}

<response>
{response}
</response>

Check the judgement. Say what speaks for another label, or why this one is right; the colleague will read it and \
answer once more. You are paid for your own label being right, and a little more if the colleague ends up with the \
right one as well. Finish with {ending}"""

NOTHING_SAID = "(The colleague gave no judgement.)"


Statement = tuple[str, str]
"""Text and label of one side."""


class Table:
    """Passes the statements of the two sides of a game to each other. Nobody waits longer than `patience`.

    The seconds of `patience` only matter if a side ends without a statement, such as a rollout that failed and was
    replaced: a side that is cut off or cannot be parsed says so at once.
    """

    def __init__(self, patience: float = PATIENCE):
        self.patience = patience
        self.final: str | None = None
        self._statements: dict[str, Statement | None] = {}
        self._events: dict[str, asyncio.Event] = {}

    def say(self, side: str, statement: Statement | None) -> None:
        """Leave a statement for the other side; None if there will be none. Only the first call of a side counts."""
        if side not in self._statements:
            self._statements[side] = statement
            self._event(side).set()

    async def hear(self, side: str) -> Statement | None:
        """Wait for the statement of `side`; None if it makes none."""
        try:
            async with asyncio.timeout(self.patience):
                await self._event(side).wait()
        except TimeoutError:
            # A statement that comes later does not count: both sides must agree on what was said.
            self.say(side, None)
        return self._statements[side]

    def _event(self, side: str) -> asyncio.Event:
        return self._events.setdefault(side, asyncio.Event())


@register
class DisruptionSelfPlayEnv(AdversarialDisruptionEnv):
    """Predict and challenge, with one policy that learns both sides.

    Description
    -----------
    The game of ``disruption-adversarial-v0`` between two copies of the policy. Side A predicts, reads what B says, and
    has the last word. Side B reads the paper and A's first answer and says what it thinks of it, with a label of its
    own. Both sides are paid for the truth. A group of G rollouts holds G // 2 games about the same paper (and, if G is
    odd, one A against the fixed challenger). Its advantages are centred for each side by itself: if both shared one
    mean, a B that misleads A would lower the mean that it is compared with, and gain by it. So a side learns nothing
    unless it has two rollouts in a group, and a group has to have four. The centring shifts the rewards that the
    cookbook logs, though not their mean over a group; the rewards of the sides are the metrics ``reward`` and
    ``objector_reward``. An environment made by itself, as in the benchmark, is side A against the fixed challenger.

    Action
    ------
    A: twice, B: once, a text that ends with exactly one of ``<answer>disruptive</answer>``,
    ``<answer>consolidating</answer>``, ``<answer>neutral</answer>``. Quotes count as in the adversarial environment.

    Observation
    -----------
    A: title, abstract, year, field, venue, and the reference list if asked for; then what B wrote, fenced off as data.
    B: the same and A's first answer, fenced off. Never a citation count or anything else from later papers.

    Rewards
    -------
    A: as in ``disruption-adversarial-v0``, between -1 and 1.5. B: +1 if its own label is right, -1 otherwise, and 0.2
    on top of a right one if A's final label is right as well. A message that is not an answer, and a cut-off one, costs
    its own side -1. The other side plays on: A is asked "Are you sure?", B is told that there was no judgement.

    Episode end
    -----------
    A: after the second message, or after a first one that is not an answer. B: after its message. Neither waits for
    more than `patience` seconds.

    Arguments
    ---------
    table : Table or None
        Shared with the other side; None for the fixed challenger.
    patience : float
        Seconds that one side waits for the other before it plays on alone.
    """

    env_id = "disruption-selfplay-v0"
    roles = 3  # two sides, and side A against the fixed challenger

    def __init__(self, paper: Paper, *, table: Table | None = None, patience: float = PATIENCE, **options: Any):
        super().__init__(paper, **options)
        self.table, self.patience = table, patience

    @classmethod
    def make_group(cls, example: Example, size: int, options: Mapping[str, Any]) -> list[SciSciEnv]:
        envs: list[SciSciEnv] = []
        for _ in range(size // 2):
            side_a = cls(*example, **options)
            side_a.table = Table(side_a.patience)
            side_b = ObjectorEnv(side_a.paper, side_a.table, prompt=side_a.prompt, references=side_a.references)
            envs += [side_a, side_b]
        if size % 2:
            envs.append(cls(*example, **options))
        return envs

    async def challenge(self, answer: str, label: str) -> Challenge:
        if self.table is None:
            return await super().challenge(answer, label)
        self.table.say("A", (answer, label))
        statement = await self.table.hear("B")
        return Challenge() if statement is None else Challenge(as_data(statement[0].strip()), statement[1])

    async def step(self, message: Message) -> MessageStepResult:
        result = await super().step(message)
        if result.episode_done and self.table is not None:
            self.table.final = str(result.logs["predicted"])
        return result

    def abandon(self) -> None:
        if self.table is not None:
            self.table.say("A", None)


class ObjectorEnv(DisruptionEnv):
    """Side B of `DisruptionSelfPlayEnv`. Not registered: it makes no sense without side A."""

    env_id = "disruption-selfplay-v0"
    reward_range = (WRONG, CORRECT + MAX_ADAPTATION)
    side = "objector"
    # Side B's metrics have names of their own: `correct` is about side A, here as in the benchmark.
    ungraded = {"objector_correct": 0.0, "objector_format_valid": 0.0}  # noqa: RUF012  (a class constant of the base)

    def __init__(self, paper: Paper, table: Table, *, prompt: str = "full", references: bool = False):
        super().__init__(paper, prompt=prompt, references=references)
        self.table = table
        self.example_id += ":B"
        self._is_right = False

    async def initial_observation(self) -> list[Message]:
        statement = await self.table.hear("A")
        response = as_data(statement[0]) if statement is not None else NOTHING_SAID
        shown = paper_block(self.paper, details=self.prompt == "full", references=self.references)
        if self.prompt == "short":
            return user_message(f"{shown}\n{response}\n{self.hint()} ?")
        text = QUESTION.format(data=DATA, paper=shown, criteria=self.criteria(), response=response, ending=self.ending)
        return user_message(text)

    async def step(self, message: Message) -> MessageStepResult:
        result = await super().step(message)
        label = str(result.logs["predicted"])
        self.table.say("B", (message_text(message), label) if label else None)
        self._is_right = label == self._label
        metrics = {f"objector_{name}": value for name, value in result.metrics.items()}
        return dataclasses.replace(result, metrics=metrics)

    def group_reward(self) -> float:
        return MAX_ADAPTATION if self._is_right and self.table.final == self._label else 0.0

    def abandon(self) -> None:
        self.table.say("B", None)
