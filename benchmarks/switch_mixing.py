"""How many swap attempts the `switch` null needs between samples: autocorrelation of venue-pair counts along the chain.

python benchmarks/switch_mixing.py
"""

from __future__ import annotations

import time

import numpy as np
from random_graph import random_graph, random_venues

from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.novelty import null_models
from scisci_gym.datasets.novelty.atypicality import papers_by_year
from scisci_gym.datasets.novelty.venue_pairs import VenuePairs, YearSlots, venue_pairs, year_slots

SAMPLES, WARM_UP = 80, 10


def pair_counts(slots: YearSlots, pairs: VenuePairs, year: int) -> np.ndarray:
    """How often every observed pair occurs in each network of one chain; (samples, pairs)."""
    keys = pairs.rows * slots.venues.size + pairs.columns
    counts = np.zeros((SAMPLES, keys.size))
    for sample, venue in enumerate(null_models.null_networks(slots, "switch", SAMPLES, 0, year)):
        network = YearSlots(slots.papers, slots.indptr, slots.cited, venue, slots.cell, slots.venues, slots.cells)
        found = venue_pairs(network)
        found_keys = found.rows * slots.venues.size + found.columns
        _, ours, theirs = np.intersect1d(keys, found_keys, assume_unique=True, return_indices=True)
        counts[sample, ours] = found.counts[theirs]
    return counts[WARM_UP:]


def main() -> None:
    """Print the correlations for each number of attempts."""
    citing, cited, years = random_graph(20_000, 310_000)
    graph = CitationGraph.from_edges(citing, cited, years)
    venues = random_venues(citing, cited, years.size, n_venues=500)
    year, papers = papers_by_year(graph)[0]
    slots = year_slots(graph, venues, papers)
    pairs = venue_pairs(slots)
    print(f"{slots.venue.size:,} references of {year}, {pairs.columns.size:,} venue pairs, {SAMPLES} networks\n")
    print("| attempts a reference | correlation, next network | the one after | s |\n|---|---|---|---|")
    for sweeps in (1, 2, 3, 5, 10):
        null_models.SWEEPS = sweeps
        started = time.perf_counter()
        deviation = pair_counts(slots, pairs, year)
        deviation -= deviation.mean(axis=0)
        variance = (deviation**2).mean(axis=0)
        varies = variance > 0
        # The mean of the same networks is subtracted, which lowers every correlation by 1 / their number.
        lags = [
            ((deviation[:-lag] * deviation[lag:]).mean(axis=0)[varies] / variance[varies]).mean() + 1 / len(deviation)
            for lag in (1, 2)
        ]
        print(f"| {sweeps} | {lags[0]:.4f} | {lags[1]:.4f} | {time.perf_counter() - started:.1f} |")


if __name__ == "__main__":
    main()
