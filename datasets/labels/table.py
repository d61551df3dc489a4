"""Every label of a saved citation graph in one table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..disruption.cd_index import disruption_counts, ratio
from ..disruption.robustness import cd_interval, cd_percentile, coverage, rewired_cd
from ..disruption.variants import cd_trajectory, dependence, di_l
from ..graph.citation_graph import CitationGraph
from ..novelty.atypicality import atypicality
from ..novelty.commonness import commonness
from ..novelty.first_pairs import first_pairs
from .citation_impact import hit_labels, sleeping_beauty
from .eligibility import LabelRules
from .graph_labels import graph_labels
from .ray import ray_atypicality, ray_disruption_counts
from .schemes import conventionality_score, novelty_score, sampled_labels


def label_table(
    directory: str | Path,
    *,
    papers: str | Path | None = None,
    rules: LabelRules = LabelRules(),  # noqa: B008  (frozen)
    null: str = "shuffle",
    samples: int | None = None,
    seed: int = 0,
    trajectory: int = 0,
    rewired: int = 0,
    interval: bool = False,
    engine: str = "local",
    report: Callable[[str, float], object] = lambda stage, seconds: None,
) -> pa.Table:
    """Labels of every paper of a saved graph, one row a paper in the graph's order.

    Parameters
    ----------
    directory : path
        A graph that `CitationGraph.save` or `build_graph` wrote.
    papers : path, optional
        Parquet with a column ``id`` (the graph's `node_ids`; without it, rows in the graph's order) and any of
        ``venue`` (number or name, for the novelty columns), ``field`` (for tertiles, percentiles and hits),
        ``excluded`` (true for papers that cannot carry a label for what they are) and ``reference_count`` (for
        coverage). Papers that are not in the graph are ignored. A built dataset has such a file beside its graph.
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
    report : callable
        Called with the name and the seconds of every step.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    FileNotFoundError, ValueError, ImportError
        No graph, bad columns or options, no Ray.
    """
    graph = CitationGraph.load(directory)
    given = _papers(papers, graph) if papers is not None else {}
    started = time.perf_counter()

    def step(name: str) -> None:
        nonlocal started
        report(name, time.perf_counter() - started)
        started = time.perf_counter()

    distributed = engine == "ray"
    window = rules.window
    counts = ray_disruption_counts(directory, window) if distributed else disruption_counts(graph, window)
    excluded = [("excluded", given["excluded"])] if "excluded" in given else []
    found = graph_labels(graph, rules, given.get("field"), excluded=excluded, counts=counts)
    (n_i, n_j, n_k), cd = counts, found.cd
    references = graph.reference_counts
    columns: dict[str, Any] = {
        "id": np.arange(graph.n_papers) if graph.node_ids is None else graph.node_ids,
        "year": graph.years,
        "references": references,
        "citations": graph.citation_counts,
        "citations_in_window": n_i + n_j,
        "n_i": n_i,
        "n_j": n_j,
        "n_k": n_k,
        "cd": cd,
        "mcd": cd * (n_i + n_j),
        "di_nok": ratio(n_i - n_j, n_i + n_j),
        "eligible": found.eligible,
        "disruption_label": found.disruption,
    }
    step("CD index")
    columns["di_5"] = di_l(graph, 5, window)
    columns["dependence"] = dependence(graph, window)
    if trajectory:
        for year, values in enumerate(cd_trajectory(graph, trajectory).T, start=1):
            columns[f"cd_{year}"] = values
    step("CD family")
    if interval:
        columns["cd_low"], columns["cd_high"] = cd_interval((n_i, n_j, n_k), seed=seed)
        step("intervals")
    if rewired:
        columns["cd_z"] = rewired_cd(graph, window, samples=rewired, seed=seed).z
        step("rewired graphs")
    columns["beauty"], columns["awakening"] = sleeping_beauty(graph)
    step("Sleeping Beauty")
    if "reference_count" in given:
        columns["coverage"] = coverage(graph, given["reference_count"])
    if found.percentiles is not None:
        field = given["field"]
        columns["field"] = field
        columns["cd_percentile"] = cd_percentile(cd, field, graph.years, references)
        columns["citation_percentile"] = found.percentiles
        columns["hit_label"] = hit_labels(found.percentiles)
        step("percentiles")
    if "venue" in given:
        venues, options = given["venue"], {"null": null, "samples": samples, "seed": seed}
        result = ray_atypicality(directory, venues, **options) if distributed else atypicality(graph, venues, **options)
        columns |= {"z10": result.z10, "z_median": result.z_median}
        columns |= {"venue_pairs": result.n_pairs, "venue_pairs_left_out": result.n_left_out}
        columns["novelty_score"] = novelty_score(result.z10, graph.years)
        columns["conventionality_score"] = conventionality_score(result.z_median, graph.years)
        columns["novelty_label"], columns["novelty_withheld"] = sampled_labels(result, graph.years)
        step("atypicality")
        columns["commonness_novelty"] = commonness(graph, venues)
        columns["first_pair_novelty"], columns["first_pairs"] = first_pairs(graph, venues)
        step("commonness and first pairs")
    return pa.table(columns)


def _papers(path: str | Path, graph: CitationGraph) -> dict[str, np.ndarray]:
    """Columns ``venue``, ``field``, ``excluded`` and ``reference_count`` of a file, in the graph's order."""
    table = pq.read_table(path)
    fillers = {"venue": -1, "field": "", "excluded": False, "reference_count": 0}
    wanted = [name for name in fillers if name in table.column_names]
    if not wanted:
        raise ValueError(f"{path} has none of the columns {', '.join(fillers)}, only {table.column_names}")
    if "id" in table.column_names:
        ids = np.arange(graph.n_papers) if graph.node_ids is None else graph.node_ids
        places = pc.call_function("index_in", [pa.array(ids)], pc.SetLookupOptions(table["id"].combine_chunks()))
        if places.null_count:
            missing = ids[int(np.argmax(np.asarray(places.is_null())))].item()
            raise ValueError(f"{path} has no row for paper {missing!r} and {places.null_count - 1} others of the graph")
        table = table.select(wanted).take(places)
    elif table.num_rows != graph.n_papers:
        raise ValueError(
            f"{path} has {table.num_rows} rows and no column 'id', but the graph has {graph.n_papers} papers"
        )
    columns = {}
    for name in wanted:
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if name == "venue" and not pa.types.is_integer(column.type):
            column = column.dictionary_encode().indices
        if not (name == "field" and pa.types.is_integer(column.type)):
            column = column.fill_null(fillers[name])
        columns[name] = column.to_numpy(zero_copy_only=False)
    return columns
