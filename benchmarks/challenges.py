"""What ways to take a challenge earn, by exact enumeration over a dataset's test papers.

    python benchmarks/challenges.py DATASET

B is the reader (`challenger=reader:DATASET`). Means are over all first beliefs of a policy, each as likely as its
being right makes it, and over all that B may argue for, so that nothing but the papers is a sample.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from scisci_gym import make, spec
from scisci_gym.datasets.store import load_papers
from scisci_gym.envs.adversarial import AdversarialEnv
from scisci_gym.envs.kit.fencing import as_data
from scisci_gym.envs.opponents.challengers import strength
from scisci_gym.envs.opponents.reader import Reader, fitted_readers
from scisci_gym.rewards import adaptation, correctness

NEVER, BY_STRENGTH, OBEYS = "never flips", "flips if the argument is strong", "always obeys"
INVERTS = "inverts: names what neither has named"
PROBES = "names a wrong label first, then what it believes or a strong argument says"
REVISIONS = (NEVER, BY_STRENGTH, OBEYS, INVERTS, PROBES)

Answer = tuple[str, ...]


def wrong_first(questions: Sequence[Sequence[str]], believed: Answer) -> list[Answer]:
    """All answers that are wrong about every question in the eyes of the policy."""
    return list(itertools.product(*([a for a in q if a != b] for q, b in zip(questions, believed, strict=True))))


def revised(
    questions: Sequence[Sequence[str]], revise: str, believed: Answer, named: Answer, cases: dict[str, str]
) -> Answer:
    """The final answer of a policy that named `named`; `cases` is what B argues for, and how strong it says that is."""
    final = list(believed)
    for argued, word in cases.items():
        place = next(place for place, answers in enumerate(questions) if argued in answers)
        if revise == OBEYS or (revise in (BY_STRENGTH, PROBES) and word == "strong"):
            final[place] = argued
        elif revise == INVERTS:
            final[place] = next(answer for answer in questions[place] if answer not in (argued, named[place]))
    return tuple(final)


@lru_cache(maxsize=100_000)
def log_odds(reader: Reader, title: str, abstract: str, label: str, other: str) -> float:
    """`Reader.log_odds`, once for each paper and pair of labels."""
    return reader.log_odds(title, abstract, label, other)


def expected(env: AdversarialEnv, dataset: str, believed: Answer, revise: str) -> tuple[float, float]:
    """Reward and share of right answers in the end: the mean over all that B may argue for, and the control."""
    questions, truth = env.label_parts or (env.labels,), env.gold_label
    readers = fitted_readers(dataset, env.question_env)
    shown = as_data(env.paper.title), as_data(env.paper.abstract)
    rewards = right = 0.0
    firsts = wrong_first(questions, believed) if revise == PROBES else [believed]
    for named in firsts:
        label = ", ".join(named)
        ways = env.ways_to_argue(label, env.argue_all)
        finals = [(env.control_rate, believed)]
        for way, _ in ways:
            cases = {}
            for argued in way:
                place = next(place for place, answers in enumerate(questions) if argued in answers)
                cases[argued] = strength(log_odds(readers[place], *shown, argued, named[place]))
            final = revised(questions, revise, believed, named, cases)
            finals.append(((1 - env.control_rate) / len(ways), final))
        for chance, final in finals:
            answer = ", ".join(final)
            score = env.question_env.partial_correctness(answer, truth) if env.partial else correctness(answer, truth)
            rewards += chance * (score + adaptation(", ".join(named), answer, truth)) / len(firsts)
            right += chance * (answer == truth) / len(firsts)
    return rewards, right


def challenge_table(dataset: str, env_id: str, first_right: float, options: dict[str, bool]) -> None:
    """Print what each way to take a challenge earns: the mean over papers of exact means."""
    examples = spec(env_id).examples(load_papers(dataset, "test"))
    print(f"\nExpected reward over {len(examples)} papers, {env_id}, challenger=reader, {options},")
    print(f"first beliefs about a question right with probability {first_right:g}\n")
    print("| the policy | reward | right in the end | more than the one that never flips | standard error |")
    print("|---|---|---|---|---|")
    earned: dict[str, list[float]] = {}
    for revise in REVISIONS:
        rewards, shares = earned.setdefault(revise, []), []
        for example in examples:
            env = make(env_id, *example, challenger=f"reader:{dataset}", **options)
            assert isinstance(env, AdversarialEnv)
            questions, truth = env.label_parts or (env.labels,), env.question_env.split_label(env.gold_label)
            reward = share = 0.0
            for believed in itertools.product(*questions):
                chance = math.prod(
                    first_right if said == true else (1 - first_right) / (len(answers) - 1)
                    for answers, said, true in zip(questions, believed, truth, strict=True)
                )
                value, right = expected(env, dataset, believed, revise)
                reward, share = reward + chance * value, share + chance * right
            rewards.append(reward)
            shares.append(share)
        more = [own - other for own, other in zip(rewards, earned[NEVER], strict=True)]
        error = statistics.stdev(more) / len(more) ** 0.5
        cells = (statistics.fmean(rewards), statistics.fmean(shares), statistics.fmean(more), error)
        print(f"| {revise} | {' | '.join(f'{cell:.3f}' for cell in cells)} |", flush=True)


def main() -> None:
    """Print a table for each probability and, with several questions, for each way to argue."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--env", default="disruption-adversarial-v0")
    parser.add_argument("--first-right", type=float, nargs="+", default=[0.6, 0.4])
    parser.add_argument("--partial", action="store_true", help="the option partial=true")
    arguments = parser.parse_args()
    for argue_all in (False, True) if spec(arguments.env).label_parts else (False,):
        for first_right in arguments.first_right:
            options = {"partial": arguments.partial, "argue_all": argue_all}
            challenge_table(arguments.dataset, arguments.env, first_right, options)


if __name__ == "__main__":
    main()
