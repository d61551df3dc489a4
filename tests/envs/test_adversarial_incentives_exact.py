"""What pays in the adversarial environments, by exact enumeration: every first answer, every challenge, every revision.

The world: the truth is any label with the same probability. A has a hunch for each question, which is right with a
given probability, and B's reader another; wrong ones are any other answer, and all of them are independent given the
truth. What B may argue for, how strong it calls its case, and the rewards are the environment's own functions.
"""

from __future__ import annotations

import math
from itertools import product

import pytest

from scisci_gym.envs.adversarial import AdversarialDisruptionEnv, AdversarialEnv, AdversarialImpactEnv
from scisci_gym.envs.opponents.challengers import strength
from scisci_gym.rewards import adaptation, correctness

CONTROL_RATE = 0.25
HUNCH, READER = 0.6, 0.8
GAMES = [(AdversarialDisruptionEnv, False), (AdversarialImpactEnv, False), (AdversarialImpactEnv, True)]
"""Environments, and whether B argues about all questions."""
CHALLENGE = tuple[tuple[str, str], ...]
"""What is argued for and how strongly, for one question or for all; empty in the control."""


def likelihood(env: type[AdversarialEnv], said: str, truth: str, right: float) -> float:
    """Probability of a hunch, given the truth."""
    chances = [
        right if one == other else (1 - right) / (len(answers) - 1)
        for one, other, answers in zip(split(env, said), split(env, truth), questions(env), strict=True)
    ]
    return math.prod(chances)


def split(env: type[AdversarialEnv], label: str) -> tuple[str, ...]:
    return env.question_env.split_label(label)


def questions(env: type[AdversarialEnv]) -> tuple[tuple[str, ...], ...]:
    return env.label_parts or (env.labels,)


def reward(env: type[AdversarialEnv], first: str, final: str, truth: str, partial: bool) -> float:
    right = env.question_env.partial_correctness(final, truth) if partial else correctness(final, truth)
    return right + adaptation(first, final, truth)


def challenges(
    env: type[AdversarialEnv], first: str, style: str, rival: str | None, argue_all: bool
) -> list[tuple[float, CHALLENGE]]:
    """The challenges to a first answer with their probabilities, when the reader's hunch is `style`.

    The strength of a case is measured against the `rival`: the answer that was ``named``, as the reader does it, or the
    ``rest`` of the answers; None for cases without a strength.
    """

    def case(argued: str) -> tuple[str, str]:
        place = next(place for place, answers in enumerate(questions(env)) if argued in answers)
        believed = dict.fromkeys(questions(env)[place], (1 - READER) / 2) | {split(env, style)[place]: READER}
        against = {"named": believed[split(env, first)[place]], "rest": 1 - believed[argued], None: 1.0}[rival]
        return argued, strength(math.log(believed[argued] / against)) if rival else ""

    ways = env.ways_to_argue(first, argue_all)
    found: list[tuple[float, CHALLENGE]] = [(CONTROL_RATE, ())]
    return found + [((1 - CONTROL_RATE) / len(ways), tuple(map(case, argued))) for argued, _ in ways]


def best_value(
    env,
    first: str,
    weight: dict[str, float],
    *,
    rival: str | None = "named",
    partial: bool = False,
    argue_all: bool = False,
) -> float:
    """Expected reward of a first answer that is followed by the best revision there is; truths have these weights."""
    chances: dict[CHALLENGE, dict[str, float]] = {}
    for truth, style in product(env.labels, env.labels):
        for chance, challenge in challenges(env, first, style, rival, argue_all):
            seen = chances.setdefault(challenge, dict.fromkeys(env.labels, 0.0))
            seen[truth] += weight[truth] * likelihood(env, style, truth, READER) * chance
    return sum(
        max(
            sum(seen[truth] * reward(env, first, final, truth, partial) for truth in env.labels) for final in env.labels
        )
        for seen in chances.values()
    )


def after_a_hunch(env: type[AdversarialEnv], hunch: str, right: float = HUNCH) -> dict[str, float]:
    return {truth: likelihood(env, hunch, truth, right) for truth in env.labels}


@pytest.mark.parametrize(("env", "argue_all"), GAMES)
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("right", [0.4, HUNCH, 0.8])
def test_no_first_answer_pays_more_than_the_honest_one(env, argue_all, partial, right):
    hunch = env.labels[0]
    weight = after_a_hunch(env, hunch, right)
    values = {first: best_value(env, first, weight, partial=partial, argue_all=argue_all) for first in env.labels}
    assert values[hunch] > max(value for first, value in values.items() if first != hunch) + 0.005, values


def gain_of_probing(env: type[AdversarialEnv], belief: dict[str, float], rival: str) -> float:
    """What the best first answer earns beyond the likeliest label (the better one of two as likely)."""
    values = {first: best_value(env, first, belief, rival=rival) for first in env.labels}
    return max(values.values()) - max(values[label] for label in env.labels if belief[label] == max(belief.values()))


BELIEFS = [(i / 10, j / 10, (10 - i - j) / 10) for i in range(1, 9) for j in range(1, 10 - i)]


def test_a_first_answer_as_a_probe_gains_nothing_whatever_is_believed():
    env = AdversarialDisruptionEnv
    gains = [gain_of_probing(env, dict(zip(env.labels, belief, strict=True)), "named") for belief in BELIEFS]
    assert max(gains) < 1e-9


def test_it_would_gain_if_the_strength_were_not_measured_against_the_named_answer():
    belief = {"disruptive": 0.45, "consolidating": 0.45, "neutral": 0.1}
    assert gain_of_probing(AdversarialDisruptionEnv, belief, "rest") > 0.15


@pytest.mark.parametrize(("env", "argue_all"), GAMES)
def test_without_evidence_no_policy_gains_by_the_label_that_is_argued_for(env, argue_all):
    """The best of all policies of a blind agent names one label and holds it; obeying and inverting are among them."""
    even = dict.fromkeys(env.labels, 1 / len(env.labels))
    uneven = dict(zip(env.labels, (weight / 45 for weight in range(9, 0, -1)), strict=False))
    for prior in (even, {label: weight / sum(uneven.values()) for label, weight in uneven.items()}):
        values = [best_value(env, first, prior, rival=None, argue_all=argue_all) for first in env.labels]
        assert max(values) == pytest.approx(2.2 * max(prior.values()) - 1)


def value_of(env: type[AdversarialEnv], argue_all: bool, flips) -> float:
    """Expected reward of an honest first answer and a fixed rule by which arguments an answer is flipped."""
    hunch, total = env.labels[0], 0.0
    weight = after_a_hunch(env, hunch)
    for truth, style in product(env.labels, env.labels):
        for chance, challenge in challenges(env, hunch, style, "named", argue_all):
            flipped = [argued for argued, word in challenge if flips(word)]
            final = ", ".join(
                next((argued for argued in flipped if argued in answers), said)
                for answers, said in zip(questions(env), split(env, hunch), strict=True)
            )
            chance *= weight[truth] * likelihood(env, style, truth, READER)
            total += chance * reward(env, hunch, final, truth, partial=False)
    return total


@pytest.mark.parametrize(("env", "argue_all"), [(AdversarialDisruptionEnv, False), (AdversarialImpactEnv, True)])
def test_flipping_by_strength_beats_stubbornness_and_obedience(env, argue_all):
    listening = value_of(env, argue_all, lambda word: word == "strong")
    assert listening > value_of(env, argue_all, lambda word: False) + 0.1
    assert listening > value_of(env, argue_all, lambda word: True) + 0.1
