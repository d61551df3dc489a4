"""Reward functions in the shape that TRL and others take: a completion and the truth go in, a number comes out."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...datasets.paper import DISRUPTION_LABELS, NOVELTY_LABELS
from ...rewards import correctness
from ..kit.answers import message_text, parse_label

Completion: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A text, or messages of which the last one counts."""

_LABEL_SETS = (DISRUPTION_LABELS, NOVELTY_LABELS)


def compute_reward(completion: Completion, ground_truth: str) -> float:
    """Reward of an answer to ``disruption-v0`` or ``novelty-v0``: +1 or -1, whatever the text.

    `completion` is what the model wrote, and `ground_truth` the right label; which labels there are follows from it.
    Raises `ValueError` if `ground_truth` is no label, and never because of the completion.

    Examples
    --------
    >>> compute_reward("It opens a field. <answer>disruptive</answer>", "disruptive")
    1.0
    >>> compute_reward([{"role": "assistant", "content": "disruptive, surely"}], "disruptive")
    -1.0
    """
    labels = next((labels for labels in _LABEL_SETS if ground_truth in labels), None)
    if labels is None:
        choices = ", ".join(label for labels in _LABEL_SETS for label in labels)
        raise ValueError(f"ground_truth must be one of {choices}, got {ground_truth!r}")
    if not isinstance(completion, str):
        completion = message_text(completion[-1] if isinstance(completion, Sequence) and completion else None)
    return correctness(parse_label(completion, labels), ground_truth)


def trl_reward(completions: Sequence[Completion], ground_truth: Sequence[str], **_: Any) -> list[float]:
    """The same for a batch, as `trl.GRPOTrainer(reward_funcs=trl_reward)` calls it.

    The dataset needs the column ``ground_truth``; further columns are ignored.
    """
    return [compute_reward(completion, truth) for completion, truth in zip(completions, ground_truth, strict=True)]
