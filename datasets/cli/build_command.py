"""What all `scisci-gym build` commands share: their options, and what they print at the end."""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from ..build import BuildOptions
from ..byte_size import byte_size
from ..card import label_shares
from ..errors import stop_on_bad_input
from ..hub import push
from ..labels.eligibility import LabelRules
from ..paper import DISRUPTION_LABELS
from ..splits import SPLITS, SplitYears
from .labels import Scheme


def build_options(
    labels: Annotated[
        Scheme, typer.Option(help="threshold: CD beyond +-threshold; quantile: tertiles within field and year.")
    ] = "threshold",
    window: Annotated[int, typer.Option(help="Years after publication whose citations count, for every label.")] = 5,
    threshold: Annotated[float, typer.Option(help="Cut of the threshold scheme.")] = 0.1,
    min_references: Annotated[int, typer.Option(help="References in the data that a labelled paper needs.")] = 5,
    min_citations: Annotated[int, typer.Option(help="Citations inside the window that a labelled paper needs.")] = 5,
    last_complete_year: Annotated[
        int | None,
        typer.Option(
            help="Last year that the data covers completely (default: estimated from the works). "
            "`synthetic` takes its own."
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="Language of labelled papers, or 'any'.")] = "en",
    split: Annotated[
        Literal["closed", "publication"],
        typer.Option(help="closed: training windows close before the first test paper; publication: by year."),
    ] = "closed",
    split_years: Annotated[
        str | None, typer.Option(help="TRAIN_TO,VALIDATION_TO,TEST_FROM,TEST_TO instead of chosen years.")
    ] = None,
    balance_train: Annotated[
        bool, typer.Option("--balance-train", help="Make labels equally common in the training set, and only there.")
    ] = False,
    cutoff: Annotated[
        str | None,
        typer.Option(help="A model's knowledge cutoff, YYYY-MM-DD: also write the test papers before and since."),
    ] = None,
    novelty: Annotated[
        bool | None,
        typer.Option(
            "--novelty/--no-novelty",
            help="Novelty labels from the venues that papers cite together (default: yes; for `openalex` no, since a "
            "neighbourhood does not hold the literature of a year).",
        ),
    ] = None,
    max_references: Annotated[int, typer.Option(help="Titles of cited papers kept with each paper, at most.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of everything that is random.")] = 0,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for counting citing papers and venue pairs, such as 8GB: slices of years that fit, one after "
            "another, from a citation graph on disk (default: all at once, from one in memory). The dataset does not "
            "depend on it. Not for `sciscinet`.",
        ),
    ] = None,
) -> BuildOptions:
    """Turn the options that all sources share into `BuildOptions`."""
    rules = LabelRules(
        scheme=labels,
        threshold=threshold,
        window=window,
        min_references=min_references,
        min_citations=min_citations,
        last_complete_year=last_complete_year,
        language=None if language == "any" else language,
    )
    return BuildOptions(
        rules=rules,
        split=split,
        split_years=None if split_years is None else _years(split_years),
        max_references=max_references,
        command=("scisci-gym", *sys.argv[1:]),
        novelty=novelty is not False,
        balance_train=balance_train,
        cutoff=None if cutoff is None else _date(cutoff),
        seed=seed,
        memory=None if memory is None else byte_size(memory),
    )


def recorded_options(command: Any, words: Sequence[str]) -> tuple[dict[str, Any], BuildOptions]:
    """Parse the words that followed the name of a build command, as its card recorded them.

    Returns the values of the command's own parameters, and the options that all builds share. Words that it does not
    know end the program, as on the command line.
    """
    values = command.make_context(command.name, list(words)).params
    options = build_options(**{name: values.pop(name) for name in _parameters(build_options)})
    return values, options


def ending(
    out: Annotated[
        Path, typer.Option("--out", help="Folder to write the dataset to; an earlier dataset there is replaced.")
    ],
    push_to_hub: Annotated[
        str | None,
        typer.Option("--push-to-hub", metavar="REPO", help="Upload the dataset as OWNER/NAME (needs HF_TOKEN)."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars, no table.")] = False,
) -> None:
    """The options that say where the dataset is written, whether it is uploaded, and what is printed."""


def build_command(novelty: bool = True) -> Callable[[Callable[..., dict[str, Any] | None]], Callable[..., None]]:
    """Make a typer command of a function that builds a dataset; `novelty` is the default of ``--novelty``.

    The function has the parameters of its own source and ``out``, ``options`` (`BuildOptions`) and ``quiet``, and
    returns the card, or None if it was not to build anything. The command has the function's own parameters and those
    of `build_options` and `ending`. It reports wrong input in one line, prints the table, and uploads the dataset.
    """

    def decorate(build: Callable[..., dict[str, Any] | None]) -> Callable[..., None]:
        own = {name: p for name, p in _parameters(build).items() if name not in ("out", "options", "quiet")}

        @functools.wraps(build)
        def command(out: Path, push_to_hub: str | None, quiet: bool, **values: Any) -> None:
            given = {name: values.pop(name) for name in own}
            values["novelty"] = novelty if values["novelty"] is None else values["novelty"]

            def run() -> None:
                card = build(**given, out=out, options=build_options(**values), quiet=quiet)
                if card is None:
                    return
                if not quiet:
                    show(card, out)
                if push_to_hub is not None:
                    push(out, push_to_hub)

            stop_on_bad_input(run)

        parameters = [*own.values(), *_parameters(ending).values(), *_parameters(build_options).values()]
        parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


def _years(text: str) -> SplitYears:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--split-years takes four years such as 1995,1996,2002,2004, got {text!r}")
    return SplitYears(*(int(part) for part in parts))


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"--cutoff takes a date such as 2024-06-30, got {text!r}") from error


def show(card: dict[str, Any], out: Path) -> None:
    """Print what a dataset holds and what was left out."""
    console = Console(highlight=False)
    heading = f"{card['works_in_graph']:,} works"
    if "citations" in card:
        heading += f", {card['citations']['kept']:,} citations"
    table = Table(title=heading, title_justify="left")
    for column in ("split", "years", "papers", *DISRUPTION_LABELS):
        table.add_column(column, justify="left" if column in ("split", "years") else "right")
    for name, share in {**{name: card["splits"][name] for name in SPLITS}, **card.get("cutoff_views", {})}.items():
        papers = share["papers"]
        years = f"{share['years'][0]}-{share['years'][1]}" if papers else "-"
        table.add_row(name, years, f"{papers:,}", *label_shares(share))
    console.print(table)
    for title, reasons in (("not used", card["works_dropped"]), ("without a label", card["not_labelled"])):
        if reasons:
            console.print(f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in reasons.items()))
    for name, share in card.get("cutoff_views", {}).items():
        if not share["papers"]:
            console.print(f"[yellow]{name} is empty[/yellow]: no test paper is on that side of {card['cutoff']}")
    if "ceiling" in card:
        test = card["ceiling"]["test"]
        console.print(
            f"best reachable: accuracy {card['ceiling']['fidelity']:g} expected; on this test split accuracy "
            f"{test['accuracy']:.3f}, macro-F1 {test['macro_f1']:.3f}"
        )
    console.print(f"written to {out} (card: {out / 'README.md'})")
