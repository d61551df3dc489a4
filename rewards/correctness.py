"""R_correctness: +1 for the right label, -1 for anything else."""

from __future__ import annotations

CORRECT, WRONG = 1.0, -1.0


def correctness(predicted: str | None, truth: str) -> float:
    """Reward of a predicted label, in {-1, +1}.

    Parameters
    ----------
    predicted : str or None
        None where no answer could be parsed, which counts as wrong: no answer never pays more than a wrong one.
    truth : str

    Examples
    --------
    >>> correctness("neutral", "neutral"), correctness("disruptive", "neutral"), correctness(None, "neutral")
    (1.0, -1.0, -1.0)
    """
    return CORRECT if predicted == truth else WRONG
