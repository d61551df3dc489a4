"""How a run compares with what needs no training: measured baselines if it was evaluated, else the majority label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...envs.registry import spec, specs
from .measures import VALIDATION, summary
from .metrics_log import Row


@dataclass(frozen=True)
class Constant:
    """What always answering with one label scores on a split.

    Parameters
    ----------
    label : str
        The most common one of the training split.
    accuracy, macro_f1 : float
    """

    label: str
    accuracy: float
    macro_f1: float


def majority_of(splits: Mapping[str, Any], labels: Sequence[str], split: str) -> Constant | None:
    """Score of the majority label, from the label counts of a dataset's card; None where they are of other labels.

    With p the label's share in the split and K labels, accuracy is p; the label's F1 is 2p / (1 + p) (precision p,
    recall 1), that of the others 0, so macro-F1 is 2p / ((1 + p) K).

    Examples
    --------
    >>> counts = {"papers": 10, "labels": {"a": 5, "b": 5}}
    >>> majority_of({"train": counts, "test": counts}, ("a", "b"), "test")
    Constant(label='a', accuracy=0.5, macro_f1=0.3333333333333333)
    """
    for kind in ("labels", "novelty_labels"):
        counts = {name: share.get(kind, {}) for name, share in splits.items()}
        if not labels or not set(labels) <= set(counts.get("train", {})) & set(counts.get(split, {})):
            continue
        here = {label: counts[split][label] for label in labels}
        if sum(here.values()):
            label = max(labels, key=lambda name: counts["train"][name])
            share = here[label] / sum(here.values())
            return Constant(label, share, 2 * share / (1 + share) / len(labels))
    return None


def comparison(
    record: Mapping[str, Any], rows: Sequence[Row], evaluations: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Markdown: a table for every split that was evaluated, else a sentence about validation."""
    if evaluations:
        return [line for split, found in evaluations.items() for line in (*_table(split, found), "")][:-1]
    return [comparison_sentence(record, rows), "", "Not evaluated with baselines yet: `scisci-gym eval RUN` does that."]


def comparison_sentence(record: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The best validation score beside what the majority label, and on a synthetic corpus a perfect reader, gets."""
    of = summary(rows, VALIDATION)
    if of is None or of.best is None:
        return "No validation scores."
    step, best = of.best
    said = f"Best validation macro-F1 is {best:.3f} (step {step})"
    data, env_id = record.get("dataset", {}), str(record.get("config", {}).get("env"))
    labels = next((env_class.labels for env_class in specs() if env_class.env_id == env_id), ())
    constant = majority_of(data.get("splits", {}), labels, "validation")
    if constant is not None:
        said += (
            f"; always answering {constant.label!r} gives {constant.macro_f1:.3f} on all of validation "
            f"(accuracy {constant.accuracy:.3f})"
        )
    elif labels:
        count = len(labels)
        said += f"; with {count} equally common labels, always answering one gives {2 / (1 + count) / count:.3f}"
    # The ceiling of a synthetic corpus is about disruption labels.
    if "ceiling" in data and labels and labels == spec("disruption-v0").labels:
        said += f"; a perfect reader of this corpus gets {data['ceiling']['validation']['macro_f1']:.3f}"
    return said + "."


def _table(split: str, found: Mapping[str, Any]) -> list[str]:
    policy = found["policy"]
    rows = [(f"**{policy['name']}**", policy["greedy"]), *found.get("baselines", {}).items()]
    lines = [f"| {split}, {policy['greedy']['n']} papers | accuracy | macro-F1 | MCC |", "|---|---|---|---|"]
    for name, scores in rows:
        cells = (interval_text(scores[key]) for key in ("accuracy", "macro_f1", "mcc"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def interval_text(score: Mapping[str, float]) -> str:
    """The JSON of a `Score` as tables have it."""
    return f"{score['value']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"
