"""`scisci-gym build`: one command for each source; all of them write the same kind of dataset folder."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..build import BuildOptions, build_dataset
from ..dataset_folder import dataset_folder, start_over
from ..errors import BadInput
from ..openalex.shards import snapshot_works
from ..openalex.snapshot import read_works
from ..openalex.works_table import WorksTable
from ..own_corpus import read_corpus
from ..sciscinet.build import build_sciscinet
from ..splits import SPLITS
from ..store import load_papers
from ..synthetic.bayes import ceiling
from ..synthetic.corpus import SyntheticCorpus, write_synthetic_works
from .build_command import build_command
from .openalex import openalex

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
        works, dropped, source = snapshot_works(
            folder, out / "works", workers=workers, skip_bad=skip_bad, progress=not quiet, ray_address=ray
        )
        return _build(works, dropped, out, dataclasses.replace(options, extra={"source": source}), quiet)


app.command()(openalex)


@app.command()
@build_command()
def table(
    papers: Annotated[
        Path,
        typer.Option(
            help="Csv or parquet with id, year, title, abstract and any of venue, field, publication_date, doi, type, "
            "language, authors_count, cited_by_count, is_retracted and excluded."
        ),
    ],
    citations: Annotated[Path, typer.Option(help="Csv or parquet with the columns citing and cited, ids of papers.")],
    out: Path,
    options: BuildOptions,
    quiet: bool,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out and count bad rows of --papers and --citations.")
    ] = False,
) -> dict[str, Any]:
    """A corpus of your own: a table of papers and a table of citations. Any ids will do, and papers keep them."""
    with dataset_folder(out, [papers, citations]):
        corpus = read_corpus(papers, citations, skip_bad=skip_bad)
        left_out = ", ".join(f"{count:,}: {reason}" for reason, count in corpus.dropped_citations.items())
        source = {
            "kind": "table",
            "citations_left_out": dict(corpus.dropped_citations),
            "missing": corpus.gaps,
            "sentence": f"Source: {papers.name} and {citations.name}."
            + (f" Citations that were left out: {left_out}." if left_out else "")
            + "".join(f" {gap[0].upper()}{gap[1:]}." for gap in corpus.gaps),
        }
        for line in [] if quiet else [*corpus.gaps, *([f"citations left out: {left_out}"] if left_out else [])]:
            typer.echo(line, err=True)
        options = dataclasses.replace(options, extra={"source": source}, excluded=corpus.excluded)
        return _build(corpus.works, corpus.dropped, out, options, quiet)


@app.command()
@build_command()
def sciscinet(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.parquet|DIR",
            help="Papers of SciSciNet with their scores, or the folder with the tables of SciSciNet-v2.",
        ),
    ],
    out: Path,
    options: BuildOptions,
    quiet: bool,
    texts: Annotated[
        Path | None, typer.Option(help="Parquet with paperid, title and abstract_inverted_index, if they are apart.")
    ] = None,
    fields: Annotated[
        Path | None,
        typer.Option(help="Parquet link table with paperid and either display_name and level, or fieldid."),
    ] = None,
    field_names: Annotated[
        Path | None, typer.Option(help="Parquet table of the fields with fieldid, display_name and level.")
    ] = None,
    field_level: Annotated[int, typer.Option(help="Level of the fields to take from the link table.")] = 0,
) -> dict[str, Any]:
    """Published disruption and atypicality of SciSciNet, from tables of any size. The split is by publication year."""
    if options.memory is not None:
        raise BadInput("--memory is for labels that are computed; the scores of SciSciNet are published: leave it out")
    tables = {"texts": texts, "fields": fields, "field_names": field_names}
    return build_sciscinet(file, out, options, **tables, level=field_level, progress=not quiet)


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
    tells: Annotated[str, typer.Option(help="What the wording tells: some of disruption,novelty,hit.")] = ",".join(
        SyntheticCorpus.tells
    ),
) -> dict[str, Any]:
    """A synthetic literature with labels from a real graph and a known best score. Nothing is downloaded."""
    corpus = SyntheticCorpus(papers=papers, seed=options.seed, fidelity=fidelity, tells=tuple(tells.split(",")))
    return build_synthetic(corpus, out, options, progress=not quiet)


def build_synthetic(corpus: SyntheticCorpus, out: Path, options: BuildOptions, progress: bool = True) -> dict[str, Any]:
    """Write a synthetic corpus as a snapshot below `out`, build the dataset from it, and return its card."""
    # The newest year is complete, because the corpus consists of whole years.
    rules = dataclasses.replace(options.rules, last_complete_year=corpus.first_year + corpus.years - 1)

    def facts(folder: Path) -> dict[str, Any]:
        papers = {name: load_papers(folder, name) for name in SPLITS}
        return {"ceiling": ceiling(papers, corpus.fidelity, corpus.tells)}

    options = dataclasses.replace(options, rules=rules, extra=facts)
    with dataset_folder(out):
        start_over(out)
        works, dropped = read_works(write_synthetic_works(out / "source", corpus, rules), progress=progress)
        return _build(WorksTable.of_table(works), dropped, out, options, not progress)


def _build(works: WorksTable, dropped: Counter[str], out: Path, options: BuildOptions, quiet: bool) -> dict[str, Any]:
    with Console(stderr=True, quiet=quiet).status(f"computing the labels of {works.num_rows:,} works"):
        return build_dataset(works, dropped, out, options)
