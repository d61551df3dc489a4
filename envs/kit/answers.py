"""The answer format: one answer, between one pair of tags, at the very end. A label, probabilities, or a number."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

OPEN, CLOSE = "<answer>", "</answer>"
# All patterns are ASCII: otherwise ignoring case would let a long s pass for an s, and `\d` the digits of every script.
_PROBABILITY = r"(0|1|[01]\.0{1,9}|0?\.\d{1,9})"
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{1,40})?|\.\d{1,40})", re.ASCII)
_SUM_TOLERANCE = Decimal("0.02")


def format_answer(label: str) -> str:
    """A label as an answer.

    Examples
    --------
    >>> format_answer("neutral")
    '<answer>neutral</answer>'
    """
    return f"{OPEN}{label}{CLOSE}"


def message_text(message: object) -> str:
    """The text of a message, without its thinking; "" for whatever is not a message with a text.

    A message is a mapping whose ``content`` is a text or a list of parts, each a mapping with a ``type``. The parts of
    type ``text`` are joined. A content that is neither, or one malformed part, leaves no text at all.

    Examples
    --------
    >>> message_text({"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "A"}]})
    'A'
    >>> message_text({"content": None}), message_text({"content": ["A"]}), message_text(7)
    ('', '', '')
    """
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in content if isinstance(content, list | tuple) else ():
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            return ""
        if part["type"] == "text":
            if not isinstance(part.get("text"), str):
                return ""
            texts.append(part["text"])
    return "".join(texts)


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
    text = text.rstrip()
    if text[-len(CLOSE) :].lower() != CLOSE:
        return None
    # Bytes: lowering them leaves all but ASCII letters alone, and searching 5 MB of them takes a few milliseconds.
    data = text.encode("utf-8", "surrogatepass")
    lowered, opening, closing = data.lower(), OPEN.encode(), CLOSE.encode()
    if lowered.count(opening) != 1 or lowered.count(closing) != 1:
        return None
    start = lowered.find(opening) + len(opening)
    return data[start : -len(closing)].decode("utf-8", "surrogatepass").strip()


def parse_label(text: str, labels: Sequence[str]) -> str | None:
    """The one of `labels`, lower case, that a text answers with, or None if it does not answer with exactly one.

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
    # ASCII only: lowering would turn other letters into ours, such as the Kelvin sign into k.
    if answer is None or not answer.isascii():
        return None
    return answer.lower() if answer.lower() in labels else None


def format_probabilities(probabilities: Sequence[float], labels: Sequence[str]) -> str:
    """Probabilities as an answer, one for every label.

    Examples
    --------
    >>> format_probabilities([0.25, 0.75], ("hit", "ordinary"))
    '<answer>hit: 0.25, ordinary: 0.75</answer>'
    """
    pairs = (f"{label}: {p:.6f}".rstrip("0").rstrip(".") for label, p in zip(labels, probabilities, strict=True))
    return format_answer(", ".join(pairs))


def parse_probabilities(text: str, labels: Sequence[str]) -> tuple[float, ...] | None:
    """One probability for every label, in the order of `labels`, which are lower case; None for any other text.

    ``label: number`` separated by commas or line ends, every label exactly once, in any order. Numbers are decimals
    from 0 to 1 (no percentages, no exponents). Their sum, in decimal and without rounding, is from 0.98 to 1.02, both
    included; they are then divided by it.

    Examples
    --------
    >>> parse_probabilities("<answer>Ordinary: 0.75, hit: 0.25</answer>", ("hit", "ordinary"))
    (0.25, 0.75)
    >>> parse_probabilities("<answer>hit: 0.25</answer>", ("hit", "ordinary")) is None
    True
    >>> parse_probabilities("<answer>hit: 0.9, ordinary: 0.9</answer>", ("hit", "ordinary")) is None
    True
    """
    answer = answer_text(text)
    if answer is None or len(answer) > 100 * len(labels) or not answer.isascii():
        return None
    match = _distribution(tuple(labels)).fullmatch(answer)
    if match is None:
        return None
    groups = match.groups()
    named, shares = [label.lower() for label in groups[::2]], [Decimal(share) for share in groups[1::2]]
    if named != list(labels):
        if len(set(named)) != len(labels):
            return None
        shares = [shares[named.index(label)] for label in labels]
    total = sum(shares)
    if abs(total - 1) > _SUM_TOLERANCE:
        return None
    return tuple([float(share) / float(total) for share in shares])


@lru_cache(maxsize=64)
def _distribution(labels: tuple[str, ...]) -> re.Pattern[str]:
    """As many ``label: number`` as there are labels; the caller checks that no label comes twice."""
    item = rf"[^\S\n]*({'|'.join(map(re.escape, labels))})[^\S\n]*:[^\S\n]*{_PROBABILITY}[^\S\n]*"
    return re.compile(r"[,\n]".join([item] * len(labels)), re.ASCII | re.IGNORECASE)


def format_number(value: float) -> str:
    """A number as an answer, in full, without an exponent: parsing it gives back the same float.

    Examples
    --------
    >>> format_number(-1.5e-05)
    '<answer>-0.000015</answer>'
    """
    return format_answer(format(Decimal(repr(float(value))), "f"))


def parse_number(text: str, low: float, high: float) -> float | None:
    """The decimal number in [`low`, `high`] that a text answers with, or None.

    Examples
    --------
    >>> parse_number("About nothing. <answer>-0.05</answer>", -1, 1)
    -0.05
    >>> parse_number("<answer>nan</answer>", -1, 1) is None, parse_number("<answer>7</answer>", -1, 1) is None
    (True, True)
    """
    answer = answer_text(text)
    if answer is None or not _NUMBER.fullmatch(answer):
        return None
    value = float(answer)
    return value if low <= value <= high else None
