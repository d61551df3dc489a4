"""Confusion matrices, many at a time: a bootstrap computes every score on thousands of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def label_positions(labels: Sequence[str], truth: Sequence[str], predicted: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Truth and predictions as positions in `labels`; a prediction that is none of them gets the position K.

    Raises
    ------
    ValueError
        If the lengths differ, are 0, or a truth is not among the labels.
    """
    if len(truth) != len(predicted) or not len(truth):
        raise ValueError(f"truth and predicted need one length above 0, got {len(truth)} and {len(predicted)}")
    place = {label: at for at, label in enumerate(labels)}
    unknown = sorted(set(truth) - set(place))
    if unknown:
        raise ValueError(f"truth has {unknown[0]!r}, which is not one of {', '.join(labels)}")
    return np.array([place[t] for t in truth]), np.array([place.get(p, len(labels)) for p in predicted])


def balanced(stack: np.ndarray) -> np.ndarray:
    """The same matrices at balanced prevalence: each example weighted by the inverse frequency of its class."""
    rows = stack.sum(axis=2, keepdims=True)
    return np.divide(stack, rows, out=np.zeros(stack.shape), where=rows > 0)


def accuracy(stack: np.ndarray) -> np.ndarray:
    """Share of right answers.

    Parameters
    ----------
    stack : array (R, K, K + 1)
        Rows: truth; columns: predicted label, the last one "no label".
    """
    return np.trace(stack[:, :, :-1], axis1=1, axis2=2) / stack.sum(axis=(1, 2))


def balanced_accuracy(stack: np.ndarray) -> np.ndarray:
    """Mean recall of the classes that occur, as scikit-learn's `balanced_accuracy_score`."""
    rows = stack.sum(axis=2)
    right = np.diagonal(stack[:, :, :-1], axis1=1, axis2=2)
    recall = np.divide(right, rows, out=np.zeros(right.shape), where=rows > 0)
    return recall.sum(axis=1) / (rows > 0).sum(axis=1)


def macro_f1(stack: np.ndarray) -> np.ndarray:
    """Mean F1 over all labels; 0 for a label that is neither true nor predicted."""
    right = np.diagonal(stack[:, :, :-1], axis1=1, axis2=2)
    total = stack.sum(axis=2) + stack.sum(axis=1)[:, :-1]
    return np.divide(2 * right, total, out=np.zeros(right.shape), where=total > 0).mean(axis=1)


def mcc(stack: np.ndarray) -> np.ndarray:
    """Multi-class Matthews correlation (Gorodkin 2004); 0 where truth or predictions are constant."""
    stack = stack.astype(float)
    n = stack.sum(axis=(1, 2))
    right = np.trace(stack[:, :, :-1], axis1=1, axis2=2)
    truth, guess = stack.sum(axis=2), stack.sum(axis=1)
    covariance = right * n - (truth * guess[:, :-1]).sum(axis=1)
    spread = (n**2 - (truth**2).sum(axis=1)) * (n**2 - (guess**2).sum(axis=1))
    # Rounding leaves a trace where a class was weighted by a fraction and the predictions are constant.
    varies = spread > 1e-12 * n**4
    return np.divide(covariance, np.sqrt(spread, where=varies, out=np.ones(len(stack))), out=0 * n, where=varies)
