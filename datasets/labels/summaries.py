"""A table of labels summed up in the tables behind its pictures: CD by year and field, a paper's CD over windows,
atypicality, and artefacts. Every function takes the table of `label_table` and returns a `pandas.DataFrame`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from ..disruption.variants import cd_trajectory
from ..graph.citation_graph import CitationGraph
from ..paper import is_hit

ALL = "all fields"
PERCENTILES = (5, 25, 50, 75, 95)
CELLS = 40
"""Cells of the map of atypicality, each way."""


def cd_by_year_and_field(table: pa.Table, window: int, closed_by: int) -> pd.DataFrame:
    """Distribution of the CD index by publication year and field.

    Papers without references in the data are left out (their CD index is 1 as soon as they are cited: Holst et al.
    2024), and so are those whose window ends after the year `closed_by`.

    Returns
    -------
    DataFrame
        A row for every year of each field and of `ALL`; where there are fields, also one for each field over all years
        (``year`` missing). Columns ``field``, ``year``, ``papers``, ``mean`` and its 95 % interval ``mean_low``,
        ``mean_high`` (normal approximation, missing for one paper), ``p5`` ... ``p95``.

    References
    ----------
    Park, Leahey & Funk (2023), "Papers and patents are becoming less disruptive over time", Nature 613, Fig. 2 (mean
    CD_5 by year and field).
    """
    rows = _frame(table, ["year", "cd", "references"], ["field"])
    rows = rows[rows.cd.notna() & (rows.references > 0) & (rows.year + window <= closed_by)]
    groups: list[tuple[Any, Any, Any]] = [(ALL, year, cd) for year, cd in rows.groupby("year").cd]
    if "field" in rows:
        groups += [(name, None, cd) for name, cd in rows.groupby("field").cd]
        groups += [(name, year, cd) for (name, year), cd in rows.groupby(["field", "year"]).cd]  # pyright: ignore[reportGeneralTypeIssues]
    columns = ["field", "year", "papers", "mean", "mean_low", "mean_high", *(f"p{at}" for at in PERCENTILES)]
    described = pd.DataFrame([(name, year, *_described(cd)) for name, year, cd in groups], columns=columns)
    return described.astype({"year": "Int64"})


def _described(values: pd.Series) -> tuple[float, ...]:
    half = 1.96 * values.std() / len(values) ** 0.5
    middle = values.mean()
    return len(values), middle, middle - half, middle + half, *np.percentile(values, PERCENTILES)


def places_of(graph: CitationGraph, papers: Sequence[str], closed_by: int) -> list[int]:
    """Positions of papers that are to be followed over windows, by their ids written as text.

    Raises `ValueError` for an id that no paper has, and for a paper without a full year after it up to `closed_by`.
    """
    ids = np.arange(graph.n_papers) if graph.node_ids is None else np.asarray(graph.node_ids)
    names, places = ids.astype(str), []
    for paper in papers:
        found = np.flatnonzero(names == paper)
        if not found.size:
            raise ValueError(f"--plot-paper {paper}: no paper of the graph has this id; ids are such as {names[0]}")
        places.append(int(found[0]))
        if (year := int(graph.years[found[0]])) >= closed_by:
            raise ValueError(
                f"--plot-paper {paper} is of {year}, and the last complete year is {closed_by}: no full year of "
                "citations follows it; choose an older paper"
            )
    return places


def most_cited(table: pa.Table) -> list[int]:
    """The position of the paper with most citations among the eligible ones, in a list; an empty one where none is."""
    rows = _frame(table, ["citations", "eligible"])
    rows = rows[rows.eligible]
    return [] if rows.empty else [int(rows.citations.idxmax())]


def cd_over_windows(
    table: pa.Table, graph: CitationGraph, places: Sequence[int], years: int, closed_by: int
) -> pd.DataFrame:
    """CD_1, CD_2, ... of the papers at `places` (one or more), beside those of the papers of the same year and field.

    The longest window is `years`; for a paper whose windows reach beyond the year `closed_by` they end there.

    Returns
    -------
    DataFrame
        ``id``, ``publication_year``, ``field``, ``window``, ``cd``; ``peers``: papers of the same year and field with
        references and a CD index, itself included, and their ``p25``, ``median`` and ``p75``.

    References
    ----------
    CD_t as a function of t: Funk & Owen-Smith (2017), Management Science 63(3).
    """
    rows = _frame(table, ["id", "year", "references"], ["field"])
    out = []
    longest = max(min(years, closed_by - int(graph.years[place])) for place in places)
    trajectories = cd_trajectory(graph, longest)
    for place in places:
        row = rows.iloc[place]
        like = (rows.year == row.year) & (rows.references > 0)
        if "field" in rows:
            like &= rows.field == row.field
        for window in range(1, min(years, closed_by - row.year) + 1):
            cd = trajectories[like.to_numpy(), window - 1]
            cd = cd[~np.isnan(cd)]
            quartiles = np.percentile(cd, (25, 50, 75)) if cd.size else [np.nan] * 3
            own = (row.id, row.year, row.get("field", ""), window, trajectories[place, window - 1])
            out.append((*own, cd.size, *quartiles))
    columns = ["id", "publication_year", "field", "window", "cd", "peers", "p25", "median", "p75"]
    return pd.DataFrame(out, columns=columns)


class AtypicalityMap(NamedTuple):
    """What `atypicality_map` returns."""

    cells: pd.DataFrame
    """Papers in each cell: ``z_median_low``, ``z_median_high``, ``z10_low``, ``z10_high``, ``papers``; empty cells are
    left out. The cells are equally wide in asinh(z) and cover the middle 99 % of the papers each way."""
    kinds: pd.DataFrame
    """The four kinds of papers: ``novelty`` (high where z10 < 0), ``conventionality`` (high where z_median is above
    the median of the year), ``papers``, ``share``, and, where citation percentiles are known, ``with_percentile``,
    ``hits``, ``hit_share`` and its 95 % interval (Wilson) ``hit_low``, ``hit_high``."""


def atypicality_map(table: pa.Table) -> AtypicalityMap:
    """Median z-score of the venue pairs of papers against their 10th percentile, and the hits among the four kinds.

    References
    ----------
    Uzzi, Mukherjee, Stringer & Jones (2013), "Atypical combinations and scientific impact", Science 342, Fig. 2
    (probability of a hit by novelty and conventionality).
    """
    rows = _frame(table, ["year", "z10", "z_median"], ["citation_percentile"])
    rows = rows[rows.z10.notna() & rows.z_median.notna()]
    x, y = (_asinh_edges(rows[name]) for name in ("z_median", "z10"))
    counts = np.histogram2d(rows.z_median, rows.z10, bins=[x, y])[0].astype(int)
    i, j = np.nonzero(counts)
    cells = pd.DataFrame(
        {"z_median_low": x[i], "z_median_high": x[i + 1], "z10_low": y[j], "z10_high": y[j + 1], "papers": counts[i, j]}
    )
    novel = rows.z10 < 0
    conventional = rows.z_median > rows.groupby("year").z_median.transform("median")
    kinds = []
    for is_novel, is_conventional in ((True, True), (True, False), (False, True), (False, False)):
        chosen = rows[(novel == is_novel) & (conventional == is_conventional)]
        kind: dict[str, Any] = {"novelty": "high" if is_novel else "low"}
        kind |= {"conventionality": "high" if is_conventional else "low", "papers": len(chosen)}
        kind["share"] = len(chosen) / max(len(rows), 1)
        if "citation_percentile" in rows:
            known = chosen.citation_percentile.dropna()
            n, hits = len(known), int(is_hit(known).sum())
            kind |= {"with_percentile": n, "hits": hits, "hit_share": hits / n if n else np.nan}
            kind["hit_low"], kind["hit_high"] = _wilson(hits, n)
        kinds.append(kind)
    return AtypicalityMap(cells, pd.DataFrame(kinds))


def _asinh_edges(values: pd.Series) -> np.ndarray:
    low, high = np.arcsinh(np.percentile(values, (0.5, 99.5))) if len(values) else (0.0, 1.0)
    return np.sinh(np.linspace(low, max(high, low + 1e-6), CELLS + 1))


def _wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    if not n:
        return np.nan, np.nan
    z, p = 1.96, hits / n
    centre, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max((centre - half) / (1 + z * z / n), 0.0), min((centre + half) / (1 + z * z / n), 1.0)


def artefacts(table: pa.Table, window: int, closed_by: int) -> pd.DataFrame:
    """What the data lack, by publication year, and what that does to the CD index.

    Returns
    -------
    DataFrame
        ``year``, ``papers``; ``without_references``: share of papers with no reference in the data; ``with_cd``:
        papers with a CD index; ``cd_is_1`` and ``cd_is_1_without_references``: shares of these; ``mean_cd`` and
        ``mean_cd_with_references``; ``window_closed``: whether the window ends by the year `closed_by`. Where reference
        counts were given, also ``coverage_p25``, ``coverage`` (median) and ``coverage_p75``.

    References
    ----------
    Holst et al. (2024), "Dataset artefacts are the hidden drivers of the declining disruptiveness in science": papers
    without references in the data have CD = 1 and are most common in early years.
    """
    rows = _frame(table, ["year", "cd", "references"], ["coverage"])
    out = []
    for year, papers in rows.groupby("year"):
        bare, cd = papers.references == 0, papers.cd
        defined = cd.notna()
        row: dict[str, Any] = {"year": year, "papers": len(papers), "without_references": bare.mean()}
        row |= {"with_cd": int(defined.sum()), "cd_is_1": (cd[defined] == 1).mean()}
        row |= {"cd_is_1_without_references": ((cd == 1) & bare)[defined].mean()}
        row |= {"mean_cd": cd.mean(), "mean_cd_with_references": cd[~bare].mean()}
        row["window_closed"] = year + window <= closed_by
        if "coverage" in rows:
            quartiles = papers.coverage.quantile([0.25, 0.5, 0.75])
            row |= dict(zip(("coverage_p25", "coverage", "coverage_p75"), quartiles, strict=True))
        out.append(row)
    return pd.DataFrame(out)


def _frame(table: pa.Table, needed: Sequence[str], wanted: Sequence[str] = ()) -> Any:
    """Some columns as a DataFrame; papers of an unknown field are of the field "unknown"."""
    columns = [*needed, *(name for name in wanted if name in table.column_names)]
    frame: Any = table.select(columns).to_pandas()
    if "year" in frame:
        frame["year"] = frame.year.astype(int)
    if "field" in frame:
        frame["field"] = frame.field.astype(str).replace("", "unknown")
    return frame
