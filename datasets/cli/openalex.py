"""`scisci-gym build openalex`: print the plan, collect papers from the API, build the dataset."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import rich
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..atomic_files import write_json_atomically
from ..build import BuildOptions, build_dataset
from ..dataset_folder import dataset_folder, refuse_overlap
from ..errors import BadInput, read_json
from ..openalex.api.client import BASE_URL, DAILY_USD, FREE_KEY, Connection, api_key
from ..openalex.api.cost import Step, cost, first_plan, second_plan
from ..openalex.api.errors import Stopped
from ..openalex.api.neighbourhood import Collected, collect, floored
from ..openalex.api.response_cache import PageStore
from ..openalex.api.wanted import Wanted, read_seeds
from ..openalex.shards import write_works
from ..progress import step_bars
from .build_command import build_command

STOPPED, INTERRUPTED = 3, 130


# A neighbourhood is not the literature of a year, with which novelty scores compare a paper.
@build_command(novelty=False)
def openalex(
    out: Path,
    options: BuildOptions,
    quiet: bool,
    query: Annotated[str | None, typer.Option(help="Words in the title and abstract of focal papers.")] = None,
    seeds: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Text file with the OpenAlex id or DOI of one focal paper on each line."),
    ] = None,
    from_year: Annotated[int | None, typer.Option(help="First publication year of focal papers.")] = None,
    to_year: Annotated[int | None, typer.Option(help="Last publication year of focal papers.")] = None,
    max_focal: Annotated[int, typer.Option(help="Largest number of focal papers.")] = 200,
    max_cited: Annotated[
        int | None,
        typer.Option(
            help="Do not fetch the citing works of works cited more often than this; papers that cite such a work get "
            "no label."
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Dollars that this run may spend.")] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds to wait when the API asks for a pause; a longer pause stops the run.")
    ] = 120.0,
    base_url: Annotated[
        str, typer.Option(envvar="OPENALEX_BASE_URL", help="Address of the API, or of a server that speaks it.")
    ] = BASE_URL,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and its cost, and send no request.")
    ] = False,
    backoff: Annotated[float, typer.Option(hidden=True)] = 1.0,
) -> dict[str, Any] | None:
    """Papers from the OpenAlex API, with the works that they cite and the works that cite either.

    The key is read from OPENALEX_API_KEY. Fetched pages are kept in OUT/pages. A run that has stopped is continued by
    the same command; exit status 3 means that the API has to be asked again later.
    """
    ids = () if seeds is None else read_seeds(seeds)
    wanted = Wanted(query, ids, from_year, to_year, max_focal, options.rules.window, max_cited)
    refuse_overlap(out, [] if seeds is None else [seeds])
    key, console, steps = api_key(), Console(quiet=quiet and not dry_run, highlight=False), first_plan(wanted)
    show_plan(steps, f"Plan for up to {wanted.max_focal:,} focal papers", console)
    low, high = cost(steps)
    console.print(
        f"Expected cost ${low:.4f} to ${high:.4f}; the free budget of a day is "
        + (f"${DAILY_USD[True]:g}." if key else f"${DAILY_USD[False]:g} or less without a key; {FREE_KEY}.")
        + " A run that stops at the budget can be continued the next day, and no page is paid for twice."
    )
    if dry_run:
        return None
    with dataset_folder(out):
        store = PageStore(out / "pages")
        connection = Connection(
            store,
            base_url=base_url,
            key=key,
            budget_usd=budget,
            patience=patience,
            backoff=backoff,
            # On the console of the progress bars, which makes room for it.
            notice=lambda text: None if quiet else rich.print(f"[yellow]{escape(text)}[/yellow]"),
        )
        try:
            return build_openalex(wanted, connection, out, options, quiet=quiet)
        except (Stopped, KeyboardInterrupt) as stop:
            is_stopped = isinstance(stop, Stopped)
            why = str(stop) if is_stopped else "everything fetched so far is kept; run the same command again to go on"
            errors = Console(stderr=True, soft_wrap=True, highlight=False)
            errors.print(f"[yellow]{'stopped' if is_stopped else 'interrupted'}:[/yellow] {escape(why)}")
            raise typer.Exit(STOPPED if is_stopped else INTERRUPTED) from stop
        finally:
            spent = connection.spending
            left = "" if spent.remaining_usd is None else f", ${spent.remaining_usd:.4f} left of the day's budget"
            Console(quiet=quiet, highlight=False).print(
                f"{spent.requests:,} requests, {spent.pages:,} pages fetched, {spent.reused:,} taken from disk, "
                f"${spent.usd:.4f} spent{left}"
            )


def build_openalex(
    wanted: Wanted, connection: Connection, out: Path, options: BuildOptions, *, quiet: bool = False
) -> dict[str, Any]:
    """Collect papers and their neighbourhood, build the dataset, and return its card.

    Raises `Stopped` if the API does not answer for now; a second call continues from there.
    """

    def plan_citing_works(collected: Collected) -> None:
        console, steps = Console(quiet=quiet, highlight=False), second_plan(wanted, collected)
        show_plan(steps, "Plan for the citing works", console)
        left = connection.spending.remaining_usd
        if left is not None and cost(steps)[1] > left:
            console.print(
                f"[yellow]This may cost up to ${cost(steps)[1]:.4f}; the day's budget has ${left:.4f} left.[/yellow] "
                "--max-cited leaves out the citing works of the most cited references."
            )

    closed_by = options.rules.last_complete_year or _last_closed_year(out)
    with step_bars(not quiet) as report:
        collected = collect(wanted, connection, report, plan_citing_works)
    works = collected.works()
    write_works(works, out / "works")
    command = options.command
    if command and "--last-complete-year" not in command:
        command = (*command, "--last-complete-year", str(closed_by))
    options = dataclasses.replace(
        options,
        rules=dataclasses.replace(options.rules, last_complete_year=closed_by),
        focal=frozenset(collected.focal),
        cut_short=frozenset(collected.cut_short),
        command=command,
        extra={"source": _source(wanted, collected)},
    )
    return build_dataset(works, collected.dropped, out, options)


def show_plan(steps: Sequence[Step], title: str, console: Console) -> None:
    """Print a plan as a table."""
    table = Table(title=title, title_justify="left")
    for heading, justify in (("step", "left"), ("requests", "right"), ("cost", "right"), ("estimated from", "left")):
        table.add_column(heading, justify=justify)  # pyright: ignore[reportArgumentType]
    for step in steps:
        requests = f"{step.low:,}" if step.low == step.high else f"{step.low:,} - {step.high:,}"
        price = f"up to ${step.high * step.price_usd:.4f}" if step.price_usd else "free"
        table.add_row(step.name, requests, price, step.basis)
    console.print(table)


def _last_closed_year(out: Path) -> int:
    """The last year that was over when collecting began. A run continued on a later day keeps the year of the first."""
    place = out / "pages" / "started.json"
    if not place.is_file():
        write_json_atomically(place, {"date": datetime.now(UTC).date().isoformat()})
    remedy = f'give the day on which collecting began as {{"date": "{datetime.now(UTC).date()}"}}'
    began = read_json(place, remedy, {"date": str})["date"]
    try:
        return date.fromisoformat(began).year - 1
    except ValueError as error:
        raise BadInput(f"{place} is damaged: {began!r} is not a date; {remedy}") from error


def _source(wanted: Wanted, collected: Collected) -> dict[str, Any]:
    focal, references, citing = (collected.facts[name] for name in ("focal", "references", "citing"))
    looked_for = f"for {wanted.query!r}" if wanted.query else "for a list of ids and DOIs"
    sentence = (
        f"Source: the OpenAlex API {looked_for}. {focal['used']:,} focal papers ({focal['asked']:,} asked for); "
        f"{references['found']:,} of the {references['cited']:,} works they cite ({references['merged']:,} under a "
        f"newer id, {references['gone']:,} gone); {citing['works']:,} works that cite either in the years that count, "
        f"{floored(citing['share_received'], 4):.2%} of the records promised. The neighbourhood of {focal['whole']:,} "
        f"focal papers ({floored(focal['share_whole'], 4):.2%}) was collected whole; only those carry labels."
    )
    if focal["found"] < focal["asked"]:
        sentence += f" Of the focal papers asked for, the API gave {focal['found']:,}."
    return {"kind": "openalex", "wanted": dataclasses.asdict(wanted), **collected.facts, "sentence": sentence}
