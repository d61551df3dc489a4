"""What an OpenAlex answer with another status than 200 means: wait, stop for now, or give up."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple

import orjson

from ...errors import BadInput

Kind = Literal["too_fast", "budget", "throttled", "paid", "bad_request", "bad_key", "not_found", "server"]
# Asking again does not help with these: the request, or the account, has to change.
FINAL = frozenset({"paid", "bad_request", "bad_key", "not_found"})
LONGEST_WAIT = 366 * 86400.0
"""Seconds. A longer wait that an answer asks for, which a date could not express, counts as this one."""
_OF_STATUS: dict[int, Kind] = {
    400: "bad_request", 401: "bad_key", 404: "not_found", 410: "not_found", 414: "bad_request", 422: "bad_request"
}  # fmt: skip


class Stopped(Exception):
    """The API does not answer for now. Every page fetched is kept, and the same command continues from there."""


class Refused(BadInput):
    """The API will not answer this request. The message says why and what to change; `kind` is that of a `Refusal`."""

    def __init__(self, message: str, kind: Kind):
        super().__init__(message)
        self.kind: Kind = kind


class Refusal(NamedTuple):
    """One refusal: its kind, the API's own words, and the seconds after which the API says to come back.

    Kinds are ``too_fast`` (more than 100 requests a second), ``budget`` (the day's budget is spent), ``throttled`` (the
    account is slowed down), ``paid`` (a parameter that needs a paid plan), ``bad_request``, ``bad_key``, ``not_found``
    and ``server``.
    """

    kind: Kind
    message: str
    wait: float | None = None


def refusal(status: int, headers: Mapping[str, str], body: bytes, now: datetime | None = None) -> Refusal:
    """Read a refusal out of an answer.

    Examples
    --------
    >>> refusal(429, {"retry-after": "54000", "x-ratelimit-remaining-usd": "0"}, b"{}").kind
    'budget'
    >>> refusal(429, {"retry-after": "1"}, b'{"error": "Too many requests per second"}')
    Refusal(kind='too_fast', message='Too many requests per second', wait=1.0)
    """
    message = _message(body) or f"status {status}"
    if status in (400, 403) and "api key" in message.lower().replace("_", " "):
        return Refusal("bad_key", message)
    if status in _OF_STATUS:
        return Refusal(_OF_STATUS[status], message)
    wait = _retry_after(headers.get("retry-after"), now or datetime.now(UTC))
    if status not in (403, 429):
        return Refusal("server", message, wait)
    words, remaining = message.lower(), number(headers.get("x-ratelimit-remaining-usd"))
    if "budget" in words or "credit" in words or (remaining is not None and remaining <= 0):
        return Refusal("budget", message, number(headers.get("x-ratelimit-reset")) if wait is None else wait)
    if wait is None and any(word in words for word in ("premium", "paid", "subscri", "plan ")):
        return Refusal("paid", message)
    return Refusal("throttled" if "throttl" in words else "too_fast", message, wait)


def until_midnight(now: datetime | None = None) -> float:
    """Seconds until the daily budget starts again, at midnight UTC."""
    now = now or datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - now).total_seconds()


def number(header: str | None) -> float | None:
    """The finite number in a header; None where there is no header, or no such number in it."""
    try:
        value = math.nan if header is None else float(header)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def json_object(body: bytes) -> dict[str, Any]:
    """The object in an answer; an empty one where there is none."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _message(body: bytes) -> str:
    answer = json_object(body)
    parts = [answer[key] for key in ("error", "message") if isinstance(answer.get(key), str)]
    return " ".join(": ".join(parts).split())[:600]


def _retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds to wait by a header that gives them, or a date."""
    seconds = number(header)
    if seconds is None and header is not None:
        try:
            seconds = (parsedate_to_datetime(header) - now).total_seconds()
        except (TypeError, ValueError):
            return None
    return None if seconds is None else min(max(0.0, seconds), LONGEST_WAIT)
