"""Test papers that say the same as a training paper: resemblance of title and abstract, not only equal titles.

The builder already drops papers with an equal DOI or a near-identical title. This finds what it cannot see: a preprint
and its published form under another title, or a conference paper and its extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from ...datasets.near_duplicates import title_words
from ...datasets.paper import Paper

SHINGLE = 3
THRESHOLD = 0.5
ROWS_AT_A_TIME = 256


@dataclass(frozen=True)
class NearDuplicate:
    """A test paper and the training paper that it resembles most.

    Parameters
    ----------
    test_id, train_id, test_title, train_title : str
    resemblance : float in [0, 1]
    """

    test_id: str
    train_id: str
    test_title: str
    train_title: str
    resemblance: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def near_duplicates(
    test: Sequence[Paper], train: Sequence[Paper], threshold: float = THRESHOLD, shingle: int = SHINGLE
) -> list[NearDuplicate]:
    """Test papers whose nearest training paper has a resemblance of at least `threshold`, the closest first.

    The resemblance of two texts is the Jaccard index of their sets of shingles, here of `shingle` successive words of
    title and abstract, without case, accents and punctuation. It is computed exactly, for all pairs.

    Parameters
    ----------
    test, train : sequences of Paper
    threshold : float in (0, 1]
    shingle : int >= 1

    Raises
    ------
    ValueError
        If the threshold is outside (0, 1].

    References
    ----------
    Broder (1997), On the resemblance and containment of documents.

    Examples
    --------
    >>> one = Paper(openalex_id="W1", title="Strings", abstract="we count the states of a long string at rest")
    >>> other = Paper(openalex_id="W2", title="Strings", abstract="we count the states of a long string at large")
    >>> [round(found.resemblance, 3) for found in near_duplicates([one], [other])]
    [0.8]
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"threshold must be in (0, 1], got {threshold!r}")
    words = [[title_words(f"{paper.title}. {paper.abstract}") for paper in papers] for papers in (test, train)]
    if not any(len(text) >= shingle for texts in words for text in texts):
        return []
    options: dict[str, Any] = {"analyzer": lambda text: _shingles(text, shingle), "binary": True, "dtype": np.int32}
    counter = CountVectorizer(**options)
    counter.fit([*words[0], *words[1]])
    ours, theirs = (sparse.csr_matrix(counter.transform(texts)) for texts in words)
    size_theirs = np.asarray(theirs.sum(axis=1)).ravel()
    columns = theirs.T.tocsc()
    found: list[NearDuplicate] = []
    for start in range(0, len(test), ROWS_AT_A_TIME):
        shared = sparse.coo_matrix(ours[start : start + ROWS_AT_A_TIME] @ columns)
        size_ours = np.asarray(ours[start : start + ROWS_AT_A_TIME].sum(axis=1)).ravel()
        resemblance = shared.data / (size_ours[shared.row] + size_theirs[shared.col] - shared.data)
        best: dict[int, tuple[float, int]] = {}
        for at in np.flatnonzero(resemblance >= threshold):
            row, value = int(shared.row[at]), (float(resemblance[at]), -int(shared.col[at]))
            best[row] = max(value, best.get(row, value))
        for row, (value, place) in best.items():
            paper, twin = test[start + row], train[-place]
            found.append(NearDuplicate(paper.openalex_id, twin.openalex_id, paper.title, twin.title, value))
    return sorted(found, key=lambda pair: (-pair.resemblance, pair.test_id))


def _shingles(words: Sequence[str], size: int) -> list[str]:
    return [" ".join(words[at : at + size]) for at in range(len(words) - size + 1)]
