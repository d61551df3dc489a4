"""What an OpenAlex answer with another status than 200 means: wait, stop for now, or give up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

import orjson

from ...errors import BadInput

Kind = Literal["too_fast", "budget", "throttled", "paid", "bad_request", "bad_key", "not_found", "server"]
# Asking again does not help with these: the request, or the account, has to change.
FINAL = frozenset({"paid", "bad_request", "bad_key", "not_found"})


class Stopped(Exception):
    """The API does not answer for now. Every page fetched is kept, and the same command continues from there."""


class Refused(BadInput):
    """The API will not answer this request. The message says why and what to change; `kind` is one of `Refusal`."""

    def __init__(self, message: str, kind: Kind):
        super().__init__(message)
        self.kind: Kind = kind


@dataclass(frozen=True)
class Refusal:
    """One refusal.

    Parameters
    ----------
    kind : str
        ``too_fast`` (more than 100 requests a second), ``budget`` (the day's budget is spent), ``throttled`` (the
        account is slowed down), ``paid`` (a parameter that needs a paid plan), ``bad_request``, ``bad_key``,
        ``not_found``, ``server``.
    message : str
        The API's own words.
    wait : float or None
        Seconds after which the API says to come back.
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
    wait = _retry_after(headers, now or datetime.now(UTC))
    if status in (400, 401, 404, 410, 422):
        kind: Kind = "bad_key" if status == 401 else "not_found" if status in (404, 410) else "bad_request"
        return Refusal(kind, message)
    if status not in (403, 429):
        return Refusal("server", message, wait)
    words = message.lower()
    remaining = _number(headers.get("x-ratelimit-remaining-usd"))
    if "budget" in words or "credit" in words or (remaining is not None and remaining <= 0):
        return Refusal("budget", message, wait if wait is not None else _number(headers.get("x-ratelimit-reset")))
    if wait is None and any(word in words for word in ("premium", "paid", "subscri", "plan ")):
        return Refusal("paid", message)
    return Refusal("throttled" if "throttl" in words else "too_fast", message, wait)


def until_midnight(now: datetime | None = None) -> float:
    """Seconds until the daily budget starts again, at midnight UTC."""
    now = now or datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - now).total_seconds()


def _message(body: bytes) -> str:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    if not isinstance(answer, dict):
        return ""
    parts = [answer[key] for key in ("error", "message") if isinstance(answer.get(key), str)]
    return " ".join(": ".join(parts).split())[:600]


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (TypeError, ValueError):
        return None


def _number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None
