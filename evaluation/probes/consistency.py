"""Whether a policy answers the same question the same way: in other words, and with the papers of a pair swapped.

The other wordings are fixed paraphrases of the instructions around a paper. The definitions of the labels and the
answer format stay word for word: a paraphrase of those would be another question.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...envs.disruption_pairwise import ENDING, DisruptionPairwiseEnv
from ...envs.kit.base import SciSciEnv
from ...envs.kit.prompts import DATA, paper_block
from ...envs.kit.single_turn import LabelEnv, SingleTurnEnv
from ...envs.registry import spec
from ..bootstrap import divide, mean_scores
from ..examination import Examination, VariantBenchmark
from ..records import plain

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
"""Number of wordings beside an environment's own."""


def reworded(env: SciSciEnv, wording: int) -> SciSciEnv:
    """A copy of an environment that has not been played, with its question in another wording.

    `wording` 0 is its own; there are `WORDINGS` others.

    Raises `ValueError` if there is no such wording, or none for this environment.

    Examples
    --------
    >>> from scisci_gym import Paper, make
    >>> env = make("disruption-v0", Paper(openalex_id="W1", title="A title", cd_index=0.4), prompt="short")
    >>> reworded(env, 2).question().splitlines()[0]
    'disruptive consolidating neutral ?'
    """
    if not 0 <= wording <= WORDINGS:
        raise ValueError(f"wordings go from 0 to {WORDINGS}, got {wording}")
    if not isinstance(env, (LabelEnv, DisruptionPairwiseEnv)):
        raise ValueError(f"{env.env_id} has no other wordings; environments of one question and one answer have")
    if wording == 0:
        return env
    text = _question(env, wording)
    other = copy.copy(env)
    # The text alone is replaced: grading, labels and reward range are those of the environment itself.
    other.question = lambda: text
    other.example_id = f"{env.example_id}:wording-{wording}"
    return other


def _question(env: LabelEnv | DisruptionPairwiseEnv, wording: int) -> str:
    short = env.prompt == "short"
    if isinstance(env, DisruptionPairwiseEnv):
        shown, hint, ending, what = env.shown(), "first second", ENDING, "two papers of the same field and year"
    else:
        shown = paper_block(env.paper, details=not short, references=env.references, facts=env.facts)
        hint, ending, what = env.hint(), env.ending, "a paper"
    if short:
        return SHORT[wording - 1].format(shown=shown, hint=hint)
    return FULL[wording - 1].format(data=DATA, shown=shown, what=what, criteria=env.criteria(), ending=ending)


def wording_consistency(
    expected: Sequence[str], predicted: Sequence[Sequence[str]], seed: int = 0, block: int = 1
) -> dict[str, Any]:
    """Consistency of the answers to N questions in K wordings. Intervals resample questions, with all their wordings.

    `expected` are N labels, and `predicted` K >= 2 sequences of N, "" where there is no answer; the environment's own
    wording comes first. Neighbouring questions are resampled in blocks, such as both orders of a pair.

    Returns
    -------
    dict
        ``n`` and ``wordings`` : N and K. ``accuracy`` : Score over all N x K answers, and ``accuracy_by_wording``, a
        list of K. ``agreement`` : Score, share of pairs of wordings that get the same label, averaged over questions; a
        missing answer agrees with no other, not even with a missing one. ``all_agree``, ``all_right`` : Score, shares
        of questions with the same label in all wordings, and with the right one in all. ``answered`` : share in [0, 1].

    Raises `ValueError` if there are fewer than two wordings, no questions, or different numbers of them.

    Examples
    --------
    >>> result = wording_consistency(["a", "b"], [["a", "b"], ["a", "a"]])
    >>> result["agreement"].value, result["all_right"].value, result["accuracy"].value
    (0.5, 0.5, 0.75)
    """
    n, wordings = len(expected), len(predicted)
    if wordings < 2 or not n or any(len(answers) != n for answers in predicted):
        raise ValueError(
            f"needs the answers of at least two wordings to the same questions, got {n} questions and "
            f"{[len(answers) for answers in predicted]} answers"
        )
    answers = np.array([list(labels) for labels in predicted], dtype=object).T
    given = answers != ""
    right = (answers == np.array(expected, dtype=object)[:, None]).astype(float)
    same = (answers[:, :, None] == answers[:, None, :]) & given[:, :, None]
    columns = {
        "accuracy": right.mean(axis=1),
        "agreement": (same.sum(axis=(1, 2)) - given.sum(axis=1)) / (wordings * (wordings - 1)),
        "all_agree": same.all(axis=(1, 2)),
        "all_right": right.all(axis=1),
    }
    scores = mean_scores({**columns, **{str(at): one for at, one in enumerate(right.T)}}, seed=seed, block=block)
    return {
        "n": n,
        "wordings": wordings,
        "accuracy_by_wording": [scores.pop(str(at)) for at in range(wordings)],
        **scores,
        "answered": float(given.mean()),
    }


def order_consistency(expected: Sequence[str], predicted: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Consistency of the answers to P pairs in both orders. Intervals resample pairs.

    A policy that chooses by position alone has agreement 0 and accuracy 1/2.

    `expected` and `predicted` are 2 P labels, "first" or "second": neighbours are one pair, in one order and in the
    other. A prediction that is neither is no answer.

    Returns
    -------
    dict
        ``pairs`` : P. As `Score`: ``accuracy`` over all 2 P answers; the shares of pairs in which the same paper is
        named in both orders (``agreement``), that are right in both (``both_right``), and in which the same position
        is named in both (``always_first``, ``always_second``); ``position_bias``, the share of "first" among the labels
        that were given, minus 1/2, NaN if none was given.

    Raises `ValueError` if neighbours do not expect opposite answers: then they are not both orders of a pair.

    Examples
    --------
    >>> result = order_consistency(["first", "second"], ["first", "first"])
    >>> result["agreement"].value, result["always_first"].value, result["position_bias"].value
    (0.0, 1.0, 0.5)
    """
    truth, named = (np.array(list(labels), dtype=object) for labels in (expected, predicted))
    whole = len(truth) == len(named) and len(truth) > 0 and len(truth) % 2 == 0
    if not whole or any(set(pair) != {"first", "second"} for pair in truth.reshape(-1, 2)):
        raise ValueError(f"{len(truth)} expected and {len(named)} predicted answers are not pairs in both orders")
    right, first, second = ((named == other).astype(float).reshape(-1, 2) for other in (truth, "first", "second"))
    given = (first + second).sum(axis=1)
    columns = {
        "accuracy": right.mean(axis=1),
        "agreement": first[:, 0] * second[:, 1] + second[:, 0] * first[:, 1],
        "both_right": right.prod(axis=1),
        "always_first": first.prod(axis=1),
        "always_second": second.prod(axis=1),
        "position_bias": divide(first.sum(axis=1), given, 0.0) - 0.5,
    }
    return {"pairs": len(given), **mean_scores(columns, {"position_bias": given}, seed=seed)}


async def consistency_report(examined: Examination) -> dict[str, Any]:
    """Ask a policy every question in its own and in `WORDINGS` other wordings; pairs also in both orders.

    Returns, ready for JSON, settings, ``wordings`` (of `wording_consistency`) and, for pairs, ``orders`` (of
    `order_consistency`, for every wording, the environment's own first). Raises `ValueError` if the environment has
    several turns.
    """
    task, env_class = examined.task, spec(examined.task.env)
    if not issubclass(env_class, SingleTurnEnv):
        raise ValueError(f"{task.env} has several turns; consistency is measured where there is one question")
    asked = [await examined.ask()]
    for wording in range(1, WORDINGS + 1):
        benchmark = VariantBenchmark(examined.benchmark(), lambda env, wording=wording: reworded(env, wording))
        asked.append(await examined.ask(f"wording-{wording}", benchmark))
    expected = [answer.expected for answer in asked[0]]
    predicted = [[answer.predicted for answer in answers] for answers in asked]
    over_wordings = wording_consistency(expected, predicted, examined.seed, env_class.presentations)
    report = {**examined.settings, "wordings": over_wordings}
    if env_class.presentations == 2:
        report["orders"] = [order_consistency(expected, answers, examined.seed) for answers in predicted]
    return plain(report)
