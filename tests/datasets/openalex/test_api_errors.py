"""What the API means when it says no."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import pytest

from scisci_gym.datasets.openalex.api.errors import LONGEST_WAIT, Refusal, refusal, until_midnight

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "wait"),
    [
        (429, {"retry-after": "1"}, {"message": "max 100 requests per second"}, "too_fast", 1.0),
        (429, {}, {"error": "Too Many Requests"}, "too_fast", None),
        (429, {"retry-after": "54000", "x-ratelimit-remaining-usd": "0"}, {}, "budget", 54000.0),
        (429, {"retry-after": "54000"}, {"error": "Insufficient budget"}, "budget", 54000.0),
        (429, {"x-ratelimit-reset": "39000"}, {"error": "Daily budget exceeded"}, "budget", 39000.0),
        (429, {"retry-after": "3600"}, {"error": "Account throttled"}, "throttled", 3600.0),
        (429, {}, {"message": "from_updated_date needs a paid plan"}, "paid", None),
        (429, {"retry-after": "Fri, 20 Nov 2026 12:01:00 GMT"}, {}, "too_fast", 60.0),
        (429, {"retry-after": "soon"}, {}, "too_fast", None),
        (429, {"retry-after": "inf", "x-ratelimit-remaining-usd": "nan"}, {}, "too_fast", None),
        (429, {"retry-after": "1e300"}, {}, "too_fast", LONGEST_WAIT),
        (403, {}, {"message": "An API key is required for cursor paging"}, "bad_key", None),
        (400, {}, {"error": "Cursor paging needs api_key"}, "bad_key", None),
        (414, {}, None, "bad_request", None),
        (403, {}, {"error": "Rate limit exceeded; slow down"}, "too_fast", None),
        (400, {}, {"error": "Invalid query parameters error."}, "bad_request", None),
        (401, {}, {"error": "Invalid or missing API key"}, "bad_key", None),
        (404, {}, None, "not_found", None),
        (500, {}, None, "server", None),
        (503, {"retry-after": "5"}, {}, "server", 5.0),
    ],
)
def test_kinds_of_refusal(status, headers, body, kind, wait):
    found = refusal(status, headers, b"<html>" if body is None else json.dumps(body).encode(), NOON)
    assert (found.kind, found.wait) == (kind, wait)


def test_recorded_refusals(api_answers):
    with gzip.open(api_answers, "rt") as stream:
        recorded = [json.loads(line) for line in stream]
    refused = [a for a in recorded if a["status"] != 200]
    assert len(refused) == 14
    for answer in refused:
        found = refusal(answer["status"], answer["headers"], json.dumps(answer["body"]).encode())
        assert found.kind == {400: "bad_request", 401: "bad_key"}[answer["status"]]
        assert answer["body"]["error"] in found.message


def test_the_budget_starts_again_at_midnight_utc():
    assert until_midnight(NOON) == 12 * 3600


def test_a_refusal_that_is_not_json_still_has_a_message():
    assert refusal(502, {}, b"<html>") == Refusal("server", "status 502")
