"""`scisci-gym labels GRAPH`: every label of a saved citation graph, into one parquet file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..atomic_files import aside

Scheme = Literal["threshold", "quantile"]


def labels(
    graph: Annotated[Path, typer.Argument(help="Folder of a saved citation graph.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("labels.parquet"),
    papers: Annotated[
        Path | None,
        typer.Option(
            help="Parquet with id and any of venue, field, excluded and reference_count, such as a dataset's "
            "graph/papers.parquet."
        ),
    ] = None,
    scheme: Annotated[
        Scheme, typer.Option("--labels", help="threshold: CD beyond +-threshold; quantile: tertiles of field and year.")
    ] = "threshold",
    threshold: Annotated[float, typer.Option(help="Cut of the threshold scheme.")] = 0.1,
    min_references: Annotated[int, typer.Option(help="References that an eligible paper needs.")] = 5,
    min_citations: Annotated[int, typer.Option(help="Citations inside the window that an eligible paper needs.")] = 5,
    window: Annotated[int, typer.Option(help="Years after publication whose citations count.")] = 5,
    null: Annotated[Literal["shuffle", "switch"], typer.Option(help="Null model of atypicality.")] = "shuffle",
    samples: Annotated[int | None, typer.Option(help="Null networks to draw; the default gives stable labels.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the null networks.")] = 0,
    trajectory: Annotated[int, typer.Option(help="Also write CD_1 to CD_n.")] = 0,
    rewired: Annotated[int, typer.Option(help="Also write the z-score of CD against this many rewired graphs.")] = 0,
    interval: Annotated[bool, typer.Option(help="Also write a 95 % interval of CD.")] = False,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Run here, or on a Ray cluster.")] = "local",
    last_complete_year: Annotated[
        int | None,
        typer.Option(help="Last year that the data holds in full (default: estimated from the papers per year)."),
    ] = None,
) -> None:
    """Compute every label of a saved citation graph."""
    import pyarrow.parquet as pq

    from ..labels.eligibility import LabelRules
    from ..labels.table import label_table  # here, because it loads numba, and `scisci-gym --help` need not
    from ..openalex.shards import WRITTEN_FROM, written_from

    mark = {"kind": "labels"}
    try:
        if out.exists() and written_from(out) != mark:
            raise ValueError(f"{out} exists and is no table of labels; choose another --out, or move it away")
        rules = LabelRules(
            scheme=scheme,
            threshold=threshold,
            window=window,
            min_references=min_references,
            min_citations=min_citations,
            last_complete_year=last_complete_year,
        )
        table = label_table(
            graph,
            papers=papers,
            rules=rules,
            null=null,
            samples=samples,
            seed=seed,
            trajectory=trajectory,
            rewired=rewired,
            interval=interval,
            engine=engine,
            report=lambda stage, seconds: typer.echo(f"{stage:<28} {seconds:8.2f} s"),
        )
    except (FileNotFoundError, ValueError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    marked = {**(table.schema.metadata or {}), WRITTEN_FROM: json.dumps(mark)}
    with aside(out) as unfinished:
        pq.write_table(table.replace_schema_metadata(marked), unfinished)
    typer.echo(f"{table.num_rows:,} papers, {table.num_columns} columns -> {out}")


app = typer.Typer(add_completion=False)
app.command()(labels)
