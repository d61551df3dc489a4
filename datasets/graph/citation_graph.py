"""`CitationGraph`: who cites whom and when, as compressed sparse rows both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..positions import positions_of
from .checks import checked_ids, checked_positions, checked_years, require_columns
from .csr import check_rows, reference_rows, transposed_rows
from .files import ARRAYS, GraphFiles, GraphReport, read_array, read_header

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd


@dataclass(frozen=True, eq=False)
class CitationGraph:
    """Papers, their years and the citations among them. Immutable.

    Make one with `from_ids`, `from_pandas`, `from_networkx` or, from positions, `from_edges`; read one with `load`.

    A paper is its position, 0 to ``n_papers - 1``. References of paper ``p`` are
    ``ref_indices[ref_indptr[p]:ref_indptr[p + 1]]``, the papers that cite it are
    ``cit_indices[cit_indptr[p]:cit_indptr[p + 1]]``.

    Parameters
    ----------
    years : int16 array (N,)
    ref_indptr, cit_indptr : int64 arrays (N + 1,)
    ref_indices : int32 array (E,)
        Cited papers, by position within each row, none twice.
    cit_indices : int32 array (E,)
        Citing papers, by year and then position within each row, none twice.
    node_ids : array (N,) or None
        The caller's names of the papers.
    report : GraphReport

    Raises
    ------
    ValueError
        Rows that are not as described.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([1, 2, 2, 2, 2], [0, 0, 1, 1, 2], years=[1990, 1992, 1995])
    >>> graph
    CitationGraph(3 papers, 3 citations, 1990-1995)
    >>> graph.citers(0).tolist(), graph.references(2).tolist()
    ([1, 2], [0, 1])
    >>> print(graph.report)
    5 edges: 3 kept (0 of them cite a later year); dropped 1 duplicates, 1 self-citations, 0 with an unknown end
    """

    years: np.ndarray
    ref_indptr: np.ndarray
    ref_indices: np.ndarray
    cit_indptr: np.ndarray
    cit_indices: np.ndarray
    node_ids: np.ndarray | None = None
    report: GraphReport = field(default_factory=GraphReport)

    def __post_init__(self) -> None:
        for name in ARRAYS:
            array = np.asarray(getattr(self, name)).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        # Kernels index by these arrays without a look at the bounds, and a file that was read may hold anything.
        check_rows("ref", self.ref_indptr, self.ref_indices, self.years, by_year=False)
        check_rows("cit", self.cit_indptr, self.cit_indices, self.years, by_year=True)

    @classmethod
    def from_edges(
        cls,
        citing: npt.ArrayLike,
        cited: npt.ArrayLike,
        years: npt.ArrayLike,
        node_ids: Sequence[Any] | np.ndarray | None = None,
        *,
        threads: int | None = None,
    ) -> CitationGraph:
        """Build a graph from an edge list, in time linear in its length.

        Parameters
        ----------
        citing, cited : int array-like (E,)
            Positions of papers; -1 where a paper is unknown.
        years : int array-like (N,)
        node_ids : sequence (N,), optional
            Names of the papers, kept beside the graph.
        threads : int, optional
            Default: every core. The result does not depend on it.

        Raises
        ------
        ValueError
            A year missing, arrays of different lengths, positions that are not integers or not below N.
        """
        years = checked_years(years)
        names = None if node_ids is None else np.asarray(node_ids)
        if names is not None and names.shape != years.shape:
            raise ValueError(f"node_ids has shape {names.shape} but there are {years.size} years; give one per paper")
        citing, cited = checked_positions("citing", citing, years.size), checked_positions("cited", cited, years.size)
        if citing.size != cited.size:
            raise ValueError(f"citing has {citing.size} entries but cited has {cited.size}; both need one per edge")
        ref_indptr, ref_indices, dropped = reference_rows(citing, cited, years.size, threads)
        cit_indptr, cit_indices, from_the_past = transposed_rows(ref_indptr, ref_indices, years, threads)
        report = GraphReport(citing.size, ref_indices.size, *dropped, from_the_past)
        return cls(years, ref_indptr, ref_indices, cit_indptr, cit_indices, names, report)

    @classmethod
    def from_ids(
        cls,
        citing: Sequence[Any] | np.ndarray,
        cited: Sequence[Any] | np.ndarray,
        years: npt.ArrayLike,
        node_ids: Sequence[Any] | np.ndarray,
        *,
        threads: int | None = None,
    ) -> CitationGraph:
        """Build a graph from edges between named papers; edges with a name not in `node_ids` are dropped and counted.

        Parameters
        ----------
        citing, cited : sequence (E,)
            Names, of the same type as `node_ids` (all strings or all integers).
        years, node_ids : sequence (N,)
        threads : int, optional

        Raises
        ------
        ValueError
            A name twice in `node_ids`, a name missing, names of two types, or what `from_edges` raises.

        Examples
        --------
        >>> CitationGraph.from_ids(["W2", "W9"], ["W1", "W1"], [1990, 1991], ["W1", "W2"]).report.unknown
        1
        """
        names = checked_ids("node_ids", node_ids)
        order = np.argsort(names, kind="stable")
        ascending = names[order]
        repeated = ascending[1:][ascending[1:] == ascending[:-1]]
        if repeated.size:
            raise ValueError(f"node_ids holds {repeated[0].item()!r} more than once; every paper needs its own id")
        citing = positions_of(checked_ids("citing", citing, names), names, order)
        cited = positions_of(checked_ids("cited", cited, names), names, order)
        return cls.from_edges(citing, cited, years, names, threads=threads)

    @classmethod
    def from_pandas(
        cls,
        papers: pd.DataFrame,
        citations: pd.DataFrame,
        *,
        columns: tuple[str, str, str, str] = ("id", "year", "citing", "cited"),
        threads: int | None = None,
    ) -> CitationGraph:
        """Build a graph from a table of papers and a table of citations, whose ids are integers or strings.

        Citations with an end that is no paper of `papers` are dropped and counted, as in `from_ids`.

        Parameters
        ----------
        papers : DataFrame (N rows)
        citations : DataFrame (E rows)
        columns : (str, str, str, str)
            Names of the columns: id and year of `papers`, citing and cited of `citations`.
        threads : int, optional

        Raises
        ------
        ValueError
            A column, an id or a year missing, an id twice, ids of two types. Positions of rows count from 0.

        Examples
        --------
        >>> import pandas as pd
        >>> papers = pd.DataFrame({"id": ["a", "b", "c"], "year": [1990, 1992, 1995]})
        >>> citations = pd.DataFrame({"citing": ["b", "c", "c"], "cited": ["a", "a", "x"]})
        >>> graph = CitationGraph.from_pandas(papers, citations)
        >>> print(graph, graph.report.unknown)
        CitationGraph(3 papers, 2 citations, 1990-1995) 1
        """
        node_id, year, citing, cited = columns
        require_columns("papers", papers.columns, (node_id, year))
        require_columns("citations", citations.columns, (citing, cited))
        ends = citations[citing].to_numpy(), citations[cited].to_numpy()
        return cls.from_ids(ends[0], ends[1], papers[year].to_numpy(), papers[node_id].to_numpy(), threads=threads)

    @classmethod
    def from_networkx(cls, digraph: nx.DiGraph, year: str = "year", *, threads: int | None = None) -> CitationGraph:
        """Build a graph from a `networkx.DiGraph` with an edge from citing to cited paper; inverse of `to_networkx`.

        Parameters
        ----------
        digraph : networkx.DiGraph
            Nodes are all integers or all strings; they become the `node_ids`, in the order of ``digraph.nodes``.
        year : str
            Name of the attribute of every node that holds its year.
        threads : int, optional

        Raises
        ------
        ValueError
            An undirected graph, a node without a year, nodes of another type.

        Examples
        --------
        >>> import networkx as nx
        >>> digraph = nx.DiGraph([("b", "a")])
        >>> nx.set_node_attributes(digraph, {"a": 1990, "b": 1992}, "year")
        >>> CitationGraph.from_networkx(digraph)
        CitationGraph(2 papers, 1 citations, 1990-1992)
        """
        if not digraph.is_directed():
            raise ValueError("the graph is undirected, so it does not say who cites whom; give a networkx.DiGraph")
        years = dict(digraph.nodes(data=year))
        missing = [node for node, value in years.items() if value is None]
        if missing:
            raise ValueError(
                f"node {missing[0]!r} and {len(missing) - 1} others have no attribute {year!r}; set it with "
                "networkx.set_node_attributes, or leave those nodes out"
            )
        names = checked_ids("nodes", np.fromiter(years, object, len(years)))
        position = {node: place for place, node in enumerate(years)}
        citing, cited = ([position[edge[end]] for edge in digraph.edges()] for end in (0, 1))
        return cls.from_edges(citing, cited, list(years.values()), names, threads=threads)

    @property
    def n_papers(self) -> int:
        """Number of papers, N."""
        return self.years.size

    @property
    def n_citations(self) -> int:
        """Number of citations kept, E."""
        return self.ref_indices.size

    @property
    def reference_counts(self) -> np.ndarray:
        """References of each paper that are in the graph, int64 (N,)."""
        return np.diff(self.ref_indptr)

    @property
    def citation_counts(self) -> np.ndarray:
        """Papers in the graph that cite each paper, of whatever year, int64 (N,)."""
        return np.diff(self.cit_indptr)

    def references(self, paper: int) -> np.ndarray:
        """Positions of the papers that `paper` cites."""
        return self.ref_indices[self.ref_indptr[paper] : self.ref_indptr[paper + 1]]

    def citers(self, paper: int) -> np.ndarray:
        """Positions of the papers that cite `paper`, by year."""
        return self.cit_indices[self.cit_indptr[paper] : self.cit_indptr[paper + 1]]

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """``(citing, cited)``, int32 arrays (E,), by citing and then cited paper."""
        citing = np.repeat(np.arange(self.n_papers, dtype=np.int32), self.reference_counts)
        return citing, np.array(self.ref_indices)

    def to_networkx(self) -> nx.DiGraph:
        """A `networkx.DiGraph` with an edge from citing to cited and node attribute ``year``; for small graphs.

        Nodes are positions, or `node_ids` where the graph has them.

        Examples
        --------
        >>> graph = CitationGraph.from_edges([1], [0], [1990, 1992], node_ids=["a", "b"])
        >>> list(graph.to_networkx().edges)
        [('b', 'a')]
        """
        import networkx as nx

        names = np.arange(self.n_papers) if self.node_ids is None else self.node_ids
        digraph = nx.DiGraph()
        for name, year in zip(names.tolist(), self.years.tolist(), strict=True):
            digraph.add_node(name, year=year)
        digraph.add_edges_from(zip(*(names[ends].tolist() for ends in self.edges()), strict=True))
        return digraph

    def save(self, directory: str | Path) -> None:
        """Write the graph to a folder, one ``.npy`` file per array and ``graph.json``.

        A graph that is there stays whole until the new one is, and stays so for the processes that have mapped it.
        Raises `FolderInUse` while another process is writing a graph there.
        """
        with GraphFiles.beside(directory) as files:
            for name in ARRAYS if self.node_ids is None else (*ARRAYS, "node_ids"):
                np.save(files.path(name), getattr(self, name))
            files.finish(self.n_papers, self.report)

    @classmethod
    def load(cls, directory: str | Path, mmap: bool = True) -> CitationGraph:
        """Read a graph that `save` wrote.

        With `mmap` the files are mapped instead of read: processes on a machine share one copy, and a graph may be
        larger than memory. Raises `FileNotFoundError` where there is no graph, and `ValueError` for one of another
        format or one whose files do not fit together.
        """
        directory = Path(directory)
        path = directory / "graph.json"
        if not path.is_file():
            raise FileNotFoundError(
                f"no citation graph in {directory}: {path} is missing; `scisci-gym build` writes one to "
                "DATASET/graph, `CitationGraph.save` anywhere"
            )
        header = read_header(path)
        files = GraphFiles(directory, header.get("generation", 0))
        names = ARRAYS if not files.path("node_ids").exists() else (*ARRAYS, "node_ids")
        try:
            arrays = {name: read_array(files.path(name), mmap) for name in names}
        except FileNotFoundError:
            if read_header(path) == header:
                raise
            return cls.load(directory, mmap)  # another graph has replaced this one in the meantime
        graph = cls(**arrays, report=header["report"])
        if graph.n_papers != header["n_papers"] or graph.n_citations != graph.report.kept:
            raise ValueError(
                f"{directory} holds {graph.n_papers} papers and {graph.n_citations} citations but its graph.json says "
                f"{header['n_papers']} and {graph.report.kept}; the graph was not written to its end, build it again"
            )
        return graph

    def __repr__(self) -> str:
        span = f"{self.years.min()}-{self.years.max()}" if self.n_papers else "no years"
        return f"CitationGraph({self.n_papers:,} papers, {self.n_citations:,} citations, {span})"
