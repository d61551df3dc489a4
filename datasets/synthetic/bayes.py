"""How well the best possible reader can do on a synthetic dataset: its score, computed on the papers themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.metrics import accuracy_score, f1_score

from ..paper import DISRUPTION_LABELS, Paper
from ..splits import SPLITS
from ..store import load_papers
from .corpus import style_from_text


def ceiling(papers: Mapping[str, Sequence[Paper]], fidelity: float) -> dict[str, Any]:
    """Accuracy and macro-F1 per split of the Bayes rule `style_from_text`, beside the expected accuracy, `fidelity`.

    The expected accuracy of every reader is at most `fidelity`; on a finite split the best reader's own score scatters
    around it, so a policy is held against that score.
    """
    facts: dict[str, Any] = {"fidelity": fidelity}
    for name in SPLITS:
        truth = [paper.disruption_label for paper in papers[name]]
        read = [style_from_text(paper.abstract) for paper in papers[name]]
        facts[name] = {
            "accuracy": round(float(accuracy_score(truth, read)), 6),
            "macro_f1": round(float(f1_score(truth, read, labels=DISRUPTION_LABELS, average="macro")), 6),
        }
    return facts


def ceiling_of_folder(folder: Path, fidelity: float) -> dict[str, Any]:
    """What the card of a synthetic dataset whose papers are in `folder` says of their ceiling."""
    return {"ceiling": ceiling({name: load_papers(folder, name) for name in SPLITS}, fidelity)}
