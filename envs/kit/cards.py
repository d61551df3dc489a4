"""An environment's card as people read it: the class docstring, taken apart into its sections."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Sequence

from ...datasets.paper import Paper
from .base import SciSciEnv

SECTIONS = ("Description", "Action", "Observation", "Rewards", "Episode end", "Arguments", "Version history")
_TITLE = re.compile(rf"^({'|'.join(SECTIONS)})\n-{{3,}}\n", re.MULTILINE)


def summary(env_class: type[SciSciEnv]) -> str:
    """The first line of the card.

    Examples
    --------
    >>> from scisci_gym import spec
    >>> summary(spec("disruption-v0"))
    'Predict whether a paper disrupts or consolidates its field.'
    """
    return inspect.cleandoc(env_class.__doc__ or "").partition("\n")[0]


def sections(env_class: type[SciSciEnv]) -> dict[str, str]:
    """The sections of the card by their titles, in order.

    Sections that a class leaves out are those of its bases, apart from the description.
    """
    merged: dict[str, str] = {}
    for base in reversed(env_class.__mro__):
        merged.pop("Description", None)
        parts = _TITLE.split(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
        merged |= {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
    return {title: merged[title] for title in SECTIONS if title in merged}


def complete_card(env_class: type[SciSciEnv]) -> str:
    """The docstring of a class with the sections that it leaves to its bases."""
    head = _TITLE.split(inspect.cleandoc(env_class.__doc__ or ""))[0].strip()
    body = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections(env_class).items()]
    return "\n\n".join([head, *body]) + "\n"


def class_shares(env_class: type[SciSciEnv], papers: Sequence[Paper]) -> dict[str, float]:
    """Share of each gold label among the examples of `papers`; empty if there are none."""
    counts = Counter(env_class(*example).gold_label for example in env_class.examples(papers))
    total = sum(counts.values())
    return {label: counts[label] / total for label in env_class.labels} if total else {}
