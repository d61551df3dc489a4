"""Time and memory of the labels, and of every peer that is installed. Installs nothing.

    python benchmarks/labels.py                        # CD_5: 200k papers, all peers
    python benchmarks/labels.py --size 1m --limit 900  # 1M papers / 15.6M citations
    python benchmarks/labels.py --size 10m --peers scisci-gym
    python benchmarks/labels.py --measure atypicality  # both nulls, 10 samples
    python benchmarks/labels.py --agreement            # both nulls, the package's default samples, two seeds

Every measurement runs in its own process, warm (the code has run on a small graph before), graph building included.
CPU seconds count all threads; on a busy machine they say more than wall seconds. Memory is the peak above the process
before the edges were made, so it includes the edges themselves.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from label_peers import PEERS
from random_graph import random_graph, random_venues

SIZES = {"20k": (20_000, 310_000), "200k": (200_000, 3_100_000), "1m": (1_000_000, 15_600_000)}
SIZES["10m"] = (10_000_000, 150_000_000)
DISTRIBUTIONS = {"scisci-gym": "scisci-gym", "fast-cdindex": "fast-cdindex"}
NULLS = ["shuffle", "switch", "pyscisci"]
REPEAT_SECONDS, MOST_REPEATS = 20.0, 5


def resident() -> int:
    """Bytes of memory that this process holds (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Peak(threading.Thread):
    """The most that `measured`, a number of bytes, comes to while the block runs."""

    def __init__(self, measured: Callable[[], int] = resident) -> None:
        super().__init__()
        self.measured = measured

    def __enter__(self) -> Peak:
        self.bytes, self._stop_asked = self.measured(), threading.Event()
        self.start()
        return self

    def run(self) -> None:
        while not self._stop_asked.wait(0.01):
            self.bytes = max(self.bytes, self.measured())

    def __exit__(self, *_: object) -> None:
        self._stop_asked.set()
        self.join()


def distinct(citing: np.ndarray, cited: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges without duplicates and self-citations: several peers refuse those."""
    key = np.unique(citing.astype(np.int64) << 32 | cited)
    citing, cited = (key >> 32).astype(np.int32), (key & 0xFFFFFFFF).astype(np.int32)
    return citing[citing != cited], cited[citing != cited]


def measure_cd(peer: str, size: str, seed: int, out: Path) -> None:
    """In its own process: time one peer, write its numbers to `out`."""
    work = PEERS[peer]
    small_citing, small_cited, small_years = random_graph(2000, 30_000, seed)
    work(*distinct(small_citing, small_cited), small_years)
    before = resident()
    citing, cited, years = random_graph(*SIZES[size], seed)
    if peer != "scisci-gym":  # ours takes the edges as they come
        citing, cited = distinct(citing, cited)
    wall, cpu = [], []
    with Peak() as peak:
        while not wall or (sum(wall) < REPEAT_SECONDS and len(wall) < MOST_REPEATS):
            started, cpu_started = time.perf_counter(), time.process_time()
            values = work(citing, cited, years)
            wall.append(time.perf_counter() - started)
            cpu.append(time.process_time() - cpu_started)
    np.save(out / f"{peer}.npy", values)
    report = {"wall": float(np.median(wall)), "best": min(wall), "cpu": float(np.median(cpu)), "runs": len(wall)}
    print(json.dumps({**report, "peak": peak.bytes - before}))


def measure_atypicality(peer: str, size: str, samples: int, seed: int, out: Path) -> None:
    """In its own process: time one null model (or pyscisci), write z10 and z_median."""
    citing, cited, years = random_graph(*SIZES[size], 0)
    citing, cited = distinct(citing, cited)
    venues = random_venues(citing, cited, years.size)
    small = random_graph(2000, 30_000, 0)
    before = resident()
    for data in ((*distinct(*small[:2]), small[2], random_venues(*small[:2], 2000)), (citing, cited, years, venues)):
        started, cpu_started = time.perf_counter(), time.process_time()
        with Peak() as peak:
            z10, z_median = _atypicality(peer, *data, samples, seed)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    np.save(out / f"{peer}-{samples}-{seed}.npy", np.stack((z10, z_median)))
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak.bytes - before}))


def _atypicality(peer, citing, cited, years, venues, samples, seed):
    if peer == "pyscisci":
        import pandas as pd
        from pyscisci.methods.novelty import novelty_conventionality

        papers = pd.DataFrame({"PublicationId": np.arange(years.size), "Year": years, "JournalId": venues})
        edges = pd.DataFrame({"CitingPublicationId": citing, "CitedPublicationId": cited})
        result = novelty_conventionality(papers, edges, n_samples=samples).set_index("PublicationId")
        return result.reindex(np.arange(years.size)).to_numpy(np.float64).T
    from scisci_gym.datasets.graph import CitationGraph
    from scisci_gym.datasets.novelty import atypicality

    graph = CitationGraph.from_edges(citing, cited, years)
    return atypicality(graph, venues, null=peer, samples=samples, seed=seed)[:2]


def child(arguments: list[str], limit: float, script: str = __file__) -> dict | str:
    """Run this file (or another) again for one measurement; its report, or why there is none."""
    command = [sys.executable, script, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"over {limit:.0f} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return "not installed" if "ModuleNotFoundError" in last else f"failed: {last}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def version(peer: str) -> str:
    """Version of a peer's distribution; "-" if it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(peer, peer))
    except importlib.metadata.PackageNotFoundError:
        return "-"


def compare_cd(size: str, peers: list[str], limit: float, seed: int) -> None:
    """Print time, memory and agreement of the CD index by each peer."""
    papers, citations = SIZES[size]
    print(f"\nCD_5 of {papers:,} papers, {citations:,} citations, seed {seed}\n")
    print("| package | version | wall s | CPU s | against ours (CPU) | peak MB | equal to cdindex |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        reports = {peer: child(["--child", "cd", peer, size, str(seed), folder], limit) for peer in peers}
        reference = "cdindex" if (out / "cdindex.npy").exists() else "scisci-gym"
        wanted = np.load(out / f"{reference}.npy") if (out / f"{reference}.npy").exists() else None
        ours = reports.get("scisci-gym")
        for peer, report in reports.items():
            if isinstance(report, str):
                print(f"| {peer} | {version(peer)} | {report} | | | | |")
                continue
            ratio = f"{report['cpu'] / ours['cpu']:.1f}" if isinstance(ours, dict) else ""
            equal = verdict(np.load(out / f"{peer}.npy"), wanted) if peer != reference else "(reference)"
            cells = f"{report['wall']:.2f} | {report['cpu']:.2f} | {ratio} | {report['peak'] / 1e6:.0f} | {equal}"
            print(f"| {peer} | {version(peer)} | {cells} |", flush=True)
        if isinstance(ours, dict):
            wall, cpu = (ours[key] / citations * 1e9 for key in ("wall", "cpu"))
            memory = (ours["peak"] - 64 * papers) / citations
            print(
                f"\nOurs: {wall:.0f} ns wall (best run {ours['best']:.2f} s) and {cpu:.0f} ns CPU a citation; ", end=""
            )
            print(f"peak memory 64 bytes a paper and {memory:.1f} a citation.")


def verdict(values: np.ndarray, wanted: np.ndarray | None) -> str:
    """Whether two CD indices agree on every paper, for the table; "" without a reference."""
    if wanted is None:
        return ""
    if np.array_equal(values, wanted, equal_nan=True):
        return "yes"
    same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
    return f"no: {same.mean():.1%} of papers"


def compare_atypicality(size: str, runs: list[tuple[str, int]], limit: float) -> None:
    """Print time, memory and the agreement of two seeds for each (null, samples) of `runs`."""
    from scipy.stats import spearmanr

    papers, citations = SIZES[size]
    print(f"\nAtypicality of {papers:,} papers, {citations:,} citations, 5,000 venues\n")
    print("| null | samples | wall s | CPU s | peak MB | two seeds agree: z10 | z_median |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for peer, n in runs:
            seeds = ("0",) if peer == "pyscisci" else ("0", "1")
            reports = [child(["--child", "z", peer, size, str(n), seed, folder], limit) for seed in seeds]
            failed = [report for report in reports if isinstance(report, str)]
            if failed:
                print(f"| {peer} | {n} | {failed[0]} | | | | |", flush=True)
                continue
            agreement = ["", ""]
            if len(reports) == 2:
                first, second = (np.load(Path(folder) / f"{peer}-{n}-{s}.npy") for s in (0, 1))
                both = ~np.isnan(first).any(axis=0) & ~np.isnan(second).any(axis=0)
                agreement = [f"{spearmanr(first[k][both], second[k][both]).statistic:.4f}" for k in (0, 1)]
            wall, cpu, peak = (np.mean([report[key] for report in reports]) for key in ("wall", "cpu", "peak"))
            print(f"| {peer} | {n} | {wall:.1f} | {cpu:.1f} | {peak / 1e6:.0f} | {' | '.join(agreement)} |", flush=True)


def main() -> None:
    """Measure in this process if called as a child, or else compare."""
    if sys.argv[1:2] == ["--child"]:
        kind, peer, size, *rest = sys.argv[2:]
        if kind == "cd":
            measure_cd(peer, size, int(rest[0]), Path(rest[1]))
        else:
            measure_atypicality(peer, size, int(rest[0]), int(rest[1]), Path(rest[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", choices=["cd", "atypicality"], default="cd")
    parser.add_argument("--size", choices=list(SIZES), default="200k")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--nulls", nargs="+", choices=NULLS, default=["shuffle", "switch"], help="atypicality")
    parser.add_argument("--samples", nargs="+", type=int, default=[10], help="null networks (atypicality)")
    parser.add_argument("--agreement", action="store_true", help="atypicality with each null's default samples")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a measurement may take")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.agreement:
        from scisci_gym.datasets.novelty.atypicality import DEFAULT_SAMPLES

        nulls = [null for null in options.nulls if null in DEFAULT_SAMPLES]
        compare_atypicality(options.size, [(null, DEFAULT_SAMPLES[null]) for null in nulls], options.limit)
    elif options.measure == "cd":
        compare_cd(options.size, options.peers, options.limit, options.seed)
    else:
        runs = [(null, samples) for samples in options.samples for null in options.nulls]
        compare_atypicality(options.size, runs, options.limit)


if __name__ == "__main__":
    main()
