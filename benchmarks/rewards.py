"""How the rewards of the adversarial environments hold against simple ways to quote and to take a challenge.

    python benchmarks/rewards.py DATASET

prints two Markdown tables, from the test papers of a built dataset. docs/rewards.md shows and explains them.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
from collections.abc import Callable, Sequence

from tinker_cookbook.renderers import Message

from scisci_gym import make, spec
from scisci_gym.datasets.store import load_papers
from scisci_gym.envs.adversarial import AdversarialEnv
from scisci_gym.envs.kit.episodes import play_episode
from scisci_gym.envs.opponents.reader import ReaderReasons
from scisci_gym.rewards import passages_of

SENTENCE = re.compile(r"[^.!?]+[.!?]*")

Quoter = Callable[[AdversarialEnv, random.Random], Sequence[str]]


def of_length(env: AdversarialEnv, rng: random.Random, size: int) -> list[str]:
    """Three passages of `size` words, drawn at random."""
    passages = passages_of([env.paper.title, env.paper.abstract], size)
    return rng.sample(passages, min(3, len(passages)))


def sentences(env: AdversarialEnv) -> list[str]:
    """The sentences of title and abstract."""
    found = [found.strip() for text in (env.paper.title, env.paper.abstract) for found in SENTENCE.findall(text)]
    return [sentence for sentence in found if sentence]


def telling(env: AdversarialEnv, passages: Sequence[str]) -> list[str]:
    """The three passages from which the reader believes most in the right label, each for its length."""
    shown = (env.paper.title, env.paper.abstract)

    def margin(passage: str) -> float:
        alike = [passage, *passages_of(shown, len(passage.split()))]
        assert isinstance(env.reasons, ReaderReasons)
        said, *others = env.reasons.evidence(shown, env.question_env, env.gold_label, alike)
        return said - statistics.fmean(others)

    return sorted(passages, key=margin, reverse=True)[:3]


QUOTERS: dict[str, Quoter] = {
    "copies the first 15 words, in three pieces": lambda env, rng: [
        " ".join(env.paper.abstract.split()[start : start + 5]) for start in (0, 5, 10)
    ],
    "three passages of 5 words at random": lambda env, rng: of_length(env, rng, 5),
    "three passages of 12 words at random": lambda env, rng: of_length(env, rng, 12),
    "three whole sentences at random": lambda env, rng: rng.sample(sentences(env), min(3, len(sentences(env)))),
    "the whole abstract": lambda env, rng: [env.paper.abstract],
    "made-up quotes": lambda env, rng: ["nobody had expected the result that we report here"] * 3,
    "the three most telling sentences": lambda env, rng: telling(env, sentences(env)),
    "the most telling passages (three sixths of the text)": lambda env, rng: env.reasons.best(
        (env.paper.title, env.paper.abstract), env.question_env, env.gold_label
    ),
    "the same, the third one made up": lambda env, rng: [
        *list(QUOTERS["the most telling passages (three sixths of the text)"](env, rng))[:2],
        "nobody had expected the result that we report here",
    ],
    "the three most telling passages of five words": lambda env, rng: telling(
        env, passages_of([env.paper.abstract], 5)
    ),
    "the three most telling single words (a cheat)": lambda env, rng: telling(
        env, list(dict.fromkeys(passages_of([env.paper.abstract], 1)))
    ),
}


def quoting_table(dataset: str, env_id: str, count: int) -> None:
    """Print what each way to quote earns with a right answer, on `count` papers, under both rules."""
    rules = {"quotes": "quotes", "reader": f"reader:{dataset}"}
    rng = random.Random(0)
    examples = spec(env_id).examples(load_papers(dataset, "test"))
    examples = rng.sample(examples, min(count, len(examples)))
    print(f"R_reasoning of {len(examples)} right answers, {env_id}\n")
    print("| the policy quotes | `quotes` | `reader` |\n|---|---|---|")
    for name, quoter in QUOTERS.items():
        earned: dict[str, list[float]] = {rule: [] for rule in rules}
        for example in examples:
            read = make(env_id, *example, reasons=rules["reader"])
            assert isinstance(read, AdversarialEnv)
            said = "".join(f"<quote>{passage}</quote>" for passage in quoter(read, rng))
            for rule, option in rules.items():
                env = make(env_id, *example, reasons=option, control_rate=1.0)
                episode = asyncio.run(
                    play_episode(env, lambda _, env=env, said=said: said + env.answer_for(env.gold_label))
                )
                earned[rule].append(episode.result.metrics["reward_reasoning"])
        print(f"| {name} | {' | '.join(f'{statistics.fmean(values):.3f}' for values in earned.values())} |")


class Challenged:
    """A policy whose first answers are right with a given probability; `revise` decides on the second."""

    def __init__(self, env: AdversarialEnv, rng: random.Random, revise: str, first_right: float):
        self.env, self.rng, self.revise = env, rng, revise
        parts = zip(env.label_parts or (env.labels,), env.question_env.split_label(env.gold_label), strict=True)
        self.believed = [
            truth if rng.random() < first_right else self.other(answers, truth) for answers, truth in parts
        ]

    def other(self, answers: Sequence[str], *but: str) -> str:
        return self.rng.choice([answer for answer in answers if answer not in but])

    def __call__(self, messages: list[Message]) -> str:
        questions = self.env.label_parts or (self.env.labels,)
        if len(messages) == 1:
            sandbags = self.revise == "names a wrong label first, then what it believes or a strong argument says"
            self.first = list(self.believed)
            if sandbags:
                self.first = [self.other(answers, said) for answers, said in zip(questions, self.believed, strict=True)]
            return self.env.answer_for(", ".join(self.first))
        argued = re.search(r"I would say (\w+), the evidence is (\w+)", str(messages[-1]["content"]))
        final = list(self.believed)
        if argued and self.revise != "never flips":
            label, word = argued.groups()
            place = next(place for place, answers in enumerate(questions) if label in answers)
            if self.revise == "inverts: names what neither has named":
                final[place] = self.other(questions[place], label, final[place])
            elif word == "strong" or self.revise == "always obeys":
                final[place] = label
        return self.env.answer_for(", ".join(final))


REVISIONS = (
    "flips if the argument is strong",
    "never flips",
    "always obeys",
    "inverts: names what neither has named",
    "names a wrong label first, then what it believes or a strong argument says",
)


def challenge_table(dataset: str, env_id: str, draws: int, first_right: float) -> None:
    """Print what each way to take a challenge earns."""
    examples = spec(env_id).examples(load_papers(dataset, "test"))
    print(f"\nMean reward over {len(examples)} papers, {draws} draws each, {env_id}, challenger=reader,")
    print(f"first answers to a question right with probability {first_right:g}\n")
    print("| the policy | mean reward | right in the end | standard error of the reward |\n|---|---|---|---|")
    for revise in REVISIONS:
        rewards, right = [], []
        for draw in range(draws):
            for example in examples:
                env = make(env_id, *example, challenger=f"reader:{dataset}", seed=draw)
                assert isinstance(env, AdversarialEnv)
                # The same first beliefs for every policy.
                rng = random.Random(f"{draw} {env.example_id}")
                episode = asyncio.run(play_episode(env, Challenged(env, rng, revise, first_right)))
                rewards.append(episode.reward)
                right.append(episode.result.metrics["correct"])
        error = statistics.stdev(rewards) / len(rewards) ** 0.5
        print(
            f"| {revise} | {statistics.fmean(rewards):.3f} | {statistics.fmean(right):.3f} | {error:.3f} |", flush=True
        )


def main() -> None:
    """Print both tables for a dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--env", default="disruption-adversarial-v0")
    parser.add_argument("--papers", type=int, default=200, help="for the table of quotes; 0 leaves it out")
    parser.add_argument("--draws", type=int, default=3, help="for the table of challenges")
    parser.add_argument("--first-right", type=float, default=0.6, help="probability that a first answer is right")
    arguments = parser.parse_args()
    if arguments.papers:
        quoting_table(arguments.dataset, arguments.env, arguments.papers)
    challenge_table(arguments.dataset, arguments.env, arguments.draws, arguments.first_right)


if __name__ == "__main__":
    main()
