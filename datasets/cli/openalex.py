"""`scisci-gym build openalex`: plan, collect, build."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..atomic_files import write_json_atomically
from ..build import BuildOptions, build_dataset
from ..dataset_folder import dataset_folder
from ..openalex.api.client import DAILY_USD, Connection, api_key
from ..openalex.api.cost import Step, cost, first_plan, second_plan
from ..openalex.api.errors import Stopped
from ..openalex.api.neighbourhood import Collected, Report, Wanted, collect, floored
from ..openalex.api.response_cache import PageStore
from ..openalex.shards import write_works

STOPPED = 3


def build_openalex(
    wanted: Wanted, connection: Connection, out: Path, options: BuildOptions, *, quiet: bool = False
) -> dict[str, Any]:
    """Collect papers and their neighbourhood, build the dataset, and return its card.

    Raises
    ------
    Stopped
        If the API does not answer for now; calling this again goes on.
    BadInput
    """
    console = Console(quiet=quiet)
    closed_by = options.rules.last_complete_year or _last_closed_year(out)
    with _progress(not quiet) as report:
        collected = collect(
            wanted, connection, report, lambda found: show_plan(second_plan(wanted, found), connection, console)
        )
    works = collected.works()
    write_works(works, out / "works")
    command = options.command
    if "--last-complete-year" not in command and command:
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


def run_openalex(
    wanted: Wanted,
    out: Path,
    options: BuildOptions,
    *,
    base_url: str,
    budget: float | None,
    patience: float,
    dry_run: bool,
    quiet: bool,
    backoff: float = 1.0,
) -> dict[str, Any] | None:
    """The command: print the plan, stop there on `dry_run`, collect, build. None where there is no card."""
    key = api_key()
    steps = first_plan(wanted)
    _show_steps(steps, f"Plan for up to {wanted.max_focal:,} focal papers", Console())
    low, high = cost(steps)
    daily = DAILY_USD[key is not None]
    Console().print(
        f"Expected cost ${low:.4f} to ${high:.4f}; a day's free budget is ${daily:g} "
        + ("with a key." if key else "without a key (OPENALEX_API_KEY; free at openalex.org/settings/api).")
        + " A run that stops there goes on the next day without paying twice.",
        highlight=False,
    )
    if dry_run:
        return None
    with dataset_folder(out):
        return _run(wanted, out, options, key, base_url, budget, patience, quiet, backoff)


def _run(wanted, out, options, key, base_url, budget, patience, quiet, backoff) -> dict[str, Any]:
    console = Console(quiet=quiet)
    store = PageStore(out / "pages")
    connection = Connection(store, base_url=base_url, key=key, budget_usd=budget, patience=patience, backoff=backoff)
    try:
        card = build_openalex(wanted, connection, out, options, quiet=quiet)
    except Stopped as stopped:
        Console(stderr=True, soft_wrap=True).print(f"[yellow]stopped:[/yellow] {stopped}", highlight=False)
        raise typer.Exit(STOPPED) from stopped
    finally:
        spent = connection.spending
        left = "" if spent.remaining_usd is None else f", ${spent.remaining_usd:.4f} left of the day's budget"
        console.print(
            f"{spent.requests:,} requests, {spent.pages:,} pages fetched, {spent.reused:,} taken from disk, "
            f"${spent.usd:.4f} spent{left}",
            highlight=False,
        )
    return card


def show_plan(steps: Sequence[Step], connection: Connection, console: Console) -> None:
    """Print a plan with what is left of the day's budget, if the API has said so."""
    _show_steps(steps, "Plan for the citing works", console)
    left = connection.spending.remaining_usd
    if left is not None and cost(steps)[1] > left:
        console.print(
            f"[yellow]This may cost up to ${cost(steps)[1]:.4f}, ${left:.4f} are left of the day's budget.[/yellow] "
            "--max-cited leaves out the citing works of the most cited references.",
            highlight=False,
        )


def _show_steps(steps: Sequence[Step], title: str, console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for heading, justify in (("step", "left"), ("requests", "right"), ("cost", "right"), ("reckoned from", "left")):
        table.add_column(heading, justify=justify)  # pyright: ignore[reportArgumentType]
    for step in steps:
        requests = f"{step.low:,}" if step.low == step.high else f"{step.low:,} - {step.high:,}"
        table.add_row(step.name, requests, f"up to ${step.high * step.price_usd:.4f}", step.basis)
    console.print(table)


@contextmanager
def _progress(shown: bool) -> Iterator[Report]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not shown, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(step: str, done: int, expected: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=expected)
            bar.update(tasks[step], completed=done, total=expected)

        yield report


def _last_closed_year(out: Path) -> int:
    """The last year that was over when collecting began. A run that goes on another day keeps the first day's."""
    place = out / "pages" / "started.json"
    if not place.is_file():
        write_json_atomically(place, {"date": datetime.now(UTC).date().isoformat()})
    return date.fromisoformat(json.loads(place.read_text())["date"]).year - 1


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
