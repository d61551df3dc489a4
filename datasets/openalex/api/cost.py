"""How many requests it takes to collect papers from the OpenAlex API, and what they cost, before any is sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from .client import MAX_IDS, PER_PAGE
from .compat import LIST_USD, SEARCH_USD
from .neighbourhood import Collected, citing_batches, seed_filters
from .wanted import Wanted

REFERENCES = 33
"""References of a paper: the mean of 859 works taken from OpenAlex."""
CITING_A_YEAR = (3, 79)
"""Works that cite a paper in a year: median and mean of 482 works taken from OpenAlex. A few are cited enormously."""


@dataclass(frozen=True)
class Step:
    """One step of a plan: the least and the most requests expected, the price of one, and the basis of the estimate."""

    name: str
    low: int
    high: int
    price_usd: float
    basis: str


def first_plan(wanted: Wanted) -> list[Step]:
    """The plan before the first request."""
    seeds, steps = wanted.seeds[: wanted.max_focal], []
    filters = seed_filters(seeds)
    focal = len(seeds) if wanted.query is None else wanted.max_focal
    asked = focal * (1 + REFERENCES)
    if wanted.query is not None:
        steps.append(Step("focal papers", 1, _pages(focal), SEARCH_USD, "at most --max-focal, 100 a page"))
    if seeds:
        steps.append(Step("seeds", len(filters), len(filters), LIST_USD, "100 in a request, fewer if they are long"))
    basis = f"{REFERENCES} references for each paper, none shared"
    steps.append(Step("references", 0, _pages(focal * REFERENCES), LIST_USD, basis))
    left = len(seeds) - sum(len(values) for _, values in filters)
    basis = "what lists leave out: merged works, more than 100 authors"
    steps.append(Step("one by one", left, len(seeds) + asked, 0.0, basis))
    low, high = (_pages(asked) + _pages(asked * a_year * wanted.window) for a_year in CITING_A_YEAR)
    basis = f"{CITING_A_YEAR[0]} (median) to {CITING_A_YEAR[1]} (mean) citing works in each of {wanted.window} years"
    return [*steps, Step("citing works", low, high, LIST_USD, basis)]


def second_plan(wanted: Wanted, collected: Collected) -> list[Step]:
    """The plan for the citing works, when the focal papers and their references are known."""
    batches = citing_batches(wanted, collected)
    cited = [sum(collected.rows[n]["cited_by_count"] for n in ids if n in collected.rows) for ids, _, _ in batches]
    most, works = sum(1 + count // PER_PAGE for count in cited), sum(len(ids) for ids, _, _ in batches)
    return [Step("citing works", len(batches), most, LIST_USD, f"all citations of {works:,} works until today")]


def cost(steps: Sequence[Step]) -> tuple[float, float]:
    """Dollars, at least and at most expected."""
    return sum(step.low * step.price_usd for step in steps), sum(step.high * step.price_usd for step in steps)


def _pages(results: int) -> int:
    return -(-results // MAX_IDS)
