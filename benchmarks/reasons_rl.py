"""What RL makes of reasons: a policy that can quote, before and after 100 steps under each rule for quotes.

    python benchmarks/reasons_rl.py DATASET

The policy is no language model, since a tiny one did not learn to copy: it has a weight for each word of a paper, by
which it chooses a label, and for each label a weight for each word and each place, by which it chooses passages of five
words to quote, none to three that do not overlap. All weights begin at 0, so it starts with answers and quotes at
random. RL follows the recipe's rule: 16 papers a step, groups of 8, rewards less the mean of the group, Adam. The
reward is that of an answer that is held: 1.2 and R_reasoning if it is right, -1 if not.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scisci_gym.datasets.paper import Paper
from scisci_gym.datasets.store import load_papers
from scisci_gym.datasets.synthetic.corpus import cue_words
from scisci_gym.envs.disruption import DisruptionEnv
from scisci_gym.envs.kit.reasons import Reasons
from scisci_gym.envs.opponents.reader import ReaderReasons
from scisci_gym.rewards.composite import MAX_REASONING

QUESTION = DisruptionEnv
LABELS = QUESTION.labels
WORDS, MOST, PLACES = 5, 3, 400
"""Words of a quote, most quotes of an answer, and places that have a weight: those of the title, of at most ten words,
come first."""
COLUMNS = "right | quotes | R by `quotes` | R by `reader` | tell the right label | tell another | same place"


@dataclass(frozen=True)
class Case:
    """A paper as arrays: its words (n,), the words (p, 5) and the place (p,) of each passage, and its margin (p,)."""

    paper: Paper
    truth: int
    spots: Sequence[tuple[int, int]]
    words: np.ndarray
    passages: np.ndarray
    places: np.ndarray
    margins: np.ndarray

    def quote(self, number: int) -> str:
        """The text of a passage."""
        text, start = self.spots[number]
        return " ".join((self.paper.title, self.paper.abstract)[text].split()[start : start + WORDS])


class Cases:
    """Makes a `Case` of a paper; `rule` gives the margins, by which it is paid."""

    def __init__(self, rule: ReaderReasons):
        self.rule, self.known = rule, {}

    def case(self, paper: Paper) -> Case:
        """The arrays of a paper."""
        texts = [text.split() for text in (paper.title, paper.abstract)]
        spots = [(text, at) for text in (0, 1) for at in range(len(texts[text]) - WORDS + 1)]
        passages = [texts[text][at : at + WORDS] for text, at in spots]
        label = QUESTION.label_of(paper) or ""
        said = np.asarray(
            self.rule.evidence((paper.title, paper.abstract), QUESTION, label, [" ".join(words) for words in passages])
        )
        return Case(
            paper,
            LABELS.index(label),
            spots,
            np.asarray([self.index(word) for word in (*texts[0], *texts[1])]),
            np.asarray([[self.index(word) for word in words] for words in passages]),
            np.asarray([at + 10 * text for text, at in spots]),
            said - said.mean(),
        )

    def index(self, word: str) -> int:
        """The number of a word, counted as they come up."""
        return self.known.setdefault(word.lower(), len(self.known))


class Policy:
    """Weights, and their gradients; `by_words` is whether quotes are chosen by words, and not by place alone."""

    def __init__(self, words: int, by_words: bool):
        shapes = {"answer": (3, words), "word": (3, words), "place": (PLACES,), "count": (MOST + 1,)}
        self.weights = {name: np.zeros(shape) for name, shape in shapes.items()}
        self.moments = {name: (np.zeros(shape), np.zeros(shape)) for name, shape in shapes.items()}
        self.by_words, self.steps = by_words, 0

    def act(self, case: Case, rng: np.random.Generator, greedy: bool = False) -> tuple[int, list[int], dict]:
        """A label, the numbers of the quoted passages, and the gradient of their log-probability."""

        def choose(scores: np.ndarray) -> tuple[int, np.ndarray]:
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            chosen = int(chances.argmax() if greedy else rng.choice(len(chances), p=chances))
            return chosen, (np.arange(len(chances)) == chosen) - chances

        label, grad_label = choose(self.weights["answer"][:, case.words].sum(1))
        count, grad_count = choose(self.weights["count"])
        scores = self.weights["place"][case.places] + self.weights["word"][label][case.passages].sum(1)
        quotes, grad_quotes = [], np.zeros(len(scores))
        for _ in range(count):
            # The texts are ten places apart, so that passages of different texts never count as overlapping.
            near = [abs(case.places - case.places[quote]) < WORDS for quote in quotes]
            free = np.where(np.any(near, axis=0), -1e9, scores) if near else scores
            quote, grad = choose(free)
            quotes.append(quote)
            grad_quotes += grad
        return label, quotes, {"label": grad_label, "count": grad_count, "said": label, "quotes": grad_quotes}

    def gradient(self, total: dict[str, np.ndarray], case: Case, made: dict, advantage: float) -> None:
        """Add an action's part to the gradient of the reward."""
        for number, part in enumerate(made["label"]):
            np.add.at(total["answer"][number], case.words, advantage * part)
        total["count"] += advantage * made["count"]
        np.add.at(total["place"], case.places, advantage * made["quotes"])
        if self.by_words:
            np.add.at(total["word"][made["said"]], case.passages, advantage * made["quotes"][:, None])

    def climb(self, total: dict[str, np.ndarray], rate: float) -> None:
        """One step of Adam."""
        self.steps += 1
        for name, gradient in total.items():
            first, second = self.moments[name]
            first, second = 0.9 * first + 0.1 * gradient, 0.95 * second + 0.05 * gradient**2
            self.moments[name] = first, second
            corrected = first / (1 - 0.9**self.steps), second / (1 - 0.95**self.steps)
            self.weights[name] += rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)


def paid(rule: str, case: Case, quotes: Sequence[int]) -> float:
    """R_reasoning of quotes that are real and do not overlap, beside a right answer."""
    share = len(quotes) / MOST if rule == "quotes" else float(case.margins[list(quotes)].sum())
    return MAX_REASONING * min(1.0, max(0.0, share))


def learn(rule: str, cases: Sequence[Case], words: int, by_words: bool, seed: int, steps: int, rate: float) -> Policy:
    """Train a policy with a rule."""
    rng, policy = np.random.default_rng(seed), Policy(words, by_words)
    for _ in range(steps):
        total = {name: np.zeros_like(weights) for name, weights in policy.weights.items()}
        for number in rng.integers(len(cases), size=16):
            case = cases[number]
            group = [policy.act(case, rng) for _ in range(8)]
            rewards = [1.2 + paid(rule, case, quotes) if label == case.truth else -1.0 for label, quotes, _ in group]
            for reward, (_, _, made) in zip(rewards, group, strict=True):
                policy.gradient(total, case, made, (reward - statistics.fmean(rewards)) / 128)
        policy.climb(total, rate)
    return policy


def row(policy: Policy, cases: Sequence[Case], reader: ReaderReasons, greedy: bool) -> str:
    """A line of the table: answers to test papers, with R by the environment's own rules."""
    rng, own, other, places = np.random.default_rng(0), [], [], Counter()
    right, count, credits = [], [], ([], [])
    for case in cases:
        label, quotes, _ = policy.act(case, rng, greedy)
        right.append(label == case.truth)
        count.append(len(quotes))
        said = "".join(f"<quote>{case.quote(quote)}</quote>" for quote in quotes)
        for rule, earned in zip((Reasons(), reader), credits, strict=True):
            if right[-1]:
                shown = (case.paper.title, case.paper.abstract)
                earned.append(rule.credit(said, shown, QUESTION, LABELS[case.truth]))
        for quote in quotes:
            places[int(case.places[quote])] += 1
            words = case.quote(quote).split()
            own.append(sum(word in cue_words()[case.truth] for word in words) / WORDS)
            other.append(sum(word in cues for word in words for cues in cue_words()) / WORDS - own[-1])
    means = [statistics.fmean(column or [0.0]) for column in (right, count, *credits, own, other)]
    return " | ".join(f"{mean:.3f}" for mean in [*means, max(places.values(), default=0) / max(1, sum(count))])


def main() -> None:
    """Print the table for every rule and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.05)
    arguments = parser.parse_args()
    reader = ReaderReasons(arguments.dataset)
    maker = Cases(reader)
    train, test = (
        [maker.case(paper) for paper in load_papers(arguments.dataset, split) if QUESTION.has_label(paper)]
        for split in ("train", "test")
    )
    random.Random(0).shuffle(train)
    print(f"{len(train)} training papers, {len(test)} test papers\n\n| the policy | {COLUMNS} |\n|---{'|---' * 7}|")
    start = Policy(len(maker.known), True)
    print(f"| the start, sampled | {row(start, test, reader, False)} |", flush=True)
    for rule, by_words in (("reader", True), ("reader", False), ("quotes", True)):
        for seed in arguments.seeds:
            policy = learn(rule, train, len(maker.known), by_words, seed, arguments.steps, arguments.rate)
            name = f"RL with `{rule}`{'' if by_words else ', by place alone'}, seed {seed}"
            for greedy in (False, True):
                line = row(policy, test, reader, greedy)
                print(f"| {name}, {'greedy' if greedy else 'sampled'} | {line} |", flush=True)


if __name__ == "__main__":
    main()
