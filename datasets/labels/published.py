"""Published scores kept beside a dataset that has no citation graph, so that its labels can be checked all the same."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..positions import positions_of
from .eligibility import LabelRules
from .schemes import conventionality_score, disruption_labels, novelty_labels, novelty_score, tertile_cuts

FILE = "published.parquet"


@dataclass(frozen=True, eq=False)
class PublishedScores:
    """Narrow columns of the N records of a source, arrays (N,): int64 number of the work, int32 year, float64 scores.

    A score is NaN where there is none.
    """

    paper: np.ndarray
    year: np.ndarray
    disruption: np.ndarray
    z10: np.ndarray
    z_median: np.ndarray

    def novelty(self) -> tuple[np.ndarray, np.ndarray]:
        """Novelty and conventionality scores: shares of the papers of the same year, float64 (N,), NaN without z."""
        return novelty_score(self.z10, self.year), conventionality_score(self.z_median, self.year)

    def save(self, folder: Path, eligible: np.ndarray, fields: Sequence[str]) -> None:
        """Write ``published.parquet``: the scores and, for the M works that can carry a label, their fields."""
        place = positions_of(self.paper, eligible)
        kept = is_first(self.paper) & (place >= 0)
        codes = pa.array(list(fields), pa.string()).dictionary_encode()
        field = pa.DictionaryArray.from_arrays(pa.array(codes.indices.to_numpy()[place], mask=~kept), codes.dictionary)
        pq.write_table(pa.table({**vars(self), "field": field}), folder / FILE, compression="zstd")

    @classmethod
    def load(cls, folder: Path) -> tuple[Self, np.ndarray]:
        """What `save` wrote: the scores, and the field of each paper (None: not eligible), object array (N,)."""
        table = pq.read_table(folder / FILE)
        names = [field.name for field in dataclasses.fields(cls)]
        field = table["field"].cast(pa.string()).to_numpy(zero_copy_only=False)
        return cls(**{name: table[name].to_numpy() for name in names}), field


def is_first(values: np.ndarray) -> np.ndarray:
    """Whether no earlier place holds the same value, bool (N,)."""
    first = np.zeros(values.size, bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def recomputed_scores(
    folder: Path, papers: Sequence[str], rules: LabelRules
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[tuple[str, int], tuple[float, float]]]:
    """Which papers of a dataset, by id, have a published record, bool; columns of `Paper` that these should have; and
    the cuts between the tertiles, none under the scheme ``threshold``."""
    scores, field = PublishedScores.load(folder)
    eligible = field != None  # noqa: E711  (elementwise)
    novelty, conventionality = scores.novelty()
    names = np.where(eligible, field, "").astype(str)
    labels = disruption_labels(scores.disruption, rules, fields=names, years=scores.year, among=eligible)
    cuts = {}
    if rules.scheme == "quantile":
        cuts = tertile_cuts(scores.disruption, names, scores.year, rules.min_group, among=eligible)
    # The first record of a paper is the one that counts.
    records = positions_of(np.array([int(paper[1:]) for paper in papers], np.int64), scores.paper)
    found = records[records >= 0]
    unknown = np.full(found.size, None)
    columns = {
        "cd_index": scores.disruption[found],
        "novelty_score": novelty[found],
        "conventionality_score": conventionality[found],
        "novelty_label": novelty_labels(novelty[found], conventionality[found]),
        "publication_year": scores.year[found],
        "primary_field": names[found],
        "disruption_label": labels[found],
        "citation_percentile": unknown,
        "hit_share": unknown,
    }
    return records >= 0, columns, cuts
