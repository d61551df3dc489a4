"""`CitationGraph`: who cites whom and when, as compressed sparse rows both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..atomic_files import claimed, remove_unfinished, write_json_atomically
from ..errors import read_json
from ..positions import positions_of
from .checks import checked_positions, checked_years
from .csr import check_rows, reference_rows, transposed_rows

if TYPE_CHECKING:
    import networkx as nx

FORMAT = 1
ARRAYS = ("years", "ref_indptr", "ref_indices", "cit_indptr", "cit_indices")


@dataclass(frozen=True)
class GraphReport:
    """What became of the edges that a graph was made from.

    Parameters
    ----------
    edges, kept : int
        Edges given, and citations in the graph.
    unknown, self_citations, duplicates : int
        Edges that were dropped: with an end that is not in the graph (position -1), from a paper to itself, repeated.
    from_the_past : int
        Kept citations of a paper of a later year; no measure counts them as later citers.
    left_out : int
        Citations of a paper of a later year that were not given to the graph; see `works_table.citation_graph`.
    """

    edges: int = 0
    kept: int = 0
    unknown: int = 0
    self_citations: int = 0
    duplicates: int = 0
    from_the_past: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        return (
            f"{self.edges:,} edges: {self.kept:,} kept ({self.from_the_past:,} of them cite a later year); "
            f"dropped {self.duplicates:,} duplicates, {self.self_citations:,} self-citations, "
            f"{self.unknown:,} with an unknown end"
        )


@dataclass(frozen=True, eq=False)
class CitationGraph:
    """Papers, their years and the citations among them. Immutable; make one with `from_edges`, `from_ids` or `load`.

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
    report: GraphReport = GraphReport()

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
            A name twice in `node_ids`, or what `from_edges` raises.

        Examples
        --------
        >>> CitationGraph.from_ids(["W2", "W9"], ["W1", "W1"], [1990, 1991], ["W1", "W2"]).report.unknown
        1
        """
        names = np.asarray(node_ids)
        order = np.argsort(names, kind="stable")
        ascending = names[order]
        repeated = ascending[1:][ascending[1:] == ascending[:-1]]
        if repeated.size:
            raise ValueError(f"node_ids holds {repeated[0].item()!r} more than once; every paper needs its own id")
        citing, cited = (positions_of(np.asarray(ends), names, order) for ends in (citing, cited))
        return cls.from_edges(citing, cited, years, names, threads=threads)

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
                f"no citation graph in {directory}: {path} is missing; write one with `CitationGraph.save`"
            )
        header = read_json(path, "build the graph again")
        if (found := header["format"]) != FORMAT:
            raise ValueError(f"{path} has format {found}, this version reads {FORMAT}; build the graph again")
        files = GraphFiles(directory, header.get("generation", 0))
        names = ARRAYS if not files.path("node_ids").exists() else (*ARRAYS, "node_ids")
        try:
            arrays = {name: _read(files.path(name), mmap) for name in names}
        except FileNotFoundError:
            if json.loads(path.read_text()) == header:
                raise
            return cls.load(directory, mmap)  # another graph has replaced this one in the meantime
        graph = cls(**arrays, report=GraphReport(**header["report"]))
        if graph.n_papers != header["n_papers"] or graph.n_citations != graph.report.kept:
            raise ValueError(
                f"{directory} holds {graph.n_papers} papers and {graph.n_citations} citations but its graph.json says "
                f"{header['n_papers']} and {graph.report.kept}; the graph was not written to its end, build it again"
            )
        return graph

    def __repr__(self) -> str:
        span = f"{self.years.min()}-{self.years.max()}" if self.n_papers else "no years"
        return f"CitationGraph({self.n_papers:,} papers, {self.n_citations:,} citations, {span})"


@dataclass(frozen=True)
class GraphFiles:
    """Where the arrays of a saved graph lie: ``years.npy``, ..., or ``years.1.npy``, ... when they replaced others.

    ``graph.json`` names the generation that counts.
    """

    directory: Path
    generation: int

    def path(self, name: str) -> Path:
        """The file of an array of `ARRAYS` or of ``node_ids``."""
        return self.directory / (f"{name}.{self.generation}.npy" if self.generation else f"{name}.npy")

    @classmethod
    @contextmanager
    def beside(cls, directory: str | Path) -> Iterator[GraphFiles]:
        """Files for a new graph; nothing of them is left unless the block calls `finish`."""
        directory = Path(directory)
        refusal = f"another process is writing a graph to {directory}; wait for it, or choose another folder"
        with claimed(directory / "graph.lock", refusal):
            remove_unfinished(directory)
            free = (cls(directory, n) for n in count() if n != _generation(directory))
            files = next(files for files in free if not files._existing())
            try:
                yield files
            finally:
                if files.generation != _generation(directory):
                    files._remove()

    def finish(self, n_papers: int, report: GraphReport) -> None:
        """Make this the graph of the folder, in one step, and remove what it replaces."""
        header = {"format": FORMAT, "generation": self.generation, "n_papers": n_papers, "report": asdict(report)}
        write_json_atomically(self.directory / "graph.json", header)
        for path in self.directory.glob("years.*npy"):
            number = path.name.removeprefix("years.").removesuffix("npy").rstrip(".") or "0"
            if number.isdecimal() and int(number) != self.generation:
                GraphFiles(self.directory, int(number))._remove()

    def _existing(self) -> list[Path]:
        return [path for name in (*ARRAYS, "node_ids") if (path := self.path(name)).exists()]

    def _remove(self) -> None:
        for path in reversed(self._existing()):  # the years last: by them `finish` finds what a killed run left
            path.unlink()


def _generation(directory: Path) -> int | None:
    header = directory / "graph.json"
    return json.loads(header.read_text()).get("generation", 0) if header.is_file() else None


def _read(path: Path, mmap: bool) -> np.ndarray:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; the graph was not written to its end, build it again")
    return np.load(path, mmap_mode="r" if mmap and path.stat().st_size >= 200 else None)
