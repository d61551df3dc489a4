"""`scisci-gym data`: checks and updates of a dataset that has been built."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..errors import BadInput, stop_on_bad_input
from ..verify import verify as run_checks

app = typer.Typer(help="Check or update a built dataset.", no_args_is_help=True)
SHOWN = 5


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `scisci-gym build` wrote.")],
    sample: Annotated[int, typer.Option(help="Papers whose counts are computed again by the definition.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed with which those papers are drawn.")] = 0,
    previous: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="An earlier build: also look for works that have the title of another work now."
        ),
    ] = None,
) -> None:
    """Compute hash, counts and labels again; print what differs, and exit with status 1 if anything does."""
    checks = stop_on_bad_input(lambda: run_checks(folder, sample=sample, seed=seed, previous=previous))
    console = Console(soft_wrap=True, highlight=False)
    for check in checks:
        mark = "[green]holds[/green]" if check.holds else "[red]fails[/red]"
        console.print(f"{mark}  {check.name} [dim]({escape(check.looked_at)})[/dim]")
        for line in check.wrong[:SHOWN]:
            console.print(f"         {escape(line)}")
        if len(check.wrong) > SHOWN:
            console.print(f"         ... and {len(check.wrong) - SHOWN:,} more")
    if not all(check.holds for check in checks):
        raise typer.Exit(1)


@app.command()
def update(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `scisci-gym build snapshot` wrote.")],
    snapshot: Annotated[
        Path | None,
        typer.Argument(help="The next OpenAlex works snapshot (default: the folder that the dataset was built from)."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that read parts; see `build snapshot`.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster that reads the parts.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Drop and count damaged records instead of stopping.")
    ] = False,
    any_titles: Annotated[
        bool, typer.Option("--any-titles", help="Go on although works seem to have the titles of other works now.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars, no report.")] = False,
) -> None:
    """Take the next snapshot into a dataset, as if it were built anew with the same options, and report what changed.

    Parts that have not changed are not read again. The dataset stays as it is until the next one is complete. An update
    that was cut off goes on with the same command. Papers with another label are listed in DIR/label_changes.csv.
    """
    from ..update import updatable_card, update_dataset
    from .build import app as builds
    from .build_command import recorded_options, show

    def run() -> dict[str, Any]:
        words = shlex.split(updatable_card(folder)["command"])
        if words[:3] != ["scisci-gym", "build", "snapshot"]:
            raise BadInput(f"the card of {folder} does not say with which command it was built; build it again instead")
        command: Any = typer.main.get_command(builds)
        values, options = recorded_options(command.commands["snapshot"], words[3:])
        given = str(values["folder"])
        source = Path(given) if snapshot is None else snapshot
        words[words.index(given, 3)] = str(source)
        is_skipping = skip_bad or values["skip_bad"]
        if is_skipping and not values["skip_bad"]:
            words.append("--skip-bad")
        return update_dataset(
            folder,
            source,
            replace(options, command=tuple(words)),
            any_titles=any_titles,
            workers=workers,
            skip_bad=is_skipping,
            ray_address=ray,
            progress=not quiet,
        )

    card = stop_on_bad_input(run)
    if not quiet:
        show(card, folder)
        for line in _changes(card["update"], folder):
            Console(highlight=False, soft_wrap=True).print(line, markup=False)


def _changes(update: dict[str, Any], folder: Path) -> Iterator[str]:
    """What an update has changed, in lines."""
    parts, works, papers = update["parts"], update["works"], update["papers"]
    columns = ", ".join(f"{name} {count:,}" for name, count in works["columns"].items())
    yield f"parts: {parts['taken_over']:,} unchanged, {parts['read']:,} read"
    yield (
        f"works: {works['new']:,} new, {works['changed']:,} changed{f' ({columns})' if columns else ''}, "
        f"{works['gone']:,} gone ({works['merged']:,} of them merged into another)"
    )
    yield (
        f"papers: {papers['entered']:,} entered the dataset, {papers['left']:,} left it, {papers['moved']:,} are in "
        "another split"
    )
    for name, changes in papers["labels"].items():
        detail = ", ".join(f"{change} {count:,}" for change, count in changes.items())
        yield f"{name}: {sum(changes.values()):,} changed{f' ({detail})' if detail else ''}"
    yield f"listed in {folder / 'label_changes.csv'}"
