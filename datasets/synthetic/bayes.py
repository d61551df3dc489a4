"""How well the best possible reader can do on a synthetic dataset: its score, computed on the papers themselves."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.metrics import accuracy_score, f1_score

from ..paper import Paper
from ..splits import SPLITS
from .corpus import SUBJECTS, style_from_text

Styles = tuple[str, ...]


def styles_of(papers: Sequence[Paper], tells: Sequence[str]) -> Styles:
    """All that the wording of synthetic papers tells: of each paper the style of every subject.

    A reader's best answer is a function of these styles, since nothing else in a prompt depends on a label.
    """
    return tuple(style_from_text(paper.abstract, subject) for paper in papers for subject in tells)


def ceiling(
    papers: Mapping[str, Sequence[Paper]], fidelity: float, tells: Sequence[str] = ("disruption",)
) -> dict[str, Any]:
    """Accuracy and macro-F1 per split of the Bayes rule `style_from_text`, beside the expected accuracy, `fidelity`.

    The expected accuracy of every reader is at most `fidelity`; on a finite split the best reader's own score scatters
    around it, so a policy is held against that score. The scores of disruption labels stand by themselves; those of
    novelty labels, if the wording tells these, under ``novelty``. Hits are too rare for a label: the best answer about
    them is a probability.
    """
    facts: dict[str, Any] = {"fidelity": fidelity, **_scores(papers, "disruption")}
    if tuple(tells) != ("disruption",):
        facts["tells"] = list(tells)
    if "novelty" in tells:
        facts["novelty"] = _scores(papers, "novelty")
    return facts


def _scores(papers: Mapping[str, Sequence[Paper]], subject: str) -> dict[str, dict[str, float]]:
    scores = {}
    for name in SPLITS:
        labelled = [paper for paper in papers[name] if getattr(paper, f"{subject}_label") is not None]
        truth = [getattr(paper, f"{subject}_label") for paper in labelled]
        read = [style_from_text(paper.abstract, subject) for paper in labelled]
        scores[name] = {
            "accuracy": round(float(accuracy_score(truth, read)), 6),
            "macro_f1": round(float(f1_score(truth, read, labels=SUBJECTS[subject], average="macro")), 6),
        }
    return scores
