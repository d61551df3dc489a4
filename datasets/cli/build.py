"""`scisci-gym build`: one command for each source; all of them write the same kind of dataset folder."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..build import BuildOptions, build_dataset
from ..dataset_folder import dataset_folder, refuse_overlap, start_over
from ..errors import stop_on_bad_input
from ..openalex.api.client import BASE_URL
from ..openalex.api.neighbourhood import Wanted, read_seeds
from ..openalex.shards import convert
from ..openalex.snapshot import current_works, parts_of, read_works
from ..openalex.works_table import WorksTable
from ..sciscinet.build import build_sciscinet
from ..synthetic.bayes import ceiling_of_folder
from ..synthetic.corpus import SyntheticCorpus, write_synthetic_works
from .build_command import Scheme, Split, build_command, show
from .openalex import run_openalex

__all__ = ["Scheme", "Split", "app", "build_synthetic", "show", "stop_on_bad_input"]

app = typer.Typer(help="Build a labelled dataset, split by time, from works.", no_args_is_help=True)


@app.command()
@build_command()
def snapshot(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="OpenAlex works snapshot: gzip JSON lines or parquet parts.")
    ],
    out: Path,
    options: BuildOptions,
    quiet: bool,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes that read parts (default: one for each core, or one in all for little data)."),
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster that reads the parts: auto, local, ray://...")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Drop and count damaged records instead of stopping.")
    ] = False,
) -> dict[str, Any]:
    """Real works in OpenAlex snapshot layout. A part that was read by an earlier run is not read again."""
    with dataset_folder(out, [folder]):
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
        return _build(works, +dropped, out, dataclasses.replace(options, extra={"source": source}), quiet)


@app.command()
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
    return run_openalex(
        wanted, out, options, base_url=base_url, budget=budget, patience=patience, dry_run=dry_run, quiet=quiet,
        backoff=backoff,
    )  # fmt: skip


@app.command()
@build_command()
def sciscinet(
    file: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Papers of SciSciNet with their scores.")],
    out: Path,
    options: BuildOptions,
    quiet: bool,
    fields: Annotated[
        Path | None, typer.Option(help="Parquet link table with paperid, fieldid, display_name and level.")
    ] = None,
    field_level: Annotated[int, typer.Option(help="Level of the fields to take from the link table.")] = 0,
) -> dict[str, Any]:
    """Published disruption and atypicality of SciSciNet, from a file of any size. The split is by publication year."""
    with dataset_folder(out, [path for path in (file, fields) if path is not None]):
        return build_sciscinet(file, out, options, fields=fields, level=field_level, progress=not quiet)


@app.command()
@build_command()
def synthetic(
    out: Path,
    options: BuildOptions,
    quiet: bool,
    papers: Annotated[
        int, typer.Option(help="Papers in the literature; about a fifth carry a label.")
    ] = SyntheticCorpus.papers,
    fidelity: Annotated[
        float, typer.Option(help="Best reachable accuracy: how often the wording points to the label.")
    ] = SyntheticCorpus.fidelity,
) -> dict[str, Any]:
    """A synthetic literature with labels from a real graph and a known best score. Nothing is downloaded."""
    corpus = SyntheticCorpus(papers=papers, seed=options.seed, fidelity=fidelity)
    return build_synthetic(corpus, out, options, progress=not quiet)


def build_synthetic(corpus: SyntheticCorpus, out: Path, options: BuildOptions, progress: bool = True) -> dict[str, Any]:
    """Write a synthetic corpus as a snapshot below `out`, build the dataset from it, and return its card."""
    # The newest year is complete, because the corpus consists of whole years.
    rules = dataclasses.replace(options.rules, last_complete_year=corpus.first_year + corpus.years - 1)
    facts = functools.partial(ceiling_of_folder, fidelity=corpus.fidelity)
    options = dataclasses.replace(options, rules=rules, extra=facts)
    with dataset_folder(out):
        start_over(out)
        works, dropped = read_works(write_synthetic_works(out / "source", corpus, rules), progress=progress)
        return _build(WorksTable.of_table(works), dropped, out, options, not progress)


def _build(works: WorksTable, dropped: Counter[str], out: Path, options: BuildOptions, quiet: bool) -> dict[str, Any]:
    with Console(stderr=True, quiet=quiet).status(f"computing the labels of {works.num_rows:,} works"):
        return build_dataset(works, dropped, out, options)
