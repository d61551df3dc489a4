"""Which of two papers appeared first, as far as the source's dates tell."""

from __future__ import annotations


def known_day(publication_date: str, publication_year: int) -> str:
    """The date, or "" where only the year is known.

    OpenAlex writes 1 January where it only knows the year, so that day counts as unknown; so does a date that is not
    ``YYYY-MM-DD`` or lies in another year than the paper.

    Examples
    --------
    >>> known_day("1999-05-31", 1999), known_day("1999-01-01", 1999), known_day("1999-05-31", 1998)
    ('1999-05-31', '', '')
    """
    day = len(publication_date) == 10 and publication_date.startswith(f"{publication_year}-")
    return publication_date if day and not publication_date.endswith("-01-01") else ""


def certainly_before(date: str, year: int, other_date: str, other_year: int) -> bool:
    """Whether a paper certainly appeared before another one.

    Papers of different years are compared by their years, papers of the same year by their dates. The same day, or a
    day that is not known, is not certainly before.

    Parameters
    ----------
    date, other_date : str
        ``YYYY-MM-DD``, or "" where unknown.
    year, other_year : int

    Examples
    --------
    >>> certainly_before("", 1998, "1999-05-31", 1999), certainly_before("1999-05-30", 1999, "1999-05-31", 1999)
    (True, True)
    >>> certainly_before("1999-05-31", 1999, "1999-05-31", 1999), certainly_before("", 1999, "1999-05-31", 1999)
    (False, False)
    """
    if year != other_year:
        return year < other_year
    day, other_day = known_day(date, year), known_day(other_date, other_year)
    return bool(day and other_day) and day < other_day
