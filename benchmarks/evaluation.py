"""Seconds from stored answers to scores: reading, every metric with its interval, scores by year, a comparison.

    python benchmarks/evaluation.py [--answers 2000]

Made-up papers, answers of a forecaster that is right more often than not, kept as the cookbook's runner keeps them.
Nothing is asked of a model. The answers are read twice, for two policies that are then compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from scisci_gym import Paper
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.integrations.cookbook_benchmarks import SciSciBenchmark
from scisci_gym.envs.kit.answers import format_probabilities
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.registry import spec
from scisci_gym.evaluation.ask import ask
from scisci_gym.evaluation.leaderboard import board, entry

ENV = "disruption-forecast-v0"
Result = TypeVar("Result")


class NoRenderer:
    """Nothing is rendered: all answers are there."""

    tokenizer = None

    def get_stop_sequences(self) -> list[str]:
        return []


def papers(n: int) -> list[Paper]:
    """The sample papers again and again, over twenty years."""
    made = sample_papers()
    return [
        replace(made[at % len(made)], openalex_id=f"W{at}", publication_year=1990 + at * 20 // n) for at in range(n)
    ]


def store(folder: Path, benchmark: SciSciBenchmark, skill: float, seed: int) -> None:
    """Write answers whose probabilities lean towards the truth by `skill`."""
    rng, labels = np.random.default_rng(seed), spec(ENV).labels
    path = folder / benchmark.name / "trajectories.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for at, env in enumerate(benchmark.episodes()):
            shares = rng.dirichlet(np.ones(len(labels)) + skill * (np.array(labels) == env.gold_label))
            text = format_probabilities(shares.tolist(), labels)
            grade: Any = env.grade(text)  # type: ignore[attr-defined]
            turn = {"role": "assistant", "content": text, "token_count": 40, "metadata": {}}
            row = {
                "idx": at,
                "benchmark": benchmark.name,
                "example_id": env.example_id,
                "turns": [turn],
                "reward": float(grade.correct),
                "metrics": {"correct": float(grade.correct), "env_reward": grade.reward.total},
                "logs": {"predicted": grade.predicted, "expected": env.gold_label, **grade.details},
                "error": None,
                "time_seconds": 0.0,
            }
            file.write(json.dumps(row) + "\n")


def timed(what: str, work: Callable[[], Result]) -> Result:
    """The result of ``work()``; its wall and CPU seconds are printed."""
    started, busy = time.perf_counter(), time.process_time()
    result = work()
    print(f"{what}: {time.perf_counter() - started:.2f} s, {time.process_time() - busy:.2f} s of CPU")
    return result


def main() -> None:
    """Time reading, scoring and comparing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000)
    n = parser.parse_args().answers
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        save_dataset(data, {"train": papers(n), "validation": [], "test": papers(n)})
        benchmark = SciSciBenchmark(ENV, "stored", str(data))
        for name, skill in (("one", 1.0), ("other", 0.5)):
            store(Path(scratch) / name, benchmark, skill, seed=len(name))

        def read(name: str) -> list:
            nobody: Any = None
            renderer: Any = NoRenderer()
            asking = ask(benchmark, nobody, renderer, max_tokens=1, temperature=0.0, save_dir=Path(scratch) / name)
            return asyncio.run(asking)

        started, busy = time.perf_counter(), time.process_time()
        answers = {
            name: timed(f"read {n:,} answers ({name})", lambda name=name: read(name)) for name in ("one", "other")
        }
        prior = np.full(3, 1 / 3)
        entries = [
            timed(f"scores ({name})", lambda name=name, kind=kind: entry(name, kind, answers[name], ENV, prior))
            for name, kind in (("other", "baseline"), ("one", "run"))
        ]
        made = timed("comparison", lambda: board(ENV, prior, entries))
        print(f"all: {time.perf_counter() - started:.2f} s, {time.process_time() - busy:.2f} s of CPU")
        print(f"Brier skill {made.entries[1].outcome.main_score} against {made.entries[0].outcome.main_score}")


if __name__ == "__main__":
    main()
