"""The command-line options that every source shares, as one decorator."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

import typer

from ..build import BuildOptions
from ..labels.eligibility import LabelRules
from ..splits import SplitYears
from .labels import Scheme


class Split(StrEnum):
    """Ways to split by time."""

    closed = "closed"
    publication = "publication"


def _options(
    labels: Annotated[
        Scheme, typer.Option(help="threshold: CD beyond +-threshold; quantile: tertiles within field and year.")
    ] = Scheme.threshold,
    window: Annotated[int, typer.Option(help="Years after publication whose citations count, for every label.")] = 5,
    threshold: Annotated[float, typer.Option(help="Cut of the threshold scheme.")] = 0.1,
    min_references: Annotated[int, typer.Option(help="References in the data that a labelled paper needs.")] = 5,
    min_citations: Annotated[int, typer.Option(help="Citations inside the window that a labelled paper needs.")] = 5,
    last_complete_year: Annotated[
        int | None, typer.Option(help="Last year the data covers completely (default: found from the works per year).")
    ] = None,
    language: Annotated[str, typer.Option(help="Language of labelled papers, or 'any'.")] = "en",
    split: Annotated[
        Split, typer.Option(help="closed: training windows close before the first test paper; publication: by year.")
    ] = Split.closed,
    split_years: Annotated[
        str | None, typer.Option(help="TRAIN_TO,VALIDATION_TO,TEST_FROM,TEST_TO instead of chosen years.")
    ] = None,
    balance_train: Annotated[
        bool, typer.Option("--balance-train", help="Equally common labels in the training set (only there).")
    ] = False,
    cutoff: Annotated[
        str | None, typer.Option(help="A model's knowledge cutoff, YYYY-MM-DD: test sets before it and since.")
    ] = None,
    novelty: Annotated[
        bool | None, typer.Option("--novelty/--no-novelty", help="Novelty labels from the venues that papers cite.")
    ] = None,
    max_references: Annotated[int, typer.Option(help="Titles of cited papers kept with each paper.")] = 20,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
) -> BuildOptions:
    rules = LabelRules(
        scheme=str(labels),
        threshold=threshold,
        window=window,
        min_references=min_references,
        min_citations=min_citations,
        last_complete_year=last_complete_year,
        language=None if language == "any" else language,
    )
    return BuildOptions(
        rules=rules,
        split=str(split),
        split_years=_years(split_years),
        max_references=max_references,
        command=("scisci-gym", *sys.argv[1:]),
        novelty=True if novelty is None else novelty,
        balance_train=balance_train,
        cutoff=_date(cutoff),
        seed=seed,
    )


def with_build_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options above to a typer command, which receives them as ``options``: a function of no arguments that
    gives the `BuildOptions`, or raises `ValueError` for values that do not go together."""
    shared = inspect.signature(_options, eval_str=True).parameters
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]

    @functools.wraps(command)
    def wrapped(**values: Any) -> Any:
        mine = {name: values.pop(name) for name in [p.name for p in own]}
        return command(**mine, options=functools.partial(_options, **values))

    parameters = [*own, *shared.values()]
    parameters.sort(key=lambda p: p.default is not inspect.Parameter.empty)
    wrapped.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _years(text: str | None) -> SplitYears | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--split-years takes four years such as 1995,1996,2002,2004, got {text!r}")
    return SplitYears(*(int(part) for part in parts))


def _date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"--cutoff takes a date such as 2024-06-30, got {text!r}") from error
