"""Titles that were changed after publication, as publishers write them: no mark of it reaches a prompt."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets.openalex import notices
from scisci_gym.datasets.openalex.notices import MARKED_TITLE, NOTICE_TITLE, title_as_published

MARKS = (
    *("RETRACTED: {}", "RETRACTED ARTICLE: {}", "Retracted: {}", "[Retracted] {}", "WITHDRAWN: {}", "RETRACTED {}"),
    *("RETRACTED—{}", "RETRACTED- {}", "Retracted – {}", "{{RETRACTED}} {}", "【RETRACTED】{}"),
    *("<b>RETRACTED</b>: {}", "<i>RETRACTED: </i>{}", "{}. RETRACTED", "{} | RETRACTED", "{} (Retracted)"),
    "Notice of Violation of IEEE Publication Principles: {}",
    "Notice of Violation of IEEE Publication Principles<BR>{}",
)
NOTICES = (
    "Statement of Retraction: {}",
    "Editorial Retraction: {}",
    "Withdrawal notice to “{}”",
    "Retraction note: {}",
)
PLAIN = (
    "Retracted shocks in a plasma", "Retraction of soft tissue", "Withdrawn states: a history", "Statement of intent",
    "A well-retracted tip", "Editorial: retraction rates", "The withdrawal reflex", "<i>E. coli</i> in a jar",
)  # fmt: skip


def matches(pattern: str, title: str) -> bool:
    return pc.match_substring_regex(pa.array([title]), pattern)[0].as_py()


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_is_seen_and_taken_off(mark: str) -> None:
    title = mark.format("Cold fusion in a jar")
    assert matches(MARKED_TITLE, title)
    assert title_as_published(title) == "Cold fusion in a jar"


@pytest.mark.parametrize("notice", NOTICES)
def test_a_notice_is_no_article(notice: str) -> None:
    title = notice.format("Cold fusion in a jar")
    assert matches(NOTICE_TITLE, title)
    assert title_as_published(title) == "Cold fusion in a jar"


@pytest.mark.parametrize("title", PLAIN)
def test_other_titles_stay(title: str) -> None:
    assert not matches(MARKED_TITLE, title)
    assert not matches(NOTICE_TITLE, title)
    assert title_as_published(title) == title


@given(st.from_regex(notices._ANY), st.text(max_size=5))
def test_every_title_that_is_changed_has_a_stem(title: str, more: str) -> None:
    changed = [each for each in (title, more + title, title + more) if notices._ANY.search(each.strip())]
    assert [each for each in changed if not any(stem in each.lower() for stem in notices._STEMS)] == []
