"""Are the labels of a dataset those of the whole literature that its works were taken from?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scisci_gym.datasets.build import citation_graph
from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.store import load_papers


def same_as_the_full_graph(folder: Path, out: Path, window: int) -> int:
    """Check every labelled paper of `out` against the graph of the whole snapshot; return how many there were."""
    works, _ = read_works(folder, progress=False)
    graph = citation_graph(works)
    counts = np.stack(disruption_counts(graph, window))
    position = {number: row for row, number in enumerate(works["work_id"].to_pylist())}
    compared = 0
    for split in ("train", "validation", "test"):
        for paper in load_papers(out, split):
            row = position[int(paper.openalex_id[1:])]
            assert (paper.n_i, paper.n_j, paper.n_k) == tuple(counts[:, row].tolist())
            assert paper.reference_count == graph.reference_counts[row]
            compared += 1
    return compared
