"""Published scores kept beside a dataset that has no citation graph, so that its labels can be checked all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .label_schemes import conventionality_score, novelty_score

FILE = "published.parquet"


@dataclass(frozen=True, eq=False)
class PublishedScores:
    """Narrow columns of every record of a source, one row a record.

    Parameters
    ----------
    paper : int64 (N,)
        Number of the work.
    year : int32 (N,)
    disruption, z10, z_median : float64 (N,)
        NaN where there is none.
    """

    paper: np.ndarray
    year: np.ndarray
    disruption: np.ndarray
    z10: np.ndarray
    z_median: np.ndarray

    def novelty(self) -> tuple[np.ndarray, np.ndarray]:
        """Novelty and conventionality scores: shares of the papers of the same year, float64 (N,), NaN without z."""
        return novelty_score(self.z10, self.year), conventionality_score(self.z_median, self.year)

    def save(self, folder: Path) -> None:
        """Write ``published.parquet``."""
        pq.write_table(pa.table(vars(self)), folder / FILE, compression="zstd")

    @classmethod
    def load(cls, folder: Path) -> PublishedScores:
        """Read what `save` wrote."""
        table = pq.read_table(folder / FILE)
        return cls(**{name: table[name].to_numpy() for name in table.column_names})


def recomputed_scores(folder: Path, papers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Scores that papers of a dataset should have, by id; papers without a published record are left out."""
    scores = PublishedScores.load(folder)
    novelty, convention = scores.novelty()
    place = {number: at for at, number in enumerate(scores.paper.tolist())}
    return {
        paper: {
            "cd_index": float(scores.disruption[at]),
            "novelty_score": float(novelty[at]),
            "conventionality_score": float(convention[at]),
            "publication_year": int(scores.year[at]),
        }
        for paper in papers
        if (at := place.get(int(paper[1:]))) is not None
    }
