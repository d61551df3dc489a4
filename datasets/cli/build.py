"""`scisci-gym build`: one command a source, all ending in the same kind of dataset folder."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..build import BuildOptions, build_dataset
from ..dataset_folder import dataset_folder, refuse_overlap, start_over
from ..errors import stop_on_bad_input
from ..hub import push
from ..labels.eligibility import LabelRules
from ..openalex.api.client import BASE_URL
from ..openalex.api.neighbourhood import Wanted, read_seeds
from ..openalex.shards import convert
from ..openalex.snapshot import current_works, parts_of, read_works
from ..openalex.works_table import WorksTable
from ..paper import DISRUPTION_LABELS
from ..sciscinet.build import build_sciscinet
from ..splits import SPLITS
from ..synthetic.bayes import ceiling_of_folder
from ..synthetic.corpus import SyntheticCorpus, write_synthetic_works
from .openalex import run_openalex
from .options import Scheme, Split, with_build_options

__all__ = ["Scheme", "Split", "app", "build_synthetic", "show", "stop_on_bad_input"]

app = typer.Typer(help="Build a labelled, time-split dataset out of works.", no_args_is_help=True)

Out = Annotated[
    Path, typer.Option("--out", help="Folder to write the dataset to; an earlier dataset there is replaced.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars, no table.")]
PushTo = Annotated[
    str | None, typer.Option("--push-to-hub", metavar="REPO", help="Upload the dataset as OWNER/NAME (needs HF_TOKEN).")
]


@app.command()
@with_build_options
def snapshot(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="OpenAlex works snapshot: gzip JSON lines or parquet parts.")
    ],
    out: Out,
    options: Any,
    workers: Annotated[
        int | None, typer.Option(help="Processes that read parts (default: one per core, one for little data).")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster that reads the parts: auto, local, ray://...")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Drop and count damaged records instead of stopping.")
    ] = False,
    push_to_hub: PushTo = None,
    quiet: Quiet = False,
) -> None:
    """Real works in OpenAlex snapshot layout. Parts that were read once are not read again."""

    def run() -> dict[str, Any]:
        build_options = options()
        with dataset_folder(out, [folder]):
            return built(build_options)

    def built(build_options: BuildOptions) -> dict[str, Any]:
        dropped: Counter[str] = Counter()
        parts = parts_of(folder, skip_bad=skip_bad, dropped=dropped)
        shards = convert(parts, out / "works", workers=workers, skip_bad=skip_bad, progress=not quiet, ray_address=ray)
        for shard in shards:
            dropped.update(shard.dropped)
        works = current_works(WorksTable.of_shards([shard.path for shard in shards]), folder, dropped)
        promised = sum(part.records or 0 for part in parts)
        source = {
            "kind": "snapshot",
            "parts": len(parts),
            "records_in_manifest": promised or None,
            "retired_ids": 0 if works.retired is None else int(works.retired.ids.size),
            "sentence": f"Source: an OpenAlex works snapshot of {len(parts):,} parts"
            + (f", {promised:,} records by its manifest." if promised else ", without a manifest."),
        }
        return _labelled(works, +dropped, out, dataclasses.replace(build_options, extra={"source": source}), quiet)

    _finish(stop_on_bad_input(run), out, quiet, push_to_hub)


@app.command()
@with_build_options
def openalex(
    out: Out,
    options: Any,
    query: Annotated[str | None, typer.Option(help="Words in the title and abstract of focal papers.")] = None,
    seeds: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text file with one OpenAlex id or DOI of a focal paper a line.")
    ] = None,
    from_year: Annotated[int | None, typer.Option(help="First publication year of focal papers.")] = None,
    to_year: Annotated[int | None, typer.Option(help="Last publication year of focal papers.")] = None,
    max_focal: Annotated[int, typer.Option(help="Focal papers at most.")] = 200,
    max_cited: Annotated[
        int | None,
        typer.Option(help="Skip what cites works cited more often; papers citing those get no label."),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Dollars this run may spend.")] = None,
    patience: Annotated[float, typer.Option(help="Longest pause, in seconds, that the API may ask for.")] = 120.0,
    base_url: Annotated[
        str, typer.Option(envvar="OPENALEX_BASE_URL", help="Address of the API or of a server that speaks it.")
    ] = BASE_URL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost, send nothing.")] = False,
    backoff: Annotated[float, typer.Option(hidden=True)] = 1.0,
    push_to_hub: PushTo = None,
    quiet: Quiet = False,
) -> None:
    """Papers from the live OpenAlex API with everything they cite and everything that cites either.

    The key is taken from OPENALEX_API_KEY. What was fetched is kept below OUT/pages; a run that stopped, for whatever
    reason, goes on from there with the same command (exit status 3: the API asks to come back later).
    """

    def run() -> dict[str, Any] | None:
        # A neighbourhood is not the literature of a year, which novelty scores compare with: only when asked for.
        build_options = options(novelty=bool(options.keywords["novelty"]))
        window = build_options.rules.window
        seeded = () if seeds is None else read_seeds(seeds)
        wanted = Wanted(query, seeded, from_year, to_year, max_focal, window, max_cited)
        refuse_overlap(out, [] if seeds is None else [seeds])
        return run_openalex(
            wanted, out, build_options, base_url=base_url, budget=budget,
            patience=patience, dry_run=dry_run, quiet=quiet, backoff=backoff,
        )  # fmt: skip

    card = stop_on_bad_input(run)
    if card is not None:
        _finish(card, out, quiet, push_to_hub)


@app.command()
@with_build_options
def sciscinet(
    file: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Papers of SciSciNet with their scores.")],
    out: Out,
    options: Any,
    fields: Annotated[
        Path | None, typer.Option(help="Link table paperid, fieldid, display_name, level, as parquet.")
    ] = None,
    field_level: Annotated[int, typer.Option(help="Level of the fields to take from it.")] = 0,
    push_to_hub: PushTo = None,
    quiet: Quiet = False,
) -> None:
    """Published disruption and atypicality of SciSciNet, read out of core. The split is by publication year."""

    def run() -> dict[str, Any]:
        build_options = options()
        with dataset_folder(out, [path for path in (file, fields) if path is not None]):
            return build_sciscinet(file, out, build_options, fields=fields, level=field_level, progress=not quiet)

    _finish(stop_on_bad_input(run), out, quiet, push_to_hub)


@app.command()
@with_build_options
def synthetic(
    out: Out,
    options: Any,
    papers: Annotated[
        int, typer.Option(help="Papers in the literature; about a fifth carry a label.")
    ] = SyntheticCorpus.papers,
    fidelity: Annotated[
        float, typer.Option(help="Best reachable accuracy: how often the wording points to the label.")
    ] = SyntheticCorpus.fidelity,
    push_to_hub: PushTo = None,
    quiet: Quiet = False,
) -> None:
    """A made-up literature: labels from a real graph, wording with a known ceiling. Nothing is downloaded."""

    def run() -> dict[str, Any]:
        build_options = options()
        corpus = SyntheticCorpus(papers=papers, seed=build_options.seed, fidelity=fidelity)
        return build_synthetic(corpus, out, build_options, progress=not quiet)

    _finish(stop_on_bad_input(run), out, quiet, push_to_hub)


def build_synthetic(corpus: SyntheticCorpus, out: Path, options: BuildOptions, progress: bool = True) -> dict[str, Any]:
    """Write a synthetic corpus as a snapshot below `out`, build the dataset from it, and return its card."""
    # Its newest year is complete: the literature was made by whole years.
    rules = LabelRules(**{**vars(options.rules), "last_complete_year": corpus.first_year + corpus.years - 1})
    facts = functools.partial(ceiling_of_folder, fidelity=corpus.fidelity)
    options = dataclasses.replace(options, rules=rules, extra=facts)
    with dataset_folder(out):
        start_over(out)
        works, dropped = read_works(write_synthetic_works(out / "source", corpus, rules), progress=progress)
        return _labelled(WorksTable.of_table(works), dropped, out, options, not progress)


def _labelled(
    works: WorksTable, dropped: Counter[str], out: Path, options: BuildOptions, quiet: bool
) -> dict[str, Any]:
    if quiet:
        return build_dataset(works, dropped, out, options)
    with Console(stderr=True).status(f"computing the labels of {works.num_rows:,} works"):
        return build_dataset(works, dropped, out, options)


def _finish(card: dict[str, Any], out: Path, quiet: bool, push_to: str | None) -> None:
    if not quiet:
        show(card, out)
    if push_to is not None:
        stop_on_bad_input(lambda: push(out, push_to))


def show(card: dict[str, Any], out: Path) -> None:
    """Print what a dataset holds and what was left out."""
    console = Console()
    heading = f"{card['works_in_graph']:,} works"
    if "citations" in card:
        heading += f", {card['citations']['kept']:,} citations"
    table = Table(title=heading, title_justify="left")
    for column in ("split", "years", "papers", *DISRUPTION_LABELS):
        table.add_column(column, justify="left" if column in ("split", "years") else "right")
    for name, share in {**{name: card["splits"][name] for name in SPLITS}, **card.get("cutoff_views", {})}.items():
        papers = share["papers"]
        years = f"{share['years'][0]}-{share['years'][1]}" if papers else "-"
        labels = (f"{count:,} ({count / papers:.0%})" if papers else "0" for count in share["labels"].values())
        table.add_row(name, years, f"{papers:,}", *labels)
    console.print(table)
    for title, reasons in (("not used", card["works_dropped"]), ("without a label", card["not_labelled"])):
        if reasons:
            console.print(
                f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in reasons.items()), highlight=False
            )
    for name, share in card.get("cutoff_views", {}).items():
        if not share["papers"]:
            console.print(f"[yellow]{name} is empty[/yellow]: no test paper is on that side of {card['cutoff']}")
    if "ceiling" in card:
        test = card["ceiling"]["test"]
        console.print(
            f"best reachable: accuracy {card['ceiling']['fidelity']:g} expected; on this test split accuracy "
            f"{test['accuracy']:.3f}, macro-F1 {test['macro_f1']:.3f}",
            highlight=False,
        )
    console.print(f"written to {out} (card: {out / 'README.md'})", highlight=False)
