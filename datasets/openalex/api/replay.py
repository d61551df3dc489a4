"""`data verify` for a dataset from the API: the collection is made again from the stored pages, without a request."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import BadInput
from ...graph.citation_graph import CitationGraph
from ..works_table import citation_graph
from .client import StoredPages
from .neighbourhood import collect
from .response_cache import PageStore
from .wanted import Wanted

AGAIN = "run the same build command again to fetch what is missing"


def collection_differences(folder: Path, source: dict[str, Any], graph: CitationGraph, papers: list[dict]) -> list[str]:
    """Sentences about where a dataset's collection differs from what the stored pages give; empty if it does not.

    `folder` is the dataset, with its pages in ``pages`` below it, and `source` that of its card. The neighbourhood of
    each of the labelled `papers` must be whole, its title and abstract those of its page. The works and citations of
    the stored `graph` are compared too.
    """
    if not (folder / "pages").is_dir():
        return [f"{folder / 'pages'} is missing; {AGAIN}"]
    wanted = {field.name: source["wanted"][field.name] for field in fields(Wanted)}
    wanted["seeds"] = tuple(wanted["seeds"])
    try:
        collected = collect(Wanted(**wanted), StoredPages(PageStore(folder / "pages")))
    except BadInput as error:
        return [f"{error}; {AGAIN}"]
    wrong = [
        f"the stored pages give {step} {name} {value}, the card says {source[step].get(name)}"
        for step, facts in collected.facts.items()
        for name, value in facts.items()
        if value != source[step].get(name)
    ]
    whole = collected.focal - collected.cut_short
    for paper in papers:
        number = int(paper["openalex_id"][1:])
        if number not in whole:
            wrong.append(f"the neighbourhood of W{number} is not whole in the stored pages")
        elif any(collected.rows[number][name] != paper[name] for name in ("title", "abstract", "publication_year")):
            wrong.append(f"the stored pages give W{number} another title, abstract or year than the dataset")
    again = citation_graph(collected.works())
    same_works = np.array_equal(np.asarray(again.node_ids), np.asarray(graph.node_ids))
    if not same_works or not np.array_equal(again.edges(), graph.edges()):
        wrong.append(
            f"the stored pages give {again.n_papers:,} works and {again.n_citations:,} citations that are not the "
            f"{graph.n_papers:,} works and {graph.n_citations:,} citations of the graph"
        )
    return wrong
