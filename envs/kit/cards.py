"""An environment's card as people read it: the class docstring, taken apart into its sections."""

import inspect
import re
from collections import Counter
from collections.abc import Sequence

from ...datasets.paper import Paper
from .base import SciSciEnv

SECTIONS = ("Description", "Action", "Observation", "Rewards", "Episode end", "Arguments", "Version history")
_ARGUMENT = re.compile(r"^\S.*(?:\n +.*)*", re.MULTILINE)
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

    Sections that a class leaves out are those of its bases, apart from the description. Arguments are added to those of
    the bases; options that the class does not take are left out.
    """
    merged: dict[str, str] = {}
    arguments: dict[str, str] = {}
    for base in reversed(env_class.__mro__):
        merged.pop("Description", None)
        parts = _TITLE.split(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
        merged |= {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
        own = _ARGUMENT.findall(merged.get("Arguments", ""))
        arguments |= {text.partition(" : ")[0]: text.strip() for text in own}
    bases = (base for base in env_class.__mro__ if issubclass(base, SciSciEnv))
    left_out = {name for base in bases for name in base.option_names()} - set(env_class.option_names())
    merged["Arguments"] = "\n".join(text for name, text in arguments.items() if name not in left_out)
    return {title: merged[title] for title in SECTIONS if merged.get(title)}


def markdown(env_class: type[SciSciEnv]) -> dict[str, str]:
    """The sections of the card as Markdown; arguments become a list."""
    shown = {title: text.replace("``", "`") for title, text in sections(env_class).items()}
    items = []
    for argument in _ARGUMENT.findall(shown.get("Arguments", "")):
        head, *about = map(str.strip, argument.splitlines())
        name, _, kind = head.partition(" : ")
        items.append(f"- **{name}**: {'. '.join([kind, *([' '.join(about)] if about else [])])}")
    return {title: "\n".join(items) if title == "Arguments" else text for title, text in shown.items()}


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
