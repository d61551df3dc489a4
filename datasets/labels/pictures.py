"""Pictures of a table of labels: each as PNG, with the table that it is drawn from (csv) and a text for those who
cannot see it."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ..atomic_files import write_text_atomically
from ..graph.citation_graph import CitationGraph
from .summaries import (
    ALL,
    AtypicalityMap,
    artefacts,
    atypicality_map,
    cd_by_year_and_field,
    cd_over_windows,
    most_cited,
)

INK, MUTED, GRID, SHADE = "#1b1f24", "#5d6670", "#e4e7eb", "#f1f3f5"
COLOURS = ("#0b66b5", "#c14a00", "#00805b", "#a8477e", "#7a6a00", "#2a87b8", "#6b4fb3", "#555d66")
DASHED = (0, (4, 3))
STYLE: Any = {
    "font.family": "sans-serif", "axes.titlesize": 10, "axes.labelsize": 9, "axes.titlelocation": "left",
    "axes.titlecolor": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.8,
    "legend.frameon": False, "legend.fontsize": 7.5, "legend.labelcolor": INK,
}  # fmt: skip
MOST_FIELDS = 7
"""Fields with a line of their own; the others are in the csv file."""
NAMES = ("cd_by_year_and_field", "cd_trajectory", "atypicality_map", "artefacts")
FILES = frozenset(
    {"README.md", "atypicality_kinds.csv", *(f"{name}.{kind}" for name in NAMES for kind in ("png", "csv"))}
)
"""Everything that `write_pictures` writes."""


class Picture(NamedTuple):
    """A picture that was drawn."""

    name: str
    title: str
    alt: str
    tables: dict[str, pd.DataFrame]
    figure: Figure


def write_pictures(
    table: pa.Table,
    graph: CitationGraph,
    folder: Path,
    *,
    window: int,
    closed_by: int,
    papers: Sequence[int] = (),
    years: int = 10,
) -> list[str]:
    """Write pictures of a table of labels, their tables, and ``README.md``, a page with all of them, to `folder`.

    `table` is what `label_table` returned for `graph`, with a citation window of `window` years and the last complete
    year `closed_by`. `papers` are positions of the papers whose CD index is followed over windows of up to `years`
    years, by default the most cited eligible one. Returns why a picture was not drawn, a sentence each.
    """
    pictures, missing = [], []
    by_year = cd_by_year_and_field(table, window, closed_by)
    if by_year.empty:
        missing.append(f"no distribution of CD: no paper with references has a window that closes by {closed_by}")
    else:
        pictures.append(_distribution(by_year, window))
    followed = list(papers) or most_cited(table)
    if followed:
        pictures.append(_trajectory(cd_over_windows(table, graph, followed, years, closed_by)))
    else:
        missing.append("no trajectory: no paper is eligible; name one with --plot-paper")
    if "z10" in table.column_names and (result := atypicality_map(table)).kinds.papers.sum():
        pictures.append(_atypicality(result))
    else:
        missing.append("no map of atypicality: no paper cites two references of known venues (column venue)")
    pictures.append(_artefacts(artefacts(table, window, closed_by), window, closed_by))
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:  # those of an earlier call with other columns
        (folder / name).unlink(missing_ok=True)
    page = ["# Pictures of the labels", ""]
    for picture in pictures:
        page += [f"## {picture.title}", "", f"![{html.escape(picture.alt, quote=False)}]({picture.name}.png)", ""]
        page += ["The numbers: " + ", ".join(f"[{name}.csv]({name}.csv)" for name in picture.tables) + ".", ""]
        picture.figure.savefig(folder / f"{picture.name}.png", dpi=144, metadata={"Description": picture.alt})
        for name, numbers in picture.tables.items():
            numbers.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    write_text_atomically(folder / "README.md", "\n".join(page))
    return missing


def _distribution(rows: Any, window: int) -> Picture:
    by_year = rows[(rows.field == ALL) & rows.year.notna()]
    by_field = rows[rows.year.isna()].sort_values("papers", ascending=False)
    names = by_field.field.tolist()[:MOST_FIELDS] if len(by_field) > 1 else []

    def means(axes: Any) -> None:
        for place, name in enumerate(names):
            of_field = rows[(rows.field == name) & rows.year.notna()]
            axes.plot(of_field.year, of_field["mean"], color=COLOURS[place], linewidth=1.1)
        axes.fill_between(by_year.year, by_year.mean_low, by_year.mean_high, color=INK, alpha=0.15, linewidth=0)
        axes.plot(by_year.year, by_year["mean"], color=INK, linewidth=2)
        which = "black: all fields, with 95 % interval" if names else "95 % interval"
        axes.set(title=f"Mean CD{_sub(window)}; {which}", xlabel="year of publication")

    def bands(axes: Any) -> None:
        band = {"color": COLOURS[0], "linewidth": 0}
        axes.fill_between(by_year.year, by_year.p5, by_year.p95, alpha=0.15, label="5–95 %", **band)
        axes.fill_between(by_year.year, by_year.p25, by_year.p75, alpha=0.4, label="25–75 %", **band)
        axes.plot(by_year.year, by_year.p50, color=COLOURS[0], linewidth=2, label="median")
        axes.legend()
        axes.set(title=f"Distribution of CD{_sub(window)}", xlabel="year of publication")

    def fields(axes: Any) -> None:
        shown = by_field.iloc[:MOST_FIELDS][::-1]
        places = np.arange(len(shown))
        colours = list(COLOURS[: len(shown)])[::-1]
        axes.hlines(places, shown.p5, shown.p95, color=colours, linewidth=1.2)
        axes.hlines(places, shown.p25, shown.p75, color=colours, linewidth=6, alpha=0.5)
        axes.scatter(shown.p50, places, color=colours, s=26, zorder=3)
        words = [f"{_plain(fill(str(name), 24))}\n{n:,}" for name, n in zip(shown.field, shown.papers, strict=True)]
        axes.set_yticks(places, words)
        for text, colour in zip(axes.get_yticklabels(), colours, strict=True):
            text.set_color(colour)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set(title="By field: median, 25–75 %, 5–95 %", xlabel=f"CD{_sub(window)}")

    first, last = by_year.iloc[0], by_year.iloc[-1]
    n = int(by_year.papers.sum())
    alt = (
        f"Mean CD index over {window} years of {n:,} papers with references, by year of publication: "
        f"{first['mean']:.3f} in {first.year}, {last['mean']:.3f} in {last.year}; half of the papers of {last.year} "
        f"lie between {last.p25:.3f} and {last.p75:.3f}"
    )
    if names:
        middle = ", ".join(f"{name} {value:.3f}" for name, value in zip(names, by_field["mean"], strict=False))
        alt += f". Means by field: {middle}"
    drawn = _figure([means, bands, *([fields] if names else [])], zero=True)
    return Picture(NAMES[0], "CD index by year and field", alt + ".", {NAMES[0]: rows}, drawn)


def _trajectory(rows: Any) -> Picture:
    papers = list(rows.groupby("id", sort=False))
    year, field = rows.publication_year[0], rows.field[0]

    def draw(axes: Any) -> None:
        for place, (name, of_paper) in enumerate(papers):
            colour = COLOURS[place % len(COLOURS)]
            if len(papers) == 1:
                axes.fill_between(of_paper.window, of_paper.p25, of_paper.p75, color=MUTED, alpha=0.2, linewidth=0)
                axes.plot(of_paper.window, of_paper["median"], color=MUTED, linewidth=1.2, linestyle=DASHED)
            label = _plain(f"{name} ({of_paper.publication_year.iloc[0]})")
            axes.plot(of_paper.window, of_paper.cd, color=colour, linewidth=2, marker="o", markersize=4, label=label)
        if len(papers) == 1:
            same = ", ".join([*([_plain(field)] if field else []), str(year)])
            axes.plot([], [], color=MUTED, linewidth=6, alpha=0.3, label=f"{same}: median, 25–75 %")
        # Below the picture: a line may go anywhere.
        axes.figure.legend(fontsize=8, loc="outside lower center", ncols=2)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set(title="CD index as citations come in", xlabel="window, years after publication", ylabel="CD")

    def words(name: Any, of_paper: Any) -> str:
        defined = of_paper[of_paper.cd.notna()]
        if defined.empty:
            return f"{name}: undefined throughout"
        first, last = defined.iloc[0], defined.iloc[-1]
        return f"{name}: {first.cd:.3f} in a window of {first.window}, {last.cd:.3f} in one of {last.window} years"

    alt = "CD index by length of the citation window. " + "; ".join(words(name, part) for name, part in papers) + "."
    return Picture(NAMES[1], "One paper's CD index over windows", alt, {NAMES[1]: rows}, _figure([draw], zero=True))


def _atypicality(result: AtypicalityMap) -> Picture:
    cells: Any = result.cells
    kinds: Any = result.kinds
    has_hits = "hit_share" in kinds and kinds.with_percentile.sum() > 0

    def plane(axes: Any) -> None:
        x = np.unique([*cells.z_median_low, *cells.z_median_high])
        y = np.unique([*cells.z10_low, *cells.z10_high])
        counts = np.zeros((y.size - 1, x.size - 1))
        counts[np.searchsorted(y, cells.z10_low), np.searchsorted(x, cells.z_median_low)] = cells.papers
        ticks = [0.0, *(sign * 10.0**power for power in range(6) for sign in (-1, 1))]
        for scale, place, edges in ((axes.set_xscale, axes.set_xticks, x), (axes.set_yscale, axes.set_yticks, y)):
            scale("asinh")
            inside = sorted(tick for tick in ticks if edges[0] <= tick <= edges[-1])
            place(inside, [f"{tick:,.0f}" for tick in inside])
            place([], minor=True)
        shown = np.ma.masked_equal(counts, 0)
        mesh = axes.pcolormesh(x, y, shown, cmap="Blues", norm=LogNorm(vmin=0.5, vmax=max(counts.max(), 2)))
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.8)
        bar.set_label("papers", fontsize=8, color=INK)
        bar.ax.tick_params(labelsize=7, colors=INK)
        bar.outline.set_visible(False)
        bar.ax.grid(False)
        axes.axhline(0, color=COLOURS[1], linewidth=1, linestyle=DASHED)
        # Above the line on the left nothing is ever drawn: a 10th percentile is at most the median.
        where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate("high novelty below", (0.02, 0), (0, 2), color=COLOURS[1], fontsize=8, **where)
        names = {"xlabel": "median of z (conventionality)", "ylabel": "10th percentile of z (novelty)"}
        axes.set(title="Atypicality of cited venues", **names)

    def bars(axes: Any) -> None:
        share = kinds.hit_share if has_hits else kinds.share
        places = np.arange(len(kinds))[::-1]
        axes.barh(places, 100 * share, color=COLOURS[0], height=0.55)
        if has_hits:
            error = 100 * np.array([share - kinds.hit_low, kinds.hit_high - share])
            axes.errorbar(100 * share, places, xerr=error, fmt="none", ecolor=INK, elinewidth=1)
            rate = 100 * kinds.hits.sum() / kinds.with_percentile.sum()
            axes.axvline(rate, color=MUTED, linewidth=1, linestyle=DASHED)
            axes.set(title="Hits (top 5 % by citations)", xlabel="% of papers; dashed: all papers")
        else:
            axes.set(title="Papers of the four kinds", xlabel="% of papers")
        words = "novelty {0.novelty}\nconventionality {0.conventionality}\n{0.papers:,}"
        axes.set_yticks(places, [words.format(kind) for kind in kinds.itertuples()])
        axes.set_xlim(left=0)

    described = [
        f"novelty {kind.novelty} and conventionality {kind.conventionality}: {kind.papers:,} papers"
        + (f", {kind.hit_share:.1%} hits" if has_hits and kind.with_percentile else "")
        for kind in kinds.itertuples()
    ]
    about = f"Map of {kinds.papers.sum():,} papers, median z-score of their venue pairs against the 10th percentile."
    alt = f"{about} {'; '.join(described)}."
    tables = {NAMES[2]: cells, "atypicality_kinds": kinds}
    return Picture(NAMES[2], "Atypicality", alt, tables, _figure([plane, bars]))


def _artefacts(rows: Any, window: int, closed_by: int) -> Picture:
    last = int(rows.year.max())

    def open_windows(axes: Any) -> None:
        if last + window > closed_by:
            axes.axvspan(max(closed_by - window, rows.year.min()) + 0.5, last + 0.5, color=SHADE, zorder=0)
        axes.set_xlim(rows.year.min() - 0.5, last + 0.5)

    def shares(axes: Any) -> None:
        open_windows(axes)
        names = {
            "without_references": "no reference in the data",
            "cd_is_1": "CD = 1 (of those with a CD)",
            "cd_is_1_without_references": "CD = 1 for want of references",
        }
        for place, (column, label) in enumerate(names.items()):
            style = (0, (4, 2)) if place == 2 else "-"
            axes.plot(rows.year, 100 * rows[column], color=COLOURS[place], linewidth=1.8, linestyle=style, label=label)
        axes.legend()
        axes.set_ylim(bottom=0)
        axes.set(title="Papers without references, and CD = 1", xlabel="year of publication", ylabel="% of papers")

    def means(axes: Any) -> None:
        open_windows(axes)
        axes.plot(rows.year, rows.mean_cd, color=COLOURS[1], linewidth=1.8, label="all papers")
        axes.plot(rows.year, rows.mean_cd_with_references, color=COLOURS[0], linewidth=1.8, label="with references")
        axes.legend()
        axes.set(title=f"Mean CD{_sub(window)}; grey: window still open", xlabel="year of publication")

    def coverage(axes: Any) -> None:
        low, middle, high = (100 * rows[name] for name in ("coverage_p25", "coverage", "coverage_p75"))
        axes.fill_between(rows.year, low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
        axes.plot(rows.year, middle, color=COLOURS[0], linewidth=1.8)
        axes.set_ylim(0, 102)
        axes.set(title="References in the data: median, 25–75 %", xlabel="year of publication", ylabel="%")

    n = rows.papers.sum()
    bare = (rows.without_references * rows.papers).sum() / n
    truncated = rows.papers[~rows.window_closed].sum() / n
    ones = (rows.cd_is_1_without_references * rows.with_cd).sum() / max(rows.with_cd.sum(), 1)
    alt = (
        f"Of {n:,} papers {bare:.1%} have no reference in the data and {truncated:.1%} a window of {window} years that "
        f"ends after {closed_by}. {ones:.1%} of the CD indices are 1 because there are no references."
    )
    panels = [shares, means, *([coverage] if "coverage" in rows else [])]
    return Picture(NAMES[3], "Coverage and artefacts", alt, {NAMES[3]: rows}, _figure(panels))


def _figure(panels: Sequence[Callable[[Any], None]], zero: bool = False) -> Figure:
    """Panels side by side in one style; `zero` draws the line CD = 0."""
    with matplotlib.rc_context(STYLE):
        # Not by pyplot: it would keep the figure and choose a backend for the whole process.
        figure = Figure(figsize=(4.3 * len(panels) + (1.0 if len(panels) == 1 else 0.2), 3.3), layout="constrained")
        for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            axes.tick_params(labelsize=8, colors=INK)
            draw(axes)
            if "year" in axes.get_xlabel():
                axes.xaxis.get_major_locator().set_params(integer=True)  # no paper is of 1992.5
            if zero:
                line = axes.axvline if axes.get_xlabel().startswith("CD") else axes.axhline
                line(0, color=MUTED, linewidth=0.8, zorder=1)
        return figure


def _sub(window: int) -> str:
    return rf"$_{{{window}}}$"


def _plain(value: Any) -> str:
    """Matplotlib reads `$...$` as mathematics."""
    return str(value).replace("$", r"\$")
