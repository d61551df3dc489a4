"""Every label of a saved citation graph in one table."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import SetLookupOptions, call_function

from ..disk_arrays import held
from ..disruption.cd_index import disruption_counts, ratio
from ..disruption.robustness import cd_interval, cd_percentile, coverage, rewired_cd
from ..disruption.variants import cd_trajectory, dependence, di_l
from ..graph.citation_graph import CitationGraph
from ..graph.from_tables import read_table
from ..novelty.atypicality import Atypicality, atypicality
from ..novelty.commonness import commonness
from ..novelty.first_pairs import first_pairs
from .citation_impact import hit_labels, sleeping_beauty
from .eligibility import LabelRules
from .graph_labels import GraphLabels, NoveltyScores, graph_labels
from .ray import ray_atypicality, ray_disruption_counts
from .schemes import NOVELTY_NAMES

AT_A_TIME = 1 << 20
FILLERS = {"venue": -1, "field": "", "excluded": False, "reference_count": 0}
"""Columns of a table of papers that labels are made from, and what counts where a value is missing."""
TYPES = {"excluded": pa.bool_(), "reference_count": pa.int64()}
"""What a csv file may hold as numbers or texts."""


def label_table(
    directory: str | Path,
    *,
    papers: str | Path | pa.Table | None = None,
    rules: LabelRules = LabelRules(),  # noqa: B008  (frozen)
    null: str = "shuffle",
    samples: int | None = None,
    seed: int = 0,
    trajectory: int = 0,
    rewired: int = 0,
    interval: bool = False,
    engine: str = "local",
    memory: int | None = None,
    report: Callable[[str, float], object] = lambda step, seconds: None,
) -> pa.Table:
    """Labels of every paper of a saved graph, one row per paper in the graph's order.

    Parameters
    ----------
    directory : path
        A graph that `CitationGraph.save` or `build_graph` wrote.
    papers : path or pyarrow.Table, optional
        A csv or parquet file (see `read_table`) with a column ``id`` (the graph's `node_ids`; without it, rows in the
        graph's order) and any of ``venue`` (number or name, for the novelty columns), ``field`` (for tertiles,
        percentiles and hits), ``excluded`` (true for papers that cannot carry a label for what they are) and
        ``reference_count`` (for coverage). Papers that are not in the graph are ignored. A built dataset has such a
        file beside its graph.
    rules : LabelRules
        Window, scheme and eligibility of the labels, as in a build.
    null, samples, seed
        As in `atypicality`.
    trajectory : int
        Columns ``cd_1`` ... up to this year; 0 for none.
    rewired : int
        Column ``cd_z`` against so many rewired graphs; 0 for none.
    interval : bool
        Columns ``cd_low`` and ``cd_high``, a 95 % interval.
    engine : {"local", "ray"}
        Where n_i, n_j, n_k and atypicality are computed.
    memory : int, optional
        Bytes for the CD index and its family, and for atypicality: see `disruption_counts` and `atypicality`. The table
        then lies in temporary files, and beside these bytes about 50 a paper are held while it is made, and the
        distinct pairs of venues of all years where venues are given. The table does not depend on it. On Ray, bytes of
        each task.
    report : callable
        Called with the name and the seconds of every step.

    Raises `FileNotFoundError`, `ValueError` or `ImportError`: no graph, bad columns or options, no Ray.

    Examples
    --------
    Of later papers g and j cite f only, h cites f and its reference a, i cites only its reference b: CD is (2 - 1) / 4.

    >>> import tempfile
    >>> citing, cited = list("ffghhij"), list("abffabf")
    >>> years = dict(a=1990, b=1991, f=1995, g=1997, h=1998, i=1999, j=1999)
    >>> graph = CitationGraph.from_ids(citing, cited, list(years.values()), list(years))
    >>> graph.save(folder := tempfile.mkdtemp())
    >>> rules = LabelRules(min_references=2, min_citations=3, last_complete_year=2000)
    >>> label_table(folder, rules=rules).select(["id", "n_i", "n_j", "n_k", "cd", "disruption_label"]).to_pylist()[2]
    {'id': 'f', 'n_i': 2, 'n_j': 1, 'n_k': 1, 'cd': 0.25, 'disruption_label': 'disruptive'}
    """
    graph = CitationGraph.load(directory)
    given = {} if papers is None else _columns_of_papers(papers, graph)
    count = partial(ray_disruption_counts, directory) if engine == "ray" else partial(disruption_counts, graph)
    scores = partial(ray_atypicality, directory) if engine == "ray" else partial(atypicality, graph)
    novelty = partial(scores, null=null, samples=samples, seed=seed, memory=memory)
    excluded = [("excluded", given["excluded"])] if "excluded" in given else []
    columns: dict[str, pa.ChunkedArray] = {}
    started = time.perf_counter()
    counts = count(rules.window, memory=memory)
    fields: Any = given.get("field")
    groups = fields.indices.to_numpy() if isinstance(fields, pa.DictionaryArray) else fields
    on_disk = memory is not None
    labels = graph_labels(graph, rules, groups, excluded=excluded, counts=counts, on_disk=on_disk)
    steps = _steps(graph, labels, given, groups, rules.window, novelty, seed, trajectory, rewired, interval, memory)
    for step, values in steps:
        for name in list(values):
            columns[name] = _column(values.pop(name), graph.n_papers, on_disk)
        report(step, time.perf_counter() - started)
        started = time.perf_counter()
    return pa.table(columns)


def _column(values: Any, size: int, on_disk: bool) -> pa.ChunkedArray:
    """A column from an array (N,), or from a function that gives the values of a slice of the papers.

    On disk it is an Arrow file without a name that is mapped into memory, and goes with the column.
    """

    def parts() -> Iterator[pa.Array]:
        for start in range(0, size, AT_A_TIME):
            part = slice(start, min(start + AT_A_TIME, size))
            yield pa.array(values(part) if callable(values) else values[part])

    if not on_disk:
        return pa.chunked_array(parts())
    with TemporaryFile() as file:
        arrays = parts()
        first = next(arrays)
        with pa.ipc.new_file(file, pa.schema([("values", first.type)])) as writer:
            for array in chain([first], arrays):
                writer.write_batch(pa.record_batch([array], ["values"]))
        file.flush()
        return pa.ipc.open_file(pa.py_buffer(np.memmap(file, mode="r"))).read_all()["values"]


def _steps(
    graph: CitationGraph,
    labels: GraphLabels,
    given: dict[str, Any],
    groups: np.ndarray | None,
    window: int,
    novelty: Callable[[np.ndarray], Atypicality],
    seed: int,
    trajectory: int,
    rewired: int,
    interval: bool,
    memory: int | None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compute the table step by step: the name of each step and its columns, see `_column`."""
    n_i, n_j, n_k = labels.counts

    def lengths(indptr: np.ndarray) -> Callable[[slice], np.ndarray]:
        return lambda part: np.diff(indptr[part.start : part.stop + 1])

    columns: dict[str, Any] = {
        "id": _ids(graph),
        "year": graph.years,
        "references": lengths(graph.ref_indptr),
        "citations": lengths(graph.cit_indptr),
        "citations_in_window": lambda part: n_i[part] + n_j[part],
        "n_i": n_i,
        "n_j": n_j,
        "n_k": n_k,
        "cd": labels.cd,
        "mcd": lambda part: labels.cd[part] * (n_i[part] + n_j[part]),
        "di_nok": lambda part: ratio(n_i[part] - n_j[part], n_i[part] + n_j[part]),
        "eligible": labels.eligible,
        "disruption_label": lambda part: labels.cuts.labels(labels.cd[part], part),
    }
    yield "CD index", columns
    columns = {"di_5": held(di_l(graph, 5, window, memory=memory), memory is not None)}
    columns["dependence"] = dependence(graph, window, memory=memory)
    if trajectory:
        by_year = cd_trajectory(graph, trajectory, memory=memory).T
        columns |= {f"cd_{year}": cd for year, cd in enumerate(by_year, start=1)}
    yield "CD family", columns
    if interval:
        yield "intervals", dict(zip(("cd_low", "cd_high"), cd_interval(labels.counts, seed=seed), strict=True))
    if rewired:
        yield "rewired graphs", {"cd_z": rewired_cd(graph, window, samples=rewired, seed=seed).z}
    yield "Sleeping Beauty", dict(zip(("beauty", "awakening"), sleeping_beauty(graph), strict=True))
    if "reference_count" in given:
        yield "coverage", {"coverage": coverage(graph, given["reference_count"])}
    if groups is not None and labels.percentiles is not None:
        field, percentiles = given["field"], labels.percentiles
        columns = {
            "field": lambda part: (
                field[part].dictionary_decode() if isinstance(field, pa.DictionaryArray) else field[part]
            ),
            "cd_percentile": cd_percentile(labels.cd, groups, graph.years, graph.reference_counts),
            "citation_percentile": percentiles,
            "hit_label": lambda part: hit_labels(percentiles[part]),
        }
        yield "percentiles", columns
    if "venue" not in given:
        return
    result = novelty(given["venue"])
    scores = NoveltyScores.of(result, graph.years)
    columns = {
        "z10": result.z10,
        "z_median": result.z_median,
        "venue_pairs": result.n_pairs,
        "venue_pairs_left_out": result.n_left_out,
        "novelty_score": scores.novelty,
        "conventionality_score": scores.conventionality,
        "novelty_label": lambda part: NOVELTY_NAMES[scores.codes[part]],
        "novelty_withheld": scores.withheld,
    }
    yield "atypicality", columns
    columns = {"commonness_novelty": held(commonness(graph, given["venue"]), memory is not None)}
    columns["first_pair_novelty"], columns["first_pairs"] = first_pairs(graph, given["venue"])
    yield "commonness and first pairs", columns


def _ids(graph: CitationGraph) -> np.ndarray:
    return np.arange(graph.n_papers) if graph.node_ids is None else np.asarray(graph.node_ids)


def _columns_of_papers(papers: str | Path | pa.Table, graph: CitationGraph) -> dict[str, Any]:
    """Columns ``venue``, ``field``, ``excluded`` and ``reference_count`` of a file or table, in the graph's order.

    They are arrays (N,), and fields that are texts a dictionary array (N,).
    """
    path, table = (papers, read_table(papers)) if isinstance(papers, (str, Path)) else ("the table of papers", papers)
    wanted = [name for name in FILLERS if name in table.column_names]
    if not wanted:
        raise ValueError(f"{path} has none of the columns {', '.join(FILLERS)}, only {table.column_names}")
    if "id" in table.column_names:
        ids = pa.array(_ids(graph))
        given = table["id"].cast(ids.type)
        if not given.equals(pa.chunked_array([ids])):
            rows = call_function("index_in", [ids], SetLookupOptions(given.combine_chunks()))
            if rows.null_count:
                missing = ids[int(np.argmax(np.asarray(rows.is_null())))].as_py()
                others = rows.null_count - 1
                raise ValueError(f"{path} has no row for paper {missing!r} and {others} others of the graph")
            table = table.select(wanted).take(rows)
    elif table.num_rows != graph.n_papers:
        raise ValueError(
            f"{path} has {table.num_rows} rows and no column 'id', but the graph has {graph.n_papers} papers"
        )
    columns: dict[str, Any] = {}
    for name in wanted:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if name == "venue" and not pa.types.is_integer(column.type):
            column = pa.chunked_array([column.dictionary_encode().unify_dictionaries().combine_chunks().indices])
        if name in TYPES:
            try:
                column = column.cast(TYPES[name])
            except pa.ArrowInvalid as error:
                raise ValueError(f"column {name!r} of {path}: {error}") from error
        if name == "field" and not pa.types.is_integer(column.type):
            columns[name] = column.fill_null("").dictionary_encode().unify_dictionaries().combine_chunks()
        else:
            columns[name] = (column if name == "field" else column.fill_null(FILLERS[name])).to_numpy()
    return columns
