"""What pays in the adversarial environment, found by playing it with simulated policies.

The world: every abstract has four sentences with a cue for the truth, for another label, or none; the first one tells
least. A reader gets through the title and the first sentence only; the challenger quotes from all of them. So its
argument can be worth something, though it does not know the truth either.
"""

import asyncio
import random
import re
from collections import Counter, defaultdict
from typing import ClassVar

import pytest

from scisci_gym import Paper
from scisci_gym.envs.adversarial import AdversarialDisruptionEnv
from scisci_gym.envs.kit.episodes import play_episode
from scisci_gym.envs.opponents.challengers import ScriptedChallenger

CD = {"disruptive": 0.5, "consolidating": -0.5, "neutral": 0.0}
LABELS = tuple(CD)
CUES = {"disruptive": ["amber"], "consolidating": ["nectar"], "neutral": ["quartz"]}
SIZE = 3000


def world(seed: int) -> list[Paper]:
    rng = random.Random(seed)
    papers = []
    for index in range(SIZE):
        truth = LABELS[index % 3]
        sentences = []
        for place in range(4):
            style = truth if rng.random() < (0.5 if place else 0.3) else rng.choice([*LABELS, None])
            sentences.append(f"We saw {CUES[style][0] if style else 'water'} in it.")
        papers.append(
            Paper(openalex_id=f"W{seed}-{index}", title="Ice", abstract=" ".join(sentences), cd_index=CD[truth])
        )
    return papers


class Reader:
    """Answers with the cue of the first sentence; plays once, since an episode is played once."""

    def __init__(self, rng: random.Random):
        self.rng = rng

    def __call__(self, messages) -> str:
        if len(messages) == 1:
            self.seen = self.read(messages[0]["content"])
            self.first = self.open()
            label = self.first
        else:
            found = re.search(r"I would say (\w+): (it says)?", messages[-1]["content"])
            self.argued, self.backed = (found.group(1), bool(found.group(2))) if found else (None, False)
            label = self.close()
        return f"<answer>{label}</answer>"

    @staticmethod
    def read(shown: str) -> str | None:
        sentence = re.search(r"Abstract: ([^.]*)\.", shown).group(1)
        return next((label for label, cues in CUES.items() if cues[0] in sentence), None)

    def open(self) -> str:
        return self.seen or "neutral"

    def close(self) -> str:
        return self.first


class NeverFlip(Reader):
    pass


class Constant(Reader):
    def open(self):
        return "neutral"


class Random(Reader):
    def open(self):
        return self.rng.choice(LABELS)

    def close(self):
        return self.rng.choice(LABELS)


class AlwaysFlip(Reader):
    """Flips to whatever is argued for; after a control, to anything else."""

    def close(self):
        return self.argued or self.rng.choice([label for label in LABELS if label != self.first])


class Obey(Reader):
    """Knows nothing of its own, and says what the challenger says."""

    def open(self):
        return "neutral"

    def close(self):
        return self.argued or self.first


class Invert(Obey):
    """Says neither what it said nor what the challenger says."""

    def close(self):
        return next(label for label in LABELS if label not in (self.first, self.argued)) if self.argued else self.first


class Honest(Reader):
    """Updates on the argument: by what was the truth, in an earlier world, after the same reading and argument."""

    memory: ClassVar[defaultdict[tuple, Counter]] = defaultdict(Counter)

    @property
    def evidence(self) -> tuple:
        return self.seen, self.first, self.argued, self.backed

    def close(self):
        known = self.memory[self.evidence]
        return max(LABELS, key=lambda label: (known[label], label == self.first))


class Sandbag(Honest):
    """Opens with a label that it does not believe, to be seen correcting itself."""

    def open(self):
        believed = super().open()
        return next(label for label in LABELS if label != believed)


def play(policy_class: type[Reader], papers: list[Paper], seed: int, learn: bool = False) -> dict[str, float]:
    async def run():
        rng, results = random.Random(seed), []
        for paper in papers:
            policy = policy_class(rng)
            env = AdversarialDisruptionEnv(paper, challenger=ScriptedChallenger(CUES), seed=seed)
            episode = await play_episode(env, policy)
            if learn:
                assert isinstance(policy, Honest)
                policy.memory[policy.evidence][env.gold_label] += 1
            results.append({**episode.result.metrics, "reward": episode.reward})
        return {name: sum(result.get(name, 0) for result in results) / SIZE for name in ("reward", "correct")}

    return asyncio.run(run())


@pytest.fixture(scope="module")
def outcome() -> dict[str, dict[str, float]]:
    Honest.memory.clear()
    for policy in (Honest, Sandbag):
        play(policy, world(1), 1, learn=True)
    fresh = world(2)
    policies = (Honest, NeverFlip, AlwaysFlip, Sandbag, Constant, Random, Obey, Invert)
    return {policy.__name__: play(policy, fresh, 2) for policy in policies}


def test_the_honest_reader_earns_most(outcome):
    rivals = max(found["reward"] for name, found in outcome.items() if name != "Honest")
    assert outcome["Honest"]["reward"] > rivals + 0.03, outcome


def test_never_flipping_is_beaten_by_listening_and_beats_always_flipping(outcome):
    assert outcome["Honest"]["correct"] > outcome["NeverFlip"]["correct"] + 0.02
    assert outcome["NeverFlip"]["reward"] > outcome["AlwaysFlip"]["reward"] + 0.3


def test_a_wrong_first_answer_on_purpose_does_not_pay(outcome):
    assert outcome["Sandbag"]["reward"] < outcome["Honest"]["reward"] - 0.03


@pytest.mark.parametrize("policy", ["Constant", "Random", "Obey", "Invert"])
def test_without_reading_nobody_does_better_than_chance(outcome, policy):
    # Three standard errors of a share of 1/3 among 3,000 papers are 0.026.
    assert outcome[policy]["correct"] == pytest.approx(1 / 3, abs=0.03)


def test_who_reads_nothing_earns_less_than_who_reads_a_sentence(outcome):
    blind = max(outcome[policy]["reward"] for policy in ("Constant", "Random", "Obey", "Invert"))
    assert blind < 0 < outcome["NeverFlip"]["reward"]


def test_expected_rewards_of_the_blind_by_hand(outcome):
    # Right a third of the time. Constant: always held, 2/3 * -1 + 1/3 * 1.2. Obeying: argued with 3/4 of the time, and
    # then never right at first, so 0.1 and not 0.2.
    assert outcome["Constant"]["reward"] == pytest.approx(2 / 3 * -1 + 1 / 3 * 1.2, abs=0.06)
    expected = 2 / 3 * -1 + 1 / 3 * (1 / 4 * 1.2 + 3 / 4 * 1.1)
    assert outcome["Obey"]["reward"] == pytest.approx(expected, abs=0.06)
    assert outcome["Invert"]["reward"] == pytest.approx(expected, abs=0.06)
