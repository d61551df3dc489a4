"""The internals of pyalex that `api/compat.py` leans on, and the gaps that `api/client.py` fills, are still there."""

from __future__ import annotations

import inspect
from typing import Any

import pyalex
import requests

from scisci_gym.datasets.openalex.api.compat import Works, key_header


class Recorded:
    def __init__(self, answer: dict[str, Any]):
        self.answer, self.urls = answer, []

    def json(self, url: str, price: float, *, again: bool = False) -> dict[str, Any]:
        self.urls.append((url, price))
        return self.answer

    def forget(self, urls) -> None: ...


def test_pyalex_get_from_url_is_what_every_query_calls():
    assert list(inspect.signature(pyalex.Works._get_from_url).parameters) == ["self", "url", "session"]
    source = Recorded({"results": [{"id": "W1"}], "meta": {"count": 1, "next_cursor": None}})
    found: Any = Works(source).filter(publication_year="1990").get(per_page=100, cursor="*")
    assert [dict(work) for work in found] == [{"id": "W1"}]
    assert found.meta == {"count": 1, "next_cursor": None}
    assert source.urls[0][0].startswith("https://api.openalex.org/works?filter=publication_year:1990")
    assert source.urls[0][1] == 0.0001
    Works(source).filter(has_abstract=True).search_title_and_abstract("river").get(per_page=100, cursor="*")
    assert source.urls[1][1] == 0.001


def test_pyalex_add_params_adds_a_parameter_that_pyalex_has_no_method_for():
    source = Recorded({"results": [], "meta": {"count": 0, "next_cursor": None}})
    Works(source).filter(has_abstract=True).search_title_and_abstract("a,b").get(per_page=100, cursor="*")
    assert source.urls[0][0].startswith("https://api.openalex.org/works?filter=has_abstract:true&search.title_and_abst")
    assert "search.title_and_abstract=a%2Cb&" in source.urls[0][0]


def test_pyalex_get_from_url_is_what_a_look_up_of_one_work_calls():
    source = Recorded({"id": "W1"})
    assert dict(Works(source)["W1"]) == {"id": "W1"}
    assert source.urls == [("https://api.openalex.org/works/W1", 0.0)]


def test_pyalex_openalexauth_sends_the_key_in_a_header_only():
    request = key_header("a-key")(requests.Request("GET", "https://api.openalex.org/works").prepare())
    assert request.headers["Authorization"] == "Bearer a-key"
    assert "a-key" not in request.url
    assert "Authorization" not in key_header(None)(requests.Request("GET", "https://x.org").prepare()).headers


def test_pyalex_still_lacks_what_the_client_adds():
    """If one of these fails, a part of `client.Connection` or `client.pages` can go."""
    assert pyalex.config.max_retries == 0
    assert pyalex.Works().paginate().n_max == 10_000
    assert not hasattr(pyalex.api.OpenAlexResponseList([], {}), "headers")
