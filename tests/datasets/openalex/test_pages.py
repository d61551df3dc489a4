"""`pages` on any sequence of answers: it ends, gives no work twice, and all works of an API that tells the truth."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets.openalex.api import client
from scisci_gym.datasets.openalex.api.client import TRIES, pages, whole_answer
from scisci_gym.datasets.openalex.api.compat import Works

POOL = 12
CURSORS = ["a", "b", "c", "d"]


class Answers:
    """Stands in for a connection: the n-th request gets the n-th answer, and after the last the first again.

    The cursor ``"new"`` is another one in every answer, as of an API whose cursors never repeat.
    """

    def __init__(self, answers: list[dict[str, Any]]):
        self.answers, self.requests = answers, 0

    def json(self, url: str, price: float, *, again: bool = False) -> dict[str, Any]:
        answer = self.answers[self.requests % len(self.answers)]
        self.requests += 1
        cursor = answer["meta"]["next_cursor"]
        following = f"new-{self.requests}" if cursor == "new" else cursor
        return {**answer, "meta": {**answer["meta"], "next_cursor": following}}


def answer(works: list[int], count: int, cursor: str | None) -> dict[str, Any]:
    return {
        "results": [{"id": f"https://openalex.org/W{number}"} for number in works],
        "meta": {"count": count, "next_cursor": cursor},
    }


ANSWERS = st.lists(
    st.builds(
        answer,
        st.lists(st.integers(0, POOL - 1), max_size=4),
        st.integers(0, 2 * POOL),
        st.sampled_from([None, "new", *CURSORS]),
    ),
    min_size=1,
    max_size=8,
)


@given(ANSWERS, st.sampled_from([1, 3, 100]))
def test_any_sequence_of_pages_ends_and_no_work_is_counted_twice(answers, per_page):
    connection = Answers(answers)
    before, client.PER_PAGE = client.PER_PAGE, per_page
    try:
        works, _ = whole_answer(Works(connection).filter(publication_year="2000"))  # type: ignore[arg-type]
    finally:
        client.PER_PAGE = before
    ids = [work["id"] for work in works]
    assert len(ids) == len(set(ids)) <= POOL
    # Every page brings a new work or is followed by at most one more that does not, and is asked for TRIES times.
    assert connection.requests <= TRIES * 2 * (POOL + 1)


@given(st.lists(st.integers(0, POOL - 1), unique=True), st.integers(1, 5), st.booleans())
def test_all_works_of_an_api_that_tells_the_truth_are_given_in_order(numbers, per_page, cursor_after_the_last):
    chunks = [numbers[start : start + per_page] for start in range(0, len(numbers), per_page)] or [[]]
    cursors = [f"c{index}" for index in range(1, len(chunks))] + ["last" if cursor_after_the_last and numbers else None]
    answers = [answer(chunk, len(numbers), cursor) for chunk, cursor in zip(chunks, cursors, strict=True)]
    connection = Answers([*answers, answer([], len(numbers), None)])
    before, client.PER_PAGE = client.PER_PAGE, per_page
    try:
        given_pages = list(pages(Works(connection).filter(publication_year="2000")))  # type: ignore[arg-type]
    finally:
        client.PER_PAGE = before
    assert [work["id"] for page in given_pages for work in page.works] == [
        f"https://openalex.org/W{number}" for number in numbers
    ]
    assert connection.requests <= len(chunks) + 1
