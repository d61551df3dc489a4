"""R_adaptation: what a right final label is worth on top, after a challenge."""

from __future__ import annotations

from .breakdown import MAX_ADAPTATION

HELD, REVISED = MAX_ADAPTATION, MAX_ADAPTATION / 2


def adaptation(first: str | None, final: str | None, truth: str) -> float:
    """Bonus for how an answer came through a challenge, in {0, 0.1, 0.2}.

    0 for a wrong final label, whatever came before. A right one earns 0.2 if it stood from the start, and 0.1 if the
    challenge led to it. Why this order:

    - Equal amounts would make the first answer worthless. With more for a revision, the best policy would be to answer
      wrongly first and correct itself (sandbagging). Less for a revision makes the honest first answer the best one.
    - The difference is small on purpose. A revision from a label held with probability p to one with probability q pays
      if 2.1 q > 2.2 p, so what tips the decision is the evidence and not the bonus.

    Neither "always flip" nor "never flip" earns it as such: it is paid only on top of being right.

    Parameters
    ----------
    first, final : str or None
        Labels before and after the challenge; None where nothing could be parsed.
    truth : str

    Examples
    --------
    >>> adaptation("neutral", "neutral", "neutral"), adaptation("disruptive", "neutral", "neutral")
    (0.2, 0.1)
    >>> adaptation("neutral", "disruptive", "neutral")
    0.0
    """
    if final != truth:
        return 0.0
    return HELD if first == truth else REVISED
