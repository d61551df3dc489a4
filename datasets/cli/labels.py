"""`scisci-gym labels`: every label of a citation graph, into one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..atomic_files import scratch_folder

Scheme = Literal["threshold", "quantile"]


def labels(
    graph: Annotated[
        Path | None, typer.Argument(help="Folder of a saved citation graph, such as a dataset's graph/.")
    ] = None,
    citations: Annotated[
        Path | None, typer.Option(help="Instead of GRAPH: csv or parquet with the columns citing and cited.")
    ] = None,
    papers: Annotated[
        Path | None,
        typer.Option(
            help="Csv or parquet with id (with --citations also year) and any of venue, field, excluded and "
            "reference_count, such as a dataset's graph/papers.parquet."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write: .parquet, .csv or .jsonl.")] = Path("labels.parquet"),
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out and count bad rows of --citations and --papers.")
    ] = False,
    scheme: Annotated[
        Scheme, typer.Option("--labels", help="threshold: CD beyond +-threshold; quantile: tertiles of field and year.")
    ] = "threshold",
    threshold: Annotated[float, typer.Option(help="Cut of the threshold scheme.")] = 0.1,
    min_references: Annotated[int, typer.Option(help="References that an eligible paper needs.")] = 5,
    min_citations: Annotated[int, typer.Option(help="Citations inside the window that an eligible paper needs.")] = 5,
    window: Annotated[int, typer.Option(help="Years after publication whose citations count.")] = 5,
    null: Annotated[Literal["shuffle", "switch"], typer.Option(help="Null model of atypicality.")] = "shuffle",
    samples: Annotated[
        int | None,
        typer.Option(
            help="Null networks to draw; with fewer, more novelty labels are withheld (default: 400 for shuffle, "
            "500 for switch)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the null networks.")] = 0,
    trajectory: Annotated[int, typer.Option(help="Also write CD_1 to CD_n.")] = 0,
    rewired: Annotated[int, typer.Option(help="Also write the z-score of CD against this many rewired graphs.")] = 0,
    interval: Annotated[bool, typer.Option(help="Also write a 95 % interval of CD.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Folder for pictures, each with its table: CD by year and field, a paper's CD over windows, "
            "a map of atypicality, coverage and artefacts."
        ),
    ] = None,
    plot_paper: Annotated[
        list[str] | None,
        typer.Option(
            help="Id of the paper to follow over windows (again for more papers; default: the most cited eligible one)."
        ),
    ] = None,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Run here, or on a Ray cluster.")] = "local",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for counting citing papers and venue pairs, such as 8GB: slices of years that fit, one after "
            "another (default: all at once). Labels do not depend on it. With --engine ray, that of one task.",
        ),
    ] = None,
    last_complete_year: Annotated[
        int | None,
        typer.Option(help="Last year that the data holds in full (default: estimated from the papers per year)."),
    ] = None,
) -> None:
    """Compute every label of a citation graph: of a saved one, or of a table of citations and one of papers.

    Any ids will do. From two tables, of which the one of papers has id, year, venue and field:

        scisci-gym labels --citations citations.csv --papers papers.csv --out labels.csv
    """
    from ..byte_size import byte_size
    from ..dataset_folder import refuse_foreign
    from ..graph.citation_graph import CitationGraph
    from ..graph.from_tables import graph_of_files
    from ..labels.eligibility import LabelRules
    from ..labels.table import FILLERS, label_table  # here, because it loads numba, and `scisci-gym --help` need not
    from ..labels.table_file import require_label_file, write_labels

    def pictures_of(graph: CitationGraph, folder: Path) -> Callable[[Any], None]:
        """A function that draws a table of labels. The ids of --plot-paper are looked up now, before anything runs."""
        from ..labels.pictures import write_pictures
        from ..labels.summaries import places_of

        closed_by = rules.closed_by(graph.years)
        followed = places_of(graph, plot_paper or (), closed_by)

        def draw(table: Any) -> None:
            shown: dict[str, Any] = {"window": window, "closed_by": closed_by, "papers": followed}
            for reason in write_pictures(table, graph, folder, **shown, years=trajectory or 10):
                typer.echo(reason)

        return draw

    def table_of(directory: Path, papers: Any) -> Any:
        draw = None if plot is None else pictures_of(CitationGraph.load(directory), plot)
        table = label_table(
            directory,
            papers=papers,
            rules=rules,
            null=null,
            samples=samples,
            seed=seed,
            trajectory=trajectory,
            rewired=rewired,
            interval=interval,
            engine=engine,
            memory=room,
            report=lambda stage, seconds: typer.echo(f"{stage:<28} {seconds:8.2f} s"),
        )
        if draw is not None:
            draw(table)
        return table

    try:
        require_label_file(out)
        room = None if memory is None else byte_size(memory)
        if plot is not None:
            refuse_foreign(plot, "artefacts.csv")
        elif plot_paper:
            raise ValueError("--plot-paper says what a picture shows; give the folder of the pictures with --plot")
        rules = LabelRules(
            scheme=scheme,
            threshold=threshold,
            window=window,
            min_references=min_references,
            min_citations=min_citations,
            last_complete_year=last_complete_year,
        )
        if graph is not None and citations is None:
            table = table_of(graph, papers)
        elif graph is None and citations is not None and papers is not None:
            made, given, skipped = graph_of_files(papers, citations, skip_bad=skip_bad)
            typer.echo("\n".join([str(made), *(f"left out {n:,} rows: {why}" for why, n in skipped.items())]))
            with scratch_folder(out.with_name("graph")) as directory:
                made.save(directory)
                table = table_of(directory, given if set(FILLERS) & set(given.column_names) else None)
        else:
            raise ValueError(
                "give the folder of a saved graph, or --citations and --papers; see `scisci-gym labels --help`"
            )
        write_labels(table, out)
    except (FileNotFoundError, ValueError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(f"{table.num_rows:,} papers, {table.num_columns} columns -> {out}")
    if plot is not None:
        typer.echo(f"pictures and their tables -> {plot}")


app = typer.Typer(add_completion=False)
app.command()(labels)
