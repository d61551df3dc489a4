"""The kernel of the CD index beside a plain C version of it, on the same graph, one thread each, in turn.

    python benchmarks/plain_c.py 200k 1m    # sizes of benchmarks/labels.py; needs a C compiler

CPU seconds to count n_i, n_j and n_k within 5 years, graph building left out, medians and their ratio. The counts are
compared and have to be equal.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from labels import SIZES
from random_graph import random_graph

from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.graph import CitationGraph

WINDOW = 5


def compiled(folder: Path) -> ctypes.CDLL:
    """The C version, compiled for this machine."""
    library = folder / "plain_cd.so"
    source = Path(__file__).with_name("plain_cd.c")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


def plain_counts(library: ctypes.CDLL, graph: CitationGraph) -> np.ndarray:
    """n_i, n_j and n_k, int64 (3, N), of a graph whose papers are numbered by year."""
    years = np.ascontiguousarray(graph.years)
    every_year = np.arange(years[0], years[-1] + 1)
    starts = np.append(np.searchsorted(years, every_year), years.size).astype(np.int64)
    n, stamp = np.zeros((3, years.size), np.int64), np.zeros(years.size, np.int32)
    arrays = (starts, graph.ref_indptr, graph.ref_indices, graph.cit_indptr, graph.cit_indices)

    def pointer(array: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    def number(value: int) -> ctypes.c_int64:
        return ctypes.c_int64(int(value))

    library.count(
        number(years.size), pointer(years), number(years[0]), number(WINDOW), pointer(starts), number(starts.size - 1),
        *map(pointer, arrays[1:]), pointer(stamp), *map(pointer, n),
    )  # fmt: skip
    return n


def compare(size: str, rounds: int = 7) -> None:
    """Print the medians of one size."""
    graph = CitationGraph.from_edges(*random_graph(*SIZES[size], 0))
    if np.any(np.diff(graph.years) < 0):
        raise SystemExit("the papers of this graph are not numbered by year")
    seconds: dict[str, list[float]] = {"plain C": [], "scisci-gym": []}
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for at in range(rounds + 1):
            begin = time.process_time()
            theirs = plain_counts(library, graph)
            middle = time.process_time()
            ours = np.stack(disruption_counts(graph, WINDOW, threads=1))
            end = time.process_time()
            if not np.array_equal(theirs, ours):
                raise SystemExit("the two versions count differently")
            # The first round compiles, or loads, the kernel.
            if at:
                seconds["plain C"].append(middle - begin)
                seconds["scisci-gym"].append(end - middle)
    per_citation = {name: statistics.median(found) / graph.n_citations * 1e9 for name, found in seconds.items()}
    ratios = [ours / theirs for theirs, ours in zip(*seconds.values(), strict=True)]
    spread = f"median of {rounds}, {min(ratios):.2f}-{max(ratios):.2f}, load {os.getloadavg()[0]:.1f}"
    cells = ", ".join(f"{name} {value:.0f} ns" for name, value in per_citation.items())
    print(f"{size}: CPU time a citation: {cells}; ratio {statistics.median(ratios):.2f} ({spread})", flush=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ["200k"]:
        compare(wanted)
