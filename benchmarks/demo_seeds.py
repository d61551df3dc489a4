"""The demo on several seeds: does RL reach the known ceiling every time, or was it one lucky seed?

    python benchmarks/demo_seeds.py 201 202 203 --out runs/seeds

Every seed makes its own corpus, model and run. Prints a Markdown table; a seed that is done is not run again.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from rich.console import Console

from scisci_gym.recipes.experiments.demo import Demo, DemoResult, DemoSettings


def row(seed: int, result: DemoResult) -> tuple[str, float]:
    """A line of the table, and RL's share of the ceiling."""
    start, supervised, learned = (policy.greedy.macro_f1 for policy in result.policies)
    linear = result.baselines["TF-IDF + logistic"].macro_f1
    best = result.card["ceiling"]["test"]["macro_f1"]
    minutes = sum(result.seconds.values()) / 60
    cells = (start, learned, supervised, linear)
    scores = " | ".join(f"{score.value:.3f}" for score in cells)
    return f"| {seed} | {scores} | {best:.3f} | {learned.value / best:.1%} | {minutes:.1f} |", learned.value / best


def main() -> None:
    """Run the demo with each seed, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("runs/seeds"))
    arguments = parser.parse_args()
    lines, shares = [], []
    for seed in arguments.seeds:
        console = Console(stderr=True, highlight=False)
        console.print(f"seed {seed}")
        result = Demo(arguments.out / str(seed), DemoSettings(seed=seed), console, engine="local").run()
        line, share = row(seed, result)
        lines.append(line)
        shares.append(share)
    print("| seed | start | RL | SFT on the labels | TF-IDF + logistic | best reachable | RL / best | minutes |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    print(f"\nMacro-F1 on the test split. RL / best: lowest {min(shares):.1%}, median {statistics.median(shares):.1%}.")


if __name__ == "__main__":
    main()
