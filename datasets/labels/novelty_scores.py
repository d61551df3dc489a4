"""Novelty and conventionality scores: where a paper's atypicality stands among the papers of its year."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.citation_graph import CitationGraph
from ..novelty.atypicality import DEFAULT_SAMPLES, atypicality
from ..novelty.venue_pairs import checked_venues
from .schemes import conventionality_score, half_sample_agreement, novelty_score, sampled_labels

NULL = "shuffle"


@dataclass(frozen=True, eq=False)
class NoveltyScores:
    """Scores of the papers of a graph.

    Parameters
    ----------
    novelty : float64 (N,)
        Share of the papers of the same year whose z10 is higher; NaN where z10 is undefined.
    convention : float64 (N,)
        Share of the papers of the same year whose z_median is lower; NaN where undefined.
    venues : int32 (N,)
        Venue of each paper as a number from 0, -1 where unknown: what the scores were computed from.
    withheld : bool (N,)
        Papers whose label changes within the sampling error of the scores, see `sampled_labels`.
    facts : dict
        Null model, samples and seed, how many papers have a score, how many labels were withheld, and how well two
        halves of the samples agree in each year (`half_sample_agreement`).
    """

    novelty: np.ndarray
    convention: np.ndarray
    venues: np.ndarray
    withheld: np.ndarray
    facts: dict[str, Any]


def novelty_scores(graph: CitationGraph, venue_ids: np.ndarray, *, seed: int = 0) -> NoveltyScores | None:
    """Scores from the venues of a graph's papers; None where fewer than two venues are known.

    Parameters
    ----------
    graph : CitationGraph
    venue_ids : int (N,)
        Any numbers from 0; -1 where unknown.
    seed : int
        Of the null networks.

    References
    ----------
    Uzzi, Mukherjee, Stringer & Jones (2013), Science 342; percentiles within the year as in this project's card.
    """
    venues = checked_venues(graph, venue_ids).astype(np.int32)
    if venues.max(initial=-1) < 1:
        return None
    result = atypicality(graph, venues, null=NULL, seed=seed)
    novelty = novelty_score(result.z10, graph.years)
    convention = conventionality_score(result.z_median, graph.years)
    _, withheld = sampled_labels(result, graph.years)
    facts = {
        "null": NULL,
        "samples": DEFAULT_SAMPLES[NULL],
        "seed": seed,
        "scored": int((~np.isnan(novelty)).sum()),
        "withheld": int(withheld.sum()),
        "agreement": half_sample_agreement(result, graph.years),
    }
    return NoveltyScores(novelty, convention, venues, withheld, facts)
