"""Is the package as fast as before? Labels, ingestion, environments and engine of two revisions, in one paired run.

    python benchmarks/paired.py v0.1 HEAD                      # two revisions of this repository
    python benchmarks/paired.py ../other-checkout . --rounds 25
    python benchmarks/paired.py main . --only labels engine --works ../data/works

Each task runs in a process of its own for each side. After a round that is not counted the two take turns, part by
part, and who is first changes from round to round. A part that only one side has, such as a new environment, is left
out; a revision that lacks something that a task needs is named in its row.

CPU seconds of all threads are compared, which other work on the machine disturbs least. The ratio is that of the second
side to the first, within a round: its median, and the order statistics of the rounds that enclose the median with a
confidence of at least 95 % (for six rounds or more; David & Nagaraja 2003, "Order Statistics", section 7.1).

The exit status is 1 if a task is certainly slower: its whole interval lies above 1 + ``--tolerance``.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
Round = Callable[[], object]


def labels(stack: contextlib.ExitStack, works: Path, papers: int) -> dict[str, Round]:
    """The CD index, graph building included, and the atypicality of a tenth of the papers from 10 null networks."""
    from random_graph import random_graph, random_venues

    from scisci_gym.datasets import disruption, novelty
    from scisci_gym.datasets.graph import CitationGraph

    edges = random_graph(papers, 15 * papers)
    citing, cited, years = random_graph(papers // 10, 15 * papers // 10)
    graph, venues = CitationGraph.from_edges(citing, cited, years), random_venues(citing, cited, years.size)
    return {
        "cd_index": lambda: disruption.cd_index(CitationGraph.from_edges(*edges)),
        "atypicality": lambda: novelty.atypicality(graph, venues, samples=10),
    }


def ingestion(stack: contextlib.ExitStack, works: Path, papers: int) -> dict[str, Round]:
    """Reading a snapshot and writing it as parquet."""
    from scisci_gym.datasets.openalex.shards import convert
    from scisci_gym.datasets.openalex.snapshot import parts_of

    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))

    def read() -> None:
        # A new folder each time: shards that are there are not written again.
        convert(parts_of(works), Path(tempfile.mkdtemp(dir=scratch)) / "shards", workers=1, progress=False)

    return {"ingestion": read}


def environments(stack: contextlib.ExitStack, works: Path, papers: int) -> dict[str, Round]:
    """300 episodes of each environment, with right answers."""
    import asyncio

    from scisci_gym import make, specs
    from scisci_gym.envs.kit.samples import sample_papers

    def episodes(env_class: Any) -> Round:
        examples = env_class.examples(sample_papers())

        async def play() -> None:
            for turn in range(300):
                env = make(env_class.env_id, *examples[turn % len(examples)])
                await env.initial_observation()
                message: Any = {"role": "assistant", "content": env.gold_answer()}
                while not (await env.step(message)).episode_done:
                    pass

        return lambda: asyncio.run(play())

    return {env_class.env_id: episodes(env_class) for env_class in specs()}


def engine(stack: contextlib.ExitStack, works: Path, papers: int) -> dict[str, Round]:
    """A step of RL on the local engine: 32 rollouts of 16 tokens over prompts of 100, and training on them."""
    from engine import Contender, make_model
    from scisci_gym.engine import local_engine

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    make_model(folder / "model")
    # In this process, so that its CPU seconds count.
    served = stack.enter_context(local_engine(checkpoints=folder / "checkpoints", process=False, threads=1))
    contender = Contender(served.url, served.api_key, str(folder / "model"))
    args = argparse.Namespace(prompt=100, groups=8, group=4, max_tokens=16)
    return {"engine": lambda: contender.round(args, random.Random(1))}


TASKS = {"labels": labels, "ingestion": ingestion, "environments": environments, "engine": engine}


def serve(task: str, works: Path, papers: int) -> None:
    """In a process of its own: print the names of the parts of a task; then, for every name on the standard input, run
    that part and print its CPU seconds."""
    answers = os.dup(1)
    os.dup2(2, 1)  # What the package prints is no answer.
    with contextlib.ExitStack() as stack, os.fdopen(answers, "w", buffering=1) as out:
        import scisci_gym

        # Where a checkout lacks the package, Python looks further, or takes the folder for one without code.
        wanted, found = Path(os.environ["PYTHONPATH"], "scisci_gym").resolve(), scisci_gym.__file__
        if found is None or Path(found).resolve().parent != wanted:
            raise ImportError("it has no package scisci_gym")
        parts = TASKS[task](stack, works, papers)
        print(*parts, file=out)
        for name in map(str.strip, sys.stdin):
            begin = time.process_time()
            parts[name]()
            print(time.process_time() - begin, file=out)


class Side:
    """A revision with a process for one task."""

    def __init__(self, package: Path, task: str, options: argparse.Namespace, stack: contextlib.ExitStack):
        environment = os.environ | {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
        self._errors = stack.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115
        command = [sys.executable, str(HERE), "--serve", task, str(options.works), str(options.papers)]
        self._child = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        stack.callback(self._end)

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()

    def answer(self) -> str:
        """Its next line; raises `RuntimeError` with the last line of its errors if it has ended."""
        assert self._child.stdout is not None
        if line := self._child.stdout.readline().strip():
            return line
        self._child.wait()  # It writes its error after it has closed its output.
        self._errors.seek(0)
        raise RuntimeError((self._errors.read().strip().splitlines() or ["it ended without an answer"])[-1])

    def seconds(self, part: str) -> float:
        """CPU seconds of one round of a part."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{part}\n")
        self._child.stdin.flush()
        return float(self.answer())


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Order statistics that enclose the median of the distribution with at least this confidence.

    The interval from the k-th smallest to the k-th largest of n values has the confidence 1 - 2 P(B < k) for B binomial
    with n trials of probability 1/2; the largest such k is taken. Fewer than six values do not reach 0.95: then it is
    the whole range.

    Examples
    --------
    >>> median_interval([3, 1, 2, 5, 4, 9, 7, 8, 6])
    (2, 8)
    >>> median_interval([2, 1, 3])
    (1, 3)
    """
    ordered, n = sorted(values), len(values)
    below, k = 0.0, 0
    while (below := below + math.comb(n, k) / 2**n) <= (1 - level) / 2:
        k += 1
    k = max(k, 1)
    return ordered[k - 1], ordered[n - k]


@contextlib.contextmanager
def package_of(side: str) -> Iterator[Path]:
    """A folder with the package `scisci_gym` of a checkout or a git revision, to be put on the path of Python."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        package = Path(folder) / "scisci_gym"
        if (Path(side) / "datasets").is_dir():
            package.symlink_to(Path(side).resolve())
        else:
            git = ["git", "-C", str(ROOT), "worktree"]
            done = subprocess.run([*git, "add", "--detach", str(package), side], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{side} is neither a checkout nor a revision: {done.stderr.strip()}")
            stack.callback(subprocess.run, [*git, "remove", "--force", str(package)], check=True)
        yield Path(folder)


def paired(
    names: Sequence[str], packages: Sequence[Path], task: str, options: argparse.Namespace
) -> Iterator[tuple[str, list[list[float]]]]:
    """The parts of a task that both sides have, with the CPU seconds of each side round by round; raises `RuntimeError`
    if a side cannot run the task."""
    with contextlib.ExitStack() as stack:
        sides, parts = [Side(package, task, options, stack) for package in packages], []
        for name, side in zip(names, sides, strict=True):
            try:
                parts.append(side.answer().split())
            except RuntimeError as error:
                raise RuntimeError(f"cannot run at {name}: {error}") from None
        for part in (part for part in parts[0] if part in parts[1]):
            seconds: list[list[float]] = [[], []]
            for turn in range(-1, options.rounds):
                for index in (0, 1) if turn % 2 == 0 else (1, 0):
                    spent = sides[index].seconds(part)
                    if turn >= 0:  # The first round warms up.
                        seconds[index].append(spent)
            yield part, seconds


def write_works(folder: Path) -> Path:
    """A made-up snapshot folder."""
    from scisci_gym.datasets.labels.eligibility import LabelRules
    from scisci_gym.datasets.synthetic.corpus import SyntheticCorpus, write_synthetic_works

    return write_synthetic_works(folder, SyntheticCorpus(papers=20_000, seed=0), LabelRules())


def main() -> None:
    """Compare two sides task by task."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a checkout, or a revision of this repository")
    parser.add_argument("after")
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--papers", type=int, default=100_000, help="size of the graph of the labels")
    parser.add_argument("--works", type=Path, help="a snapshot folder to read; default: a made-up one")
    parser.add_argument("--tolerance", type=float, default=0.05)
    options = parser.parse_args()
    names, slower = (options.before, options.after), []
    with contextlib.ExitStack() as stack:
        packages = [stack.enter_context(package_of(name)) for name in names]
        if options.works is None and "ingestion" in options.only:
            options.works = write_works(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        print(f"| task | {names[0]}: CPU s | {names[1]}: CPU s | ratio | 95 % interval |\n|---|---|---|---|---|")
        for task in options.only:
            try:
                for part, seconds in paired(names, packages, task, options):
                    ratios = [after / before for before, after in zip(*seconds, strict=True)]
                    low, high = median_interval(ratios)
                    before, after, ratio = map(statistics.median, (*seconds, ratios))
                    print(
                        f"| {part} | {before:.3f} | {after:.3f} | {ratio:.3f} | {low:.3f} to {high:.3f} |", flush=True
                    )
                    slower += [part] if low > 1 + options.tolerance else []
            except RuntimeError as error:
                print(f"| {task} | {error} | | | |", flush=True)
    print(f"{options.rounds} rounds, load {os.getloadavg()[0]:.0f}")
    if slower:
        sys.exit(f"slower by more than {options.tolerance:.0%}: {', '.join(slower)}")


if __name__ == "__main__":
    main()
