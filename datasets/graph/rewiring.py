"""Reference lists rewired at random: the swaps of cited papers of which the `switch` null is made."""

import numpy as np

from ..jit import kernel

# Swap attempts per reference between two samples of the `switch` chain. The counts of consecutive samples correlate by
# 0.03 with 1 attempt and by less than 0.003 with 2 or more (benchmarks/switch_mixing.py).
SWEEPS = 5


def random_state(seed: int, *stream: int) -> np.ndarray:
    """State of a random stream, uint64 (1,), for `uniform`; streams of different names are independent."""
    return np.random.SeedSequence([seed, *stream]).generate_state(1, np.uint64)


@kernel
def uniform(state):
    """Next number in [0, 1) of a SplitMix64 stream (Steele, Lea & Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def same_paper(paper: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For slots in cell order: the range of slots of the same cell and paper."""
    new = np.ones(paper.size, bool)
    new[1:] = paper[1:] != paper[:-1]
    new[bounds[:-1]] = True
    starts = np.append(np.flatnonzero(new), paper.size).astype(np.int32)
    group = np.cumsum(new) - 1
    return starts[group], starts[group + 1]


@kernel
def switch(paper, cited, venue, bounds, first, stop, sweeps, state):
    """Exchange the cited papers of random pairs of slots of a cell, `sweeps` attempts a slot, in place.

    An exchange after which a paper would cite itself, or another paper twice, is not made.
    """
    for c in range(bounds.size - 1):
        low, size = bounds[c], bounds[c + 1] - bounds[c]
        for _ in range(sweeps * size):
            a = low + int(uniform(state) * size)
            b = low + int(uniform(state) * size)
            if first[a] == first[b] or cited[a] == cited[b]:
                continue
            free = cited[a] != paper[b] and cited[b] != paper[a]
            for i in range(first[a], stop[a]):
                free &= cited[i] != cited[b]
            for i in range(first[b], stop[b]):
                free &= cited[i] != cited[a]
            if free:
                cited[a], cited[b] = cited[b], cited[a]
                venue[a], venue[b] = venue[b], venue[a]
