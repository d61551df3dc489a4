"""Message-level episodes a second, side by side with the cookbook's own forecasting environment in one run.

    python benchmarks/envs.py [--seconds 1] [--rounds 5]

An episode is what a rollout does with a message environment: make it, ask for the first observation, answer until it
ends. One core, no model, no tokens. Time is CPU time, the rounds of all environments are interleaved, and the median is
taken, so that a busy machine changes little; what to look at is the ratio. After that: how long grading 5 MB takes.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from tinker_cookbook.recipes.forecasting.data import ForecastExample
from tinker_cookbook.recipes.forecasting.env import ForecastEnv
from tinker_cookbook.renderers import Message
from tinker_cookbook.rl.message_env import MessageEnv

from scisci_gym import make, spec, specs
from scisci_gym.envs.kit.samples import sample_papers

COOKBOOK = "cookbook recipes/forecasting"
# These two wait for another party under a time limit, which takes a task of its own.
WANTED = {"disruption-adversarial-v0": 0.05, "disruption-selfplay-v0": 0.05}
SINGLE_TURN = 0.5


def cookbook_env(abstract: str) -> Callable[[], MessageEnv]:
    """The cookbook's environment over as much text as ours have."""
    now = datetime(2025, 10, 20, tzinfo=UTC)
    example = ForecastExample("s1", "e1", "A made-up event", "YES", abstract, "It resolves.", now, now, "science", 1)
    return lambda: ForecastEnv(example)


def our_env(env_id: str) -> tuple[Callable[[], MessageEnv], str]:
    """A maker of episodes, and a right answer. Over all examples in turn, so that nothing is served from a cache."""
    examples = spec(env_id).examples(sample_papers())
    # Always argued with: the control is cheaper.
    options = {"control_rate": 0.0} if "control_rate" in spec(env_id).option_names() else {}
    turn = 0

    def one() -> MessageEnv:
        nonlocal turn
        turn += 1
        return make(env_id, *examples[turn % len(examples)], **options)

    return one, make(env_id, *examples[0], **options).gold_answer()


async def rate(one: Callable[[], MessageEnv], answer: str, seconds: float) -> float:
    """Episodes a second."""
    message = Message(role="assistant", content=answer)
    count, start = 0, time.process_time()
    while (passed := time.process_time() - start) < seconds:
        for _ in range(50):
            env = one()
            await env.initial_observation()
            while not (await env.step(message)).episode_done:
                pass
        count += 50
    return count / passed


def slowest_grading() -> tuple[float, str]:
    """CPU milliseconds of the slowest last step over 5 MB of text, of any environment, and which one and text it is."""
    slowest = (0.0, "")
    for env_class in specs():
        example = env_class.examples(sample_papers())[0]
        for piece in ("a", " ", "<", "<answer>", "<quote>a", "<quote>a b c d e</quote>", "0."):
            text = piece * (5_000_000 // len(piece))
            for whole in (text, f"{text}{env_class.answer_for(env_class.labels[0])}"):
                env = make(env_class.env_id, *example)
                asyncio.run(env.initial_observation())
                start = time.process_time()
                asyncio.run(env.step(Message(role="assistant", content=whole)))
                slowest = max(slowest, (1000 * (time.process_time() - start), f"{env_class.env_id}, {piece!r}"))
    return slowest


def main() -> None:
    """Print a row for each environment; the exit status is 1 if one is slower than wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    subjects = {COOKBOOK: (cookbook_env(sample_papers()[0].abstract), "0.5")}
    subjects |= {env_class.env_id: our_env(env_class.env_id) for env_class in specs()}
    measured: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(arguments.rounds):
        for name, (one, answer) in subjects.items():
            measured[name].append(asyncio.run(rate(one, answer, arguments.seconds)))
    print(f"{'environment':<30}{'episodes/s':>12}{'ratio':>8}{'wanted':>8}")
    slow = []
    for name, rates in measured.items():
        ratio = statistics.median(rates) / statistics.median(measured[COOKBOOK])
        wanted = 1.0 if name == COOKBOOK else WANTED.get(name, SINGLE_TURN)
        slow += [name] if ratio < wanted else []
        print(f"{name:<30}{statistics.median(rates):>12,.0f}{ratio:>8.2f}{wanted:>8.2f}")
    milliseconds, what = slowest_grading()
    print(f"grading 5 MB of text: at most {milliseconds:.0f} ms ({what}); wanted: 100 ms")
    slow += ["grading 5 MB"] if milliseconds > 100 else []
    if slow:
        sys.exit(f"slower than wanted: {', '.join(slow)}")


if __name__ == "__main__":
    main()
