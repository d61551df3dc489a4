"""How well the best possible reader can do on a synthetic dataset: its score, computed on the papers themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from sklearn.metrics import accuracy_score, f1_score

from .card import write_card
from .paper import DISRUPTION_LABELS, Paper
from .splits import SPLITS
from .store import load_card, split_file
from .synthetic import style_from_text


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


def add_ceiling(folder: Path, fidelity: float) -> dict[str, Any]:
    """Compute the ceiling of a built synthetic dataset and put it into its card, which is returned."""
    rows = {name: pq.read_table(split_file(folder, name)).to_pylist() for name in SPLITS}
    papers = {name: [Paper.from_row(row) for row in rows[name]] for name in SPLITS}
    card = load_card(folder) | {"ceiling": ceiling(papers, fidelity)}
    write_card(folder, card)
    return card
