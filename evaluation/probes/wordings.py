"""The same question in other words: fixed paraphrases of the instructions around a paper, for every single-turn task.

What is asked about the paper (the definitions of the labels) and the answer format stay as they are, word for word: a
paraphrase of those would be another question. Only the instructions around them, and their order, change.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from ...envs.disruption_pairwise import ENDING, DisruptionPairwiseEnv
from ...envs.kit.base import SciSciEnv
from ...envs.kit.prompts import DATA, paper_block
from ...envs.kit.single_turn import LabelEnv, SingleTurnEnv

FULL: Sequence[str] = (
    """\
{data}

{shown}

Put yourself at the date of publication: nothing that happened afterwards is known to you.

{criteria}

Think it through first if that helps. At the end of your reply write {ending}""",
    """\
One question about {what}, to be answered as a reader on the day of publication would have to answer it.

{criteria}

{data}

{shown}

Your reasoning may come first. Close with {ending}""",
    """\
You advise an editor who has to decide today. {data}

{shown}

Judge from the text and from what was known at the time.

{criteria}

Write down as many of your thoughts as you need. The last thing in your message must be {ending}""",
    """\
Below: {what}, then what I want to know.

{shown}

{criteria}

{data} Use no knowledge of later years. You may explain yourself at any length, as long as you then end on {ending}""",
)

SHORT: Sequence[str] = (
    "{shown}\n? {hint}",
    "{hint} ?\n{shown}",
    "{shown}\nwhich : {hint} ?",
    "{shown}\n{hint} ?\nanswer :",
)

WORDINGS = len(FULL)
"""Wordings beside an environment's own."""


def reworded(env: SciSciEnv, wording: int) -> SciSciEnv:
    """A copy of an environment that has not been played, with its question in another wording.

    Parameters
    ----------
    env : SciSciEnv
        Of one question and one answer.
    wording : int in [0, WORDINGS]
        0 is its own.

    Raises
    ------
    ValueError
        If there is no such wording, or none for this environment.
    """
    text = reworded_question(env, wording)
    if wording == 0:
        return env
    other = copy.copy(env)
    assert isinstance(other, SingleTurnEnv)
    # The text alone is replaced: grading, labels and reward range are those of the environment itself.
    other.question = lambda: text
    other.example_id = f"{env.example_id}:wording-{wording}"
    return other


def reworded_question(env: SciSciEnv, wording: int) -> str:
    """The question of a single-turn environment in wording 0 (its own) to `WORDINGS`.

    Examples
    --------
    >>> from scisci_gym import Paper, make
    >>> env = make("disruption-v0", Paper(openalex_id="W1", title="A title", cd_index=0.4), prompt="short")
    >>> reworded_question(env, 2).splitlines()[0]
    'disruptive consolidating neutral ?'
    """
    if not 0 <= wording <= WORDINGS:
        raise ValueError(f"wordings go from 0 to {WORDINGS}, got {wording}")
    if not isinstance(env, SingleTurnEnv) or not isinstance(env, (LabelEnv, DisruptionPairwiseEnv)):
        raise ValueError(f"{env.env_id} has no other wordings; environments of one question and one answer have")
    if wording == 0:
        return env.question()
    short = env.prompt == "short"
    if isinstance(env, DisruptionPairwiseEnv):
        shown, hint, ending, what = env.shown(), "first second", ENDING, "two papers of the same field and year"
    else:
        shown = paper_block(env.paper, details=not short, references=env.references)
        hint, ending, what = env.hint(), env.ending, "a paper"
    if short:
        return SHORT[wording - 1].format(shown=shown, hint=hint)
    return FULL[wording - 1].format(data=DATA, shown=shown, what=what, criteria=env.criteria(), ending=ending)
