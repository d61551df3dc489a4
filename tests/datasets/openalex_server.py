"""A local server that speaks the OpenAlex API over the works of a snapshot folder, and fails on request.

Run as ``python openalex_server.py WORKS_FOLDER``; it prints its port. Shapes follow recorded answers of 2025 and 2026:
``meta`` with count, cost and cursor, rate-limit headers, 301 for merged works, 400 with an explanation.

``POST /_control`` takes a JSON object: ``seed`` and ``rate`` of faults, ``kinds``, the ``pid`` to kill, ``key`` that is
accepted, ``budget`` in dollars, ``merged``, the status of merged works (301 or 404). ``GET /_log`` tells what was asked
for: ``[address, outcome, authorised]``.

A list can also lie: answer in good form what is not so. ``lies`` are the kinds (`LIES`), ``lie_rate`` how often; with
``steady`` an address always gets the same lie, otherwise it depends on the number of the request.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import random
import signal
import sys
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

KINDS = (
    "too_fast", "budget", "throttled", "paid", "server", "gateway", "reset", "cut", "truncated", "html",
    "kill_before", "kill_middle", "kill_after",
)  # fmt: skip
LIES = ("repeat", "twice", "vanish", "count_high", "count_low", "same_cursor", "first_cursor", "endless")
REFUSALS = {
    "too_fast": (429, {"retry-after": "0"}, {"error": "Too many requests", "message": "max 100 requests per second"}),
    "budget": (
        429,
        {"retry-after": "54000", "x-ratelimit-remaining-usd": "0"},
        {"error": "Insufficient budget", "message": "Your daily budget is spent."},
    ),
    "throttled": (429, {"retry-after": "3600"}, {"error": "Account throttled", "message": "Slow down."}),
    "paid": (429, {}, {"error": "Plan required", "message": "from_updated_date needs a paid plan."}),
    "server": (503, {}, {"error": "Service unavailable", "message": "try again"}),
    # Not among KINDS: these do not pass.
    "forever": (429, {"retry-after": "inf"}, {"error": "Too many requests"}),
    "centuries": (429, {"retry-after": "1e300"}, {"error": "Too many requests"}),
    "brackets": (429, {"retry-after": "54000"}, {"error": "Insufficient [/budget]"}),
    "needs_key": (403, {}, {"error": "Forbidden", "message": "Cursor paging needs an API key."}),
}
LONGEST_ADDRESS = 4094
"""Bytes of an address, by OpenAlex's documentation of 2026."""
LISTED_AUTHORS = 100
"""Authors of a work that a list gives."""


class Corpus:
    """The works and their citations, by number."""

    def __init__(self, folder: Path):
        self.works: dict[int, dict] = {}
        for part in sorted(folder.rglob("*.gz")):
            with gzip.open(part) as stream:
                for line in stream:
                    work = orjson.loads(line)
                    self.works[int(work["id"].rsplit("W", 1)[1])] = work
        merged = folder / "merged.json"
        self.merged = {int(k): v for k, v in json.loads(merged.read_text()).items()} if merged.exists() else {}
        self.citing: dict[int, list[int]] = defaultdict(list)
        self.by_doi = {}
        for number, work in self.works.items():
            for cited in work["referenced_works"]:
                self.citing[int(cited.rsplit("W", 1)[1])].append(number)
            if work.get("doi"):
                self.by_doi[work["doi"].lower().removeprefix("https://doi.org/")] = number
        self.words = {}

    def select(self, filters: list[str], search: str = "") -> list[int]:
        """Numbers of the works that pass all filters and hold all words of a search, most cited first."""
        chosen: set[int] | None = None
        tests = [lambda w: all(word in self.text(w) for word in search.lower().split())] if search else []
        for entry in filters:
            name, value = entry.split(":", 1)
            if name in ("openalex", "cites", "doi"):
                values = value.split("|")
                if len(values) > 100:
                    raise ValueError("Maximum number of values exceeded for OR filter (100).")
                if name == "doi":
                    found = {self.by_doi[v] for v in map(str.lower, values) if v in self.by_doi}
                else:
                    numbers = [int(v[1:]) for v in values]
                    found = {c for n in numbers for c in self.citing.get(n, ())} if name == "cites" else set(numbers)
                chosen = found if chosen is None else chosen & found
            elif name == "publication_year":
                first, _, last = value.partition("-")
                low, high = int(first or 0), int((last if "-" in value else first) or 9999)
                tests.append(lambda w, low=low, high=high: low <= (w["publication_year"] or -1) <= high)
            elif name == "has_abstract":
                tests.append(lambda w: bool(w["abstract_inverted_index"]))
            else:
                raise ValueError(f"{name} is not a valid field. Valid fields are ...")
        found = [
            n
            for n in (self.works if chosen is None else chosen)
            if n in self.works and not self.works[n].get("is_xpac") and all(test(self.works[n]) for test in tests)
        ]
        return sorted(found, key=lambda n: (-self.works[n]["cited_by_count"], n))

    def text(self, work: dict) -> str:
        """Words of title and abstract."""
        if work["id"] not in self.words:
            index = work["abstract_inverted_index"] or {}
            self.words[work["id"]] = f"{work['title'] or ''} {' '.join(index)}".lower()
        return self.words[work["id"]]


class State:
    """What the test asked for, and what happened."""

    def __init__(self):
        self.lock = threading.Lock()
        self.reset({})

    def reset(self, wish: dict) -> None:
        """Start afresh with a wish."""
        self.seed, self.rate = wish.get("seed", 0), wish.get("rate", 0.0)
        self.kinds, self.pid, self.key = wish.get("kinds", KINDS), wish.get("pid"), wish.get("key")
        self.budget = wish.get("budget", 1000.0)
        self.lies, self.lie_rate, self.steady = wish.get("lies", LIES), wish.get("lie_rate", 0.0), wish.get("steady")
        self.count, self.log, self.merged = wish.get("count", 0), [], wish.get("merged", 301)

    def fault(self) -> str | None:
        """The fault of the next request, by its number alone."""
        with self.lock:
            self.count += 1
            rng = random.Random(f"{self.seed}/{self.count}")
            return rng.choice(list(self.kinds)) if rng.random() < self.rate else None

    def lie(self, address: str) -> str | None:
        """The lie in the answer to a request."""
        rng = random.Random(f"{self.seed}/lie/{address if self.steady else self.count}")
        return rng.choice(list(self.lies)) if rng.random() < self.lie_rate else None


CORPUS: Corpus
STATE = State()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    # Two small writes an answer: waiting for the acknowledgement of the first would take 40 ms.
    disable_nagle_algorithm = True

    def log_message(self, *args) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """``/_control``."""
        wish = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if wish.get("keep"):
            STATE.pid = wish["pid"]
        else:
            STATE.reset(wish)
        self._send(200, {}, b"{}")

    def do_GET(self) -> None:
        """``/works``, ``/works/ID``, ``/_log``."""
        if self.path == "/_log":
            self._send(200, {}, json.dumps({"log": STATE.log, "count": STATE.count}).encode())
            return
        fault = STATE.fault()
        authorised = self.headers.get("authorization", "").removeprefix("Bearer ") == (STATE.key or "")
        outcome = [self.path, fault or "served", authorised]
        STATE.log.append(outcome)
        if fault == "kill_before":
            self._kill()
            return
        if fault == "reset":
            self.close_connection = True
            self.connection.close()
            return
        if len(self.path) > LONGEST_ADDRESS:
            message = f"Your request URL is {len(self.path)} bytes, over the {LONGEST_ADDRESS}-byte limit."
            self._send(400, {}, json.dumps({"error": "Request URL too long", "message": message}).encode())
        elif fault == "drip":
            self._drip()
        elif fault == "gateway":
            self._send(502, {"content-type": "text/html"}, b"<html>Bad gateway</html>")
        elif fault in REFUSALS:
            status, headers, body = REFUSALS[fault]
            self._send(status, headers, json.dumps(body).encode())
        elif STATE.key is not None and not authorised:
            self._send(401, {}, b'{"error": "Invalid or missing API key", "message": "API key not found"}')
        else:
            self._answer(fault)

    def _answer(self, fault: str | None) -> None:
        status, headers, body, price = self._work()
        with STATE.lock:
            if price > STATE.budget + 1e-12:
                status, extra, refused = REFUSALS["budget"]
                self._send(status, extra, json.dumps(refused).encode())
                return
            STATE.budget -= price
        headers |= {
            "x-ratelimit-cost-usd": f"{price:g}",
            "x-ratelimit-limit-usd": "1",
            "x-ratelimit-remaining-usd": f"{STATE.budget:.4f}",
            "x-ratelimit-reset": "40000",
        }
        if fault == "html":
            self._send(200, {"content-type": "text/html"}, b"<html>Just a moment...</html>")
        elif fault == "truncated":
            self._send(200, headers, body[: len(body) // 2])
        elif fault in ("cut", "kill_middle"):
            self._send(status, headers, body[: len(body) // 2], length=len(body))
            self.wfile.flush()
            if fault == "kill_middle":
                self._kill()
            self.close_connection = True
        else:
            self._send(status, headers, body)
            if fault == "kill_after":
                self.wfile.flush()
                time.sleep(random.Random(f"{STATE.seed}/{STATE.count}/delay").random() * 0.01)
                self._kill()

    def _work(self) -> tuple[int, dict, bytes, float]:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        if parts.path.startswith("/works/"):
            return self._single(unquote(parts.path.removeprefix("/works/")))
        search = query.get("search.title_and_abstract", "")
        try:
            size = int(query.get("per-page", 25))
            if not 1 <= size <= 100:
                raise ValueError("per-page parameter must be between 1 and 100")
            found = CORPUS.select(query["filter"].split(","), search)
        except ValueError as error:
            answer = {"error": "Invalid query parameters error.", "message": str(error)}
            return 400, {}, json.dumps(answer).encode(), 0.0001
        start = 0 if query["cursor"] == "*" else int(base64.b64decode(query["cursor"]))
        page = found[start : start + size]
        # Recorded answers show both: a cursor after the last page, and none.
        more = start + size < len(found) or (page and len(found) % 2 == 0)
        cursor = base64.b64encode(str(start + size).encode()).decode()
        lie = STATE.lie(self.path)
        if lie == "repeat" and start:
            page = found[start - size : start]
        elif lie == "twice" and start:
            page = [found[0], *page[1:]]
        elif lie == "vanish":
            page = page[:-1]
        count = {"count_high": len(found) + 2, "count_low": len(found) // 2}.get(lie or "", len(found))
        more = more or lie == "endless"
        cursor = {"same_cursor": query["cursor"], "first_cursor": "*"}.get(lie or "", cursor)
        price = 0.001 if search else 0.0001
        answer = {
            "meta": {
                "count": count,
                "db_response_time_ms": random.randrange(90),
                "page": None,
                "per_page": size,
                "next_cursor": cursor if more else None,
                "groups_count": None,
                "cost_usd": price,
            },
            "results": [self._selected(CORPUS.works[n], query.get("select")) for n in page],
            "group_by": [],
        }
        return 200, {}, orjson.dumps(answer), price

    def _single(self, name: str) -> tuple[int, dict, bytes, float]:
        number = CORPUS.by_doi.get(name[4:].lower()) if name.startswith("doi:") else int(name[1:])
        if number in CORPUS.merged and STATE.merged == 301:
            return 301, {"location": f"/works/W{CORPUS.merged[number]}"}, b"", 0.0
        if number not in CORPUS.works:
            return 404, {"content-type": "text/html"}, b"<html>404</html>", 0.0
        return 200, {}, orjson.dumps(CORPUS.works[number]), 0.0

    def _selected(self, work: dict, select: str | None) -> dict:
        if len(work.get("authorships") or ()) > LISTED_AUTHORS:
            work = {**work, "authorships": work["authorships"][:LISTED_AUTHORS], "is_authors_truncated": True}
        return work if select is None else {name: work.get(name) for name in select.split(",")}

    def _send(self, status: int, headers: dict, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        """A byte of an answer that is never whole, every now and then."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + b" " * 60:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.05)

    def _kill(self) -> None:
        self.close_connection = True
        if STATE.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(STATE.pid, signal.SIGKILL)


if __name__ == "__main__":
    CORPUS = Corpus(Path(sys.argv[1]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
