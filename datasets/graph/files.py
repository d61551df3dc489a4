"""Where a saved citation graph lies: the files of its arrays, and what its ``graph.json`` says about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic_files import claimed, remove_unfinished, write_json_atomically
from ..errors import BadInput, read_json

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
    return read_json(header, "delete it").get("generation", 0) if header.is_file() else None


def read_header(path: Path) -> dict[str, Any]:
    """What a ``graph.json`` says, its report as a `GraphReport`.

    Raises `BadInput` if it is damaged, and `ValueError` if it is of another format.
    """
    remedy = "build the graph again"
    if (found := read_json(path, remedy, {"format": int})["format"]) != FORMAT:
        raise ValueError(f"{path} has format {found}, this version reads {FORMAT}; {remedy}")
    header = read_json(path, remedy, {"n_papers": int, "report": dict})
    try:
        return {**header, "report": GraphReport(**header["report"])}
    except TypeError as error:
        raise BadInput(f"{path} is damaged: {error}; {remedy}") from error


def read_array(path: Path, mmap: bool) -> np.ndarray:
    """An array of a saved graph, mapped or read; raises `FileNotFoundError` where it is not there."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; the graph was not written to its end, build it again")
    return np.load(path, mmap_mode="r" if mmap and path.stat().st_size >= 200 else None)
