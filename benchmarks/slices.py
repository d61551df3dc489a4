"""Labels of a saved graph that need not fit into memory: time and memory for works and citations.

    python benchmarks/slices.py --size 1m --memory 60MB 200MB
    python benchmarks/slices.py --size 1m --memory 200MB --samples 10  # atypicality, too

The graph is made and saved in one process, and each measurement runs in another, on the mapped files, after the same
code has run on a small graph. Memory is what the process itself holds (Linux: RssAnon) beyond what it held before;
pages of the mapped files, which the system drops when it needs the room, are not in it. The results in each memory are
compared with those without a limit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from labels import SIZES, Peak, child
from random_graph import random_graph, random_venues


def anonymous() -> int:
    """Bytes of memory that are this process's own, without pages of mapped files (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def make(size: str, folder: Path) -> None:
    """In its own process: save a graph and its venues."""
    from scisci_gym.datasets.graph import CitationGraph

    for name, shape in (("small", (2000, 30_000)), ("graph", SIZES[size])):
        citing, cited, years = random_graph(*shape)
        np.save(folder / f"{name}-venues.npy", random_venues(citing, cited, years.size))
        CitationGraph.from_edges(citing, cited, years).save(folder / name)
    graph = CitationGraph.load(folder / "graph")
    print(json.dumps({"papers": graph.n_papers, "citations": graph.n_citations}))


def measure(what: str, memory: int | None, samples: int, folder: Path) -> None:
    """In its own process: time one measure in a memory, and print a digest of what came out."""
    from scisci_gym.datasets.disruption import disruption_counts
    from scisci_gym.datasets.disruption.year_ranks import YearRanks
    from scisci_gym.datasets.graph import CitationGraph
    from scisci_gym.datasets.novelty import atypicality

    for name in ("small", "graph"):
        graph = CitationGraph.load(folder / name)
        room = None if memory is None else max(memory, 100_000_000 if name == "small" else 0)
        venues = np.load(folder / f"{name}-venues.npy")
        before, wall, cpu = anonymous(), time.perf_counter(), time.process_time()
        with Peak(anonymous) as peak:
            if what == "cd":
                result = disruption_counts(graph, memory=room)
            else:
                result = atypicality(graph, venues, samples=samples, memory=room)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    slices = 1 if memory is None or what != "cd" else len(YearRanks(graph, None).parts(memory))
    report = {"wall": wall, "cpu": cpu, "peak": peak.bytes - before, "slices": slices}
    digest = hashlib.sha256(b"".join(part.tobytes() for part in result)).hexdigest()
    print(json.dumps({**report, "digest": digest}))


def main() -> None:
    """Measure in this process if called as a child, or else make a graph and compare."""
    if sys.argv[1:2] == ["--child"]:
        kind, *rest = sys.argv[2:]
        if kind == "make":
            make(rest[0], Path(rest[1]))
        else:
            measure(kind, int(rest[0]) or None, int(rest[1]), Path(rest[2]))
        return
    from scisci_gym.datasets.byte_size import byte_size

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), default="200k")
    parser.add_argument("--memory", nargs="+", default=["100MB"], help="memories to measure beside no limit")
    parser.add_argument("--samples", type=int, default=0, help="null networks; 0: no atypicality")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds a measurement may take")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        made = child(["--child", "make", options.size, folder], options.limit, __file__)
        if isinstance(made, str):
            raise SystemExit(made)
        print(f"\n{made['papers']:,} papers, {made['citations']:,} citations, load {os.getloadavg()[0]:.1f}\n")
        print("| measure | memory | slices | wall s | CPU s | CPU ns a citation | peak MB | bytes a paper | same |")
        print("|---|---|---|---|---|---|---|---|---|")
        for what in ["cd", "z"] if options.samples else ["cd"]:
            digests = []
            for memory in [None, *options.memory]:
                size = "0" if memory is None else str(byte_size(memory))
                report = child(["--child", what, size, str(options.samples), folder], options.limit, __file__)
                if isinstance(report, str):
                    print(f"| {what} | {memory or 'no limit'} | {report} | | | | | | |", flush=True)
                    continue
                digests.append(report["digest"])
                rates = f"{report['cpu'] / made['citations'] * 1e9:.0f} | {report['peak'] / 1e6:.0f}"
                cells = f"{report['slices']} | {report['wall']:.1f} | {report['cpu']:.1f} | {rates}"
                per_paper = f"{report['peak'] / made['papers']:.0f} | {'yes' if len(set(digests)) == 1 else 'NO'}"
                print(f"| {what} | {memory or 'no limit'} | {cells} | {per_paper} |", flush=True)


if __name__ == "__main__":
    main()
