"""What this package takes from pyalex beyond its documented interface.

`test_compat.py` fails by name when one of these internals moves; pyproject.toml has an upper bound for pyalex.

- A query calls ``_get_from_url`` for every address and makes its answers of ``resource_class``: `Works` overrides the
  first, so that the request goes through a connection of ours, which keeps pages and reads the headers.
- ``_add_params`` adds a parameter to an address: `Works.search_title_and_abstract`, which pyalex has no method for.
- The path of an address is the name of the class, in lower case.
- ``pyalex.api.OpenAlexAuth`` sends the key in a header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyalex
from pyalex.api import AlexConfig, OpenAlexAuth, OpenAlexResponseList

if TYPE_CHECKING:
    from .client import Connection

LIST_USD, SEARCH_USD = 0.0001, 0.001
"""Price of a page of a list, and of a search. A single work costs nothing."""


class Works(pyalex.Works):
    """pyalex's query builder, with answers from a `Connection`.

    `sent` are the addresses that were asked for so far; while `again` is true, no answer is taken from disk.
    """

    def __init__(self, source: Connection, params: Any = None):
        super().__init__(params)
        self.source, self.again = source, False
        self.sent: dict[str, None] = {}

    def search_title_and_abstract(self, words: str) -> Works:
        """Add words to find. They are a parameter of their own: in a filter, a comma in them would start another."""
        self._add_params("search.title_and_abstract", words)
        return self

    def _get_from_url(self, url: str, session: Any = None) -> Any:
        price = 0.0 if isinstance(self.params, str) else SEARCH_USD if _is_search(self.params) else LIST_USD
        self.sent[url] = None
        answer = self.source.json(url, price, again=self.again)
        if "results" not in answer:
            return self.resource_class(answer)
        return OpenAlexResponseList(answer["results"], answer["meta"], self.resource_class)


def key_header(key: str | None) -> OpenAlexAuth:
    """Authorisation for `requests` that sends the key, if there is one, in a header and never in an address."""
    return OpenAlexAuth(AlexConfig({**pyalex.config, "api_key": key, "email": None}))


def _is_search(params: Any) -> bool:
    return isinstance(params, dict) and any(name.partition(".")[0] == "search" for name in params)
