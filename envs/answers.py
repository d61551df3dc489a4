"""The answer format: one label, between one pair of tags, at the very end."""

from __future__ import annotations

import re
from collections.abc import Sequence

OPEN, CLOSE = "<answer>", "</answer>"
_TAG = re.compile(r"</?answer>", re.IGNORECASE)


def format_answer(label: str) -> str:
    """A label as an answer.

    Examples
    --------
    >>> format_answer("neutral")
    '<answer>neutral</answer>'
    """
    return f"{OPEN}{label}{CLOSE}"


def answer_text(text: str) -> str | None:
    """What stands between the one pair of answer tags, or None.

    Exactly one opening and one closing tag, in this order, and nothing but white space after them. Reasoning may come
    before. Two answers are no answer, never "the last one" or "the better one".

    Examples
    --------
    >>> answer_text("It cites widely. <answer> Neutral </answer>")
    'Neutral'
    >>> answer_text("<answer>neutral</answer><answer>disruptive</answer>") is None
    True
    """
    tags = list(_TAG.finditer(text))
    if [tag.group().lower() for tag in tags] != [OPEN, CLOSE] or text[tags[1].end() :].strip():
        return None
    return text[tags[0].end() : tags[1].start()].strip()


def parse_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a text answers with, or None if it does not answer with exactly one.

    Parameters
    ----------
    text : str
        Anything; never raises.
    labels : sequence of str, lower case

    Examples
    --------
    >>> parse_label("<answer>Disruptive</answer>", ("disruptive", "neutral"))
    'disruptive'
    >>> parse_label("<answer>disruptive neutral</answer>", ("disruptive", "neutral")) is None
    True
    >>> parse_label("disruptive", ("disruptive", "neutral")) is None
    True
    """
    answer = answer_text(text)
    # `lower` and not `casefold`: folding would accept other spellings of the same letters, such as a long s.
    return answer.lower() if answer is not None and answer.lower() in labels else None
