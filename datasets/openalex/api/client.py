"""The OpenAlex API, through pyalex, with what pyalex 0.21 leaves out.

pyalex builds the queries and signs the requests. It retries nothing by default, and only over ``https://``; it drops
the headers that give the cost of a call and the rest of the day's budget; it always calls api.openalex.org.
`Connection` does better. Its paginator silently stops at 10,000 results; `pages` goes on until ``next_cursor`` is null.
"""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import orjson
import requests

from ...errors import BadInput
from .compat import Works, key_header
from .errors import FINAL, Refusal, Refused, Stopped, json_object, number, refusal, until_midnight
from .response_cache import PageStore

BASE_URL = "https://api.openalex.org"
PER_PAGE = MAX_IDS = 100
TRIES = 3
NOT_THERE = b'{"not_found":true}'
"""What is kept for a single work that does not exist, so that it is not looked for again."""
DAILY_USD = {True: 1.0, False: 0.1}
"""Budget of a day with a free key, and without a key; without one some pages of OpenAlex's own say 0.01."""
FREE_KEY = "a free one from openalex.org/settings/api, put into OPENALEX_API_KEY, has $1 a day"


def api_key() -> str | None:
    """The key in ``OPENALEX_API_KEY``, or None. It travels in a header only and is never printed or stored.

    Raises `BadInput` if it cannot be a key; the message does not repeat it.
    """
    key = os.environ.get("OPENALEX_API_KEY", "").strip()
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise BadInput(
            "OPENALEX_API_KEY holds characters that no key has; copy it again from openalex.org/settings/api"
        )
    return key or None


@dataclass
class Spending:
    """What a run has requested and paid: answers received (refusals included), pages fetched, pages that were on disk
    already, and dollars spent and left of the day's budget by the API's own account (None if it has not said)."""

    requests: int = 0
    pages: int = 0
    reused: int = 0
    usd: float = 0.0
    remaining_usd: float | None = None


class Connection:
    """Fetches pages one at a time, waits when the API asks for it, and stores each page before it fetches the next.

    Parameters
    ----------
    budget_usd : float or None
        Stop before a request that could take the run's spending above it.
    patience : float
        Longest wait, in seconds, that the API may ask for; a longer one stops the run instead.
    attempts, backoff : int, float
        Tries of one request before the run stops; seconds before the second one, doubled for each further one.
    deadline : float
        Seconds for one answer, from the request to its last byte.
    sleep, notice : callable
        `time.sleep` or a stand-in; called with a sentence before each pause: why there is one, and how long it is.
    """

    def __init__(
        self,
        store: PageStore,
        *,
        base_url: str = BASE_URL,
        key: str | None = None,
        budget_usd: float | None = None,
        patience: float = 120.0,
        attempts: int = 8,
        backoff: float = 1.0,
        deadline: float = 120.0,
        sleep: Callable[[float], object] = time.sleep,
        notice: Callable[[str], object] = lambda _: None,
    ):
        for option, value in (("--budget", budget_usd), ("--patience", patience)):
            if value is not None and not value >= 0:
                raise BadInput(f"{option} must be a number of at least 0, got {value:g}")
        if not base_url.startswith(("https://", "http://")):
            raise BadInput(f"--base-url must start with https:// or http://, got {base_url!r}")
        self.store, self.base_url, self.spending = store, base_url.rstrip("/"), Spending()
        self.budget_usd, self.patience, self.deadline = budget_usd, patience, deadline
        self.attempts, self.backoff, self._sleep, self._notice = attempts, backoff, sleep, notice
        self._session, self._auth, self._has_key = requests.Session(), key_header(key), key is not None

    def json(self, url: str, price: float, *, again: bool = False) -> dict[str, Any]:
        """The answer to a request, from disk if it is there; with `again` it is asked for in any case.

        Raises `Refused` for 400, 401, 404, or a parameter that needs a paid plan, and `Stopped` if the budget is spent,
        the account throttled for long, or no answer usable after all attempts.
        """
        request = _without_host(url)
        stored = None if again else self.store.get(request)
        if stored is not None:
            self.spending.reused += 1
            return orjson.loads(stored)
        try:
            body = self._fetch(self.base_url + request, price)
        except Refused as error:
            if error.kind != "not_found" or price:
                raise
            body = NOT_THERE
        self.store.put(request, body)
        self.spending.pages += 1
        return orjson.loads(body)

    def forget(self, urls: Iterable[str]) -> None:
        """Have pages fetched again in the next run: they are known to be wrong or incomplete."""
        for url in urls:
            self.store.forget(_without_host(url))

    def _fetch(self, url: str, price: float) -> bytes:
        problem = ""
        for attempt in range(self.attempts):
            if self.budget_usd is not None and self.spending.usd + price > self.budget_usd + 1e-12:
                again = "run the same command again to go on, or " if price <= self.budget_usd else ""
                raise Stopped(
                    f"the next request could take this run above its budget of ${self.budget_usd:g} "
                    f"(${self.spending.usd:.4f} spent, the request costs ${price:g}); {again}raise --budget"
                )
            pause = self.backoff * 2**attempt
            try:
                answer = self._get(url)
                body = answer.content
            except TimeoutError:
                problem = f"no whole answer after {self.deadline:g} seconds"
            except requests.RequestException as error:
                # Not the error's own text: it may repeat the address of a proxy with its password.
                problem = type(error).__name__
                if isinstance(error, ValueError):
                    raise BadInput(
                        f"--base-url {self.base_url} cannot be asked ({problem}); give an address such as {BASE_URL}, "
                        "and look at the proxies in the environment"
                    ) from None
            else:
                self._account(answer)
                if answer.status_code == 200:
                    if _is_whole(body):
                        return body
                    problem = "an answer that is not whole JSON"
                else:
                    refused = refusal(answer.status_code, answer.headers, body)
                    problem = f"{answer.status_code}: {refused.message}"
                    pause = max(pause, self._wait_for(refused))
            if attempt + 1 < self.attempts:
                self._notice(f"{problem}; waiting {pause:,.0f} s before try {attempt + 2} of {self.attempts}")
                self._sleep(pause)
        raise Stopped(
            f"no usable answer from {self.base_url} after {self.attempts} tries, the last was {problem}; everything "
            "fetched so far is kept, run the same command again to go on"
        )

    def _get(self, url: str) -> requests.Response:
        """An answer with its body; `TimeoutError` if it is not there within the deadline.

        The timeouts of `requests` are for the time between two bytes, so that an answer that comes byte by byte would
        hold the run for hours. A thread of its own waits for it and is left behind when the time is over.
        """
        future: Future[requests.Response] = Future()

        def fetch() -> None:
            try:
                future.set_result(self._session.get(url, auth=self._auth, timeout=(10, 60)))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=fetch, daemon=True).start()
        return future.result(self.deadline)

    def _account(self, answer: requests.Response) -> None:
        self.spending.requests += 1
        self.spending.usd += number(answer.headers.get("x-ratelimit-cost-usd")) or 0.0
        if (remaining := number(answer.headers.get("x-ratelimit-remaining-usd"))) is not None:
            self.spending.remaining_usd = remaining

    def _wait_for(self, refused: Refusal) -> float:
        """Seconds for which the API wants to be left alone; raises where waiting is no use, or takes too long."""
        if refused.kind in FINAL:
            why = f"OpenAlex refused the request: {refused.message}"
            if refused.kind == "bad_key" and self._has_key:
                why = (
                    f"OpenAlex does not accept the key in OPENALEX_API_KEY ({refused.message}); get one at "
                    "openalex.org/settings/api, or unset it to use the budget without a key"
                )
            elif refused.kind == "bad_key":
                why = f"OpenAlex wants a key for this request ({refused.message}); {FREE_KEY}"
            raise Refused(why, refused.kind)
        wait = until_midnight() if refused.kind == "budget" and refused.wait is None else refused.wait or 0.0
        if wait > self.patience:
            resume = datetime.now(UTC) + timedelta(seconds=wait)
            why = {"budget": "the day's budget is spent", "throttled": "the account is throttled"}
            more = "" if self._has_key or refused.kind != "budget" else f". With a key you need not wait: {FREE_KEY}"
            raise Stopped(
                f"{why.get(refused.kind, 'the API asks for a long pause')} ({refused.message}); run the same command "
                f"again after {resume:%Y-%m-%d %H:%M} UTC, in {math.ceil(wait / 60):,} minutes; everything fetched so "
                f"far is kept and not paid for again{more}"
            )
        return wait


class StoredPages(Connection):
    """Sends nothing: the answers are the pages that the last build has used."""

    def json(self, url: str, price: float, *, again: bool = False) -> dict[str, Any]:
        """The stored answer to a request. The last answer is the only one kept, so `again` changes nothing.

        Raises `BadInput` if the page is missing or damaged.
        """
        stored = self.store.get(_without_host(url), forgotten=True)
        if stored is None:
            raise BadInput(f"the page of {_without_host(url)} is missing from {self.store.folder}, or damaged")
        return orjson.loads(stored)

    def forget(self, urls: Iterable[str]) -> None:
        """Leave the pages as they are."""


@dataclass(frozen=True)
class Page:
    """Works of one page of a query that no page before had, and how many the query has in all, as the page says."""

    works: list[dict[str, Any]]
    count: int


def pages(works: Works, *, again: bool = False, most: int | None = None) -> Iterator[Page]:
    """All pages of a query, each work once, until ``next_cursor`` is null.

    A page that completes the count is the last one if it is not full, or if there are `most` works in all, which is as
    many as the query can have; this saves one paid request for each query. A page is requested again, up to `TRIES`
    times, if it repeats works of an earlier page, is not full although works are missing, or has the cursor of an
    earlier page. If the last try is wrong too, it is used as it is, and the caller compares the number of works with
    the count. Two pages in a row without a new work end the query, so that every series of cursors ends.
    """
    cursor, seen, cursors, without_news = "*", set(), set(), 0
    while cursor and cursor not in cursors and without_news < 2:
        cursors.add(cursor)
        answer: Any = []
        new, count, following = {}, 0, None
        for attempt in range(TRIES):
            works.again = again or attempt > 0
            answer = works.get(per_page=PER_PAGE, cursor=cursor)
            new = {key: work for work in answer if (key := _identity(work)) not in seen}
            count, following = answer.meta["count"], answer.meta["next_cursor"]
            is_short = len(answer) < PER_PAGE and len(seen) + len(new) < count
            if len(new) == len(answer) and not is_short and following not in cursors:
                break
        seen |= set(new)
        yield Page(list(new.values()), count)
        if len(seen) >= count and (len(answer) < PER_PAGE or len(seen) == most):
            return
        without_news = 0 if new else without_news + 1
        cursor = following


def whole_answer(works: Works, *, again: bool = False) -> tuple[list[dict[str, Any]], int]:
    """All works of a query, each once, and how many the API promises: the count that most of its pages give."""
    received = list(pages(works, again=again))
    counts = Counter(page.count for page in received)
    promised = max(counts, key=lambda count: (counts[count], count), default=0)
    return [work for page in received for work in page.works], promised


def single(source: Connection, identifier: str) -> dict[str, Any] | None:
    """One work by ``W...`` or ``doi:...``, which costs nothing; a merged work gives the one it went into (301), a work
    that does not exist gives None."""
    found: Any = Works(source)[identifier]
    return None if found == orjson.loads(NOT_THERE) else found


def _identity(work: Any) -> Any:
    identifier = work.get("id") if isinstance(work, dict) else None
    return identifier if isinstance(identifier, str) else orjson.dumps(work)


def _without_host(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _is_whole(body: bytes) -> bool:
    answer = json_object(body)
    if "results" in answer:
        meta = answer.get("meta")
        return isinstance(answer["results"], list) and isinstance(meta, dict) and {"count", "next_cursor"} <= set(meta)
    return isinstance(answer.get("id"), str)
