"""`scisci-gym build`: one command a source, all ending in the same kind of dataset folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .build import BuildOptions, build_dataset
from .ceiling import add_ceiling
from .labelling import LabelRules
from .paper import DISRUPTION_LABELS
from .snapshot import BadInput, read_works
from .splits import SPLITS, SplitYears
from .synthetic import SyntheticCorpus, write_synthetic_works

app = typer.Typer(help="Build a labelled, time-split dataset out of works.", no_args_is_help=True)


class Scheme(StrEnum):
    """Label schemes."""

    threshold = "threshold"
    quantile = "quantile"


class Split(StrEnum):
    """Ways to split by time."""

    closed = "closed"
    publication = "publication"


Out = Annotated[
    Path, typer.Option("--out", help="Folder to write the dataset to; an earlier dataset there is replaced.")
]
SchemeOption = Annotated[
    Scheme, typer.Option("--labels", help="threshold: CD beyond +-threshold; quantile: tertiles within field and year.")
]
Window = Annotated[int, typer.Option(help="Years after publication whose citations count.")]
Threshold = Annotated[float, typer.Option(help="Cut of the threshold scheme.")]
MinReferences = Annotated[int, typer.Option(help="References in the data that a labelled paper needs.")]
MinCitations = Annotated[int, typer.Option(help="Citations inside the window that a labelled paper needs.")]
LastYear = Annotated[
    int | None, typer.Option(help="Last year the data covers completely (default: found from the works per year).")
]
Language = Annotated[str, typer.Option(help="Language of labelled papers, or 'any'.")]
SplitOption = Annotated[
    Split, typer.Option(help="closed: training windows close before the first test paper; publication: by year alone.")
]
SplitYearsOption = Annotated[
    str | None, typer.Option("--split-years", help="TRAIN_TO,VALIDATION_TO,TEST_FROM,TEST_TO instead of chosen years.")
]
MaxReferences = Annotated[int, typer.Option(help="Titles of cited papers kept with each paper.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars, no table.")]


def stop_on_bad_input(run: Callable[[], Any]) -> Any:
    """Run `run`; show what is wrong with the user's input in one line and exit with status 2, without a traceback."""
    try:
        return run()
    except (BadInput, FileNotFoundError, ValueError) as error:
        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/red] {error}", highlight=False)
        raise typer.Exit(2) from error


@app.command()
def snapshot(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Works of an OpenAlex snapshot: folders of gzip JSON lines.")
    ],
    out: Out,
    labels: SchemeOption = Scheme.threshold,
    window: Window = 5,
    threshold: Threshold = 0.1,
    min_references: MinReferences = 5,
    min_citations: MinCitations = 5,
    last_complete_year: LastYear = None,
    language: Language = "en",
    split: SplitOption = Split.closed,
    split_years: SplitYearsOption = None,
    max_references: MaxReferences = 20,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Drop and count damaged records instead of stopping.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Real works in OpenAlex snapshot layout."""

    def run() -> dict[str, Any]:
        rules = _rules(labels, threshold, window, min_references, min_citations, last_complete_year, language)
        options = BuildOptions(rules, split, _years(split_years), max_references, ("scisci-gym", *sys.argv[1:]))
        works, dropped = read_works(folder, skip_bad=skip_bad, progress=not quiet)
        return build_dataset(works, dropped, out, options)

    _show(stop_on_bad_input(run), out, quiet)


@app.command()
def synthetic(
    out: Out,
    papers: Annotated[
        int, typer.Option(help="Papers in the literature; about a fifth carry a label.")
    ] = SyntheticCorpus.papers,
    seed: Annotated[int, typer.Option(help="The same seed gives the same dataset, byte for byte.")] = 0,
    fidelity: Annotated[
        float, typer.Option(help="Best reachable accuracy: how often the wording points to the label.")
    ] = SyntheticCorpus.fidelity,
    labels: SchemeOption = Scheme.threshold,
    window: Window = 5,
    threshold: Threshold = 0.1,
    split: SplitOption = Split.closed,
    split_years: SplitYearsOption = None,
    quiet: Quiet = False,
) -> None:
    """A made-up literature: labels from a real graph, wording with a known ceiling. Nothing is downloaded."""

    def run() -> dict[str, Any]:
        rules = LabelRules(scheme=labels, threshold=threshold, window=window)
        corpus = SyntheticCorpus(papers=papers, seed=seed, fidelity=fidelity)
        options = BuildOptions(rules, split, _years(split_years), command=("scisci-gym", *sys.argv[1:]))
        return build_synthetic(corpus, out, options, progress=not quiet)

    _show(stop_on_bad_input(run), out, quiet)


def build_synthetic(corpus: SyntheticCorpus, out: Path, options: BuildOptions, progress: bool = True) -> dict[str, Any]:
    """Write a synthetic corpus as a snapshot below `out`, build the dataset from it, and return its card."""
    # Its newest year is complete: the literature was made by whole years.
    rules = LabelRules(**{**vars(options.rules), "last_complete_year": corpus.first_year + corpus.years - 1})
    works_folder = write_synthetic_works(out / "source", corpus, rules)
    works, dropped = read_works(works_folder, progress=progress)
    build_dataset(works, dropped, out, BuildOptions(**{**vars(options), "rules": rules}))
    return add_ceiling(out, corpus.fidelity)


def _rules(
    scheme: str, threshold: float, window: int, references: int, citations: int, last: int | None, language: str
) -> LabelRules:
    return LabelRules(
        scheme=str(scheme),
        threshold=threshold,
        window=window,
        min_references=references,
        min_citations=citations,
        last_complete_year=last,
        language=None if language == "any" else language,
    )


def _years(text: str | None) -> SplitYears | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--split-years takes four years such as 1995,1996,2002,2004, got {text!r}")
    return SplitYears(*(int(part) for part in parts))


def _show(card: dict[str, Any], out: Path, quiet: bool) -> None:
    if quiet:
        return
    console = Console()
    table = Table(
        title=f"{card['works_in_graph']:,} works, {card['citations']['kept']:,} citations", title_justify="left"
    )
    for heading in ("split", "years", "papers", *DISRUPTION_LABELS):
        table.add_column(heading, justify="left" if heading in ("split", "years") else "right")
    for name in SPLITS:
        share = card["splits"][name]
        years = f"{share['years'][0]}-{share['years'][1]}"
        labels = (f"{count:,} ({count / share['papers']:.0%})" for count in share["labels"].values())
        table.add_row(name, years, f"{share['papers']:,}", *labels)
    console.print(table)
    for title, reasons in (("not in the graph", card["works_dropped"]), ("without a label", card["not_labelled"])):
        if reasons:
            console.print(
                f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in reasons.items()), highlight=False
            )
    if "ceiling" in card:
        test = card["ceiling"]["test"]
        console.print(
            f"best reachable: accuracy {card['ceiling']['fidelity']:g} expected; on this test split accuracy "
            f"{test['accuracy']:.3f}, macro-F1 {test['macro_f1']:.3f}",
            highlight=False,
        )
    console.print(f"written to {out} (card: {out / 'README.md'})", highlight=False)
