"""The folder of a dataset: which files in it belong to the dataset, and how a new dataset replaces an earlier one.

A build deletes and overwrites only what an earlier build has written: the files that `card.json` lists or, where the
file `UNFINISHED` shows that a build was cut off, every file with a name that a dataset uses. If another file has a name
that the dataset needs, the build names it and stops.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from .atomic_files import claimed, is_unfinished, remove_unfinished, write_text_atomically
from .errors import BadInput

PLACES = ("README.md", "card.json", "published.parquet", "label_changes.csv", "data", "graph", "source")
"""Names in a dataset's folder that belong to the dataset. (Files in ``works`` and ``pages`` carry their own marks.)"""
NAMES = (
    *PLACES[:4], "data/*-00000-of-00001.parquet", "graph/graph.json", "graph/graph.lock", "graph/*.npy",
    "graph/papers.parquet", "source/works/manifest", "source/works/updated_date=*/part_0000.gz",
)  # fmt: skip
UNFINISHED, LOCK = ".scisci-gym-unfinished", ".scisci-gym-lock"
NEXT = ".scisci-gym-update"
"""Folder in a dataset's folder in which `data update` builds the dataset that is to replace it."""


@contextmanager
def dataset_folder(out: Path, inputs: Iterable[Path] = ()) -> Iterator[None]:
    """Hold the folder `out`, which is made if it is not there, for one build while the block runs.

    Raises
    ------
    BadInput
        If `out` is a file, one of the `inputs` that the build reads is in `out` or `out` in it (through links too), or
        a file that no build wrote stands where the dataset would. Nothing has been written then.
    FolderInUse
        If another build holds the folder.
    """
    refuse_overlap(out, inputs)
    owned_files(out)
    with claimed(out / LOCK, f"another build is writing to {out}; wait for its end, or choose another --out"):
        yield


def refuse_overlap(out: Path, inputs: Iterable[Path]) -> None:
    """Raise `BadInput` if a folder to write to and a file or folder to read are one, or one is in the other."""
    target = out.resolve()
    for above in (target, *target.parents):
        if above.exists() and not above.is_dir():
            raise BadInput(f"--out {out}: {above} is a file; choose a folder")
    for given in inputs:
        source = given.resolve()
        if source.is_relative_to(target) or target.is_relative_to(source):
            how = "is the same as" if source == target else "holds" if source.is_relative_to(target) else "lies in"
            raise BadInput(f"--out {out} {how} the input {given}, which could be overwritten; choose another --out")


def refuse_foreign(out: Path, mark: str, besides: Iterable[str] = ()) -> None:
    """Raise `BadInput` if a folder is not empty and lacks the file `mark`, which a command leaves in its own folders.

    Names in `besides` may be there before the mark is.
    """
    if (out / mark).is_file() or not out.is_dir():
        return
    for path in sorted(out.iterdir()):
        if path.name not in besides:
            raise BadInput(
                f"{out} holds {path.name} and no {mark}, so it was not made by this command; choose another folder"
            )


def set_aside(out: Path) -> Path:
    """Give a folder another name beside it, ``OUT.1`` or the next that is free, and return that."""
    out, number = out.resolve(), 1
    while (other := out.with_name(f"{out.name}.{number}")).exists():
        number += 1
    return out.rename(other)


def owned_files(out: Path) -> list[Path]:
    """Files of an earlier dataset, or of the start of one, in the places that a dataset takes.

    Raises `BadInput` if another file stands there.
    """
    files = [path for path in _files(out) if not is_unfinished(path)]
    cut_off, listed = (out / UNFINISHED).is_file(), _listed(out)
    for path in files:
        name = path.relative_to(out).as_posix()
        if name not in listed and not (cut_off and any(fnmatch(name, pattern) for pattern in NAMES)):
            raise BadInput(
                f"{path} was not written by a build, or by one of an earlier version, and a dataset would take its "
                "place; move it away, or choose another --out"
            )
    return files


def start_over(out: Path, keep: tuple[str, ...] = ()) -> None:
    """Remove an earlier dataset from a folder that `dataset_folder` holds, its card first.

    From here to `finish` the folder is no dataset, and `UNFINISHED` tells the next build that what it finds is ours.
    """
    owned = owned_files(out)
    # First of all: no later update may finish what was meant for the dataset that goes now.
    shutil.rmtree(out / NEXT, ignore_errors=True)
    mark_unfinished(out)
    for path in owned:
        if path.relative_to(out).parts[0] not in keep:
            path.unlink(missing_ok=True)
    remove_unfinished(out)
    for place in [out / name for name in PLACES if name not in keep]:
        if place.is_dir() and not place.is_symlink():
            # The deepest folders first, so that each is empty when it is removed.
            for folder in [*sorted((path for path in place.rglob("*") if path.is_dir()), reverse=True), place]:
                remove_unfinished(folder)
                with suppress(OSError):
                    folder.rmdir()


def mark_unfinished(out: Path) -> None:
    """Say that a folder is no dataset until `finish`, and remove the card of the one that was there."""
    write_text_atomically(out / UNFINISHED, "A build is at work here, or was cut off: this is not a dataset.\n")
    (out / "card.json").unlink(missing_ok=True)


def dataset_files(out: Path) -> list[str]:
    """Files of the dataset in `out`, which its card lists, the card included: paths below `out`, sorted."""
    files = {path.relative_to(out).as_posix() for path in _files(out) if not is_unfinished(path)}
    return sorted(files | {"README.md", "card.json"})


def finish(out: Path) -> None:
    """Remove `UNFINISHED`: the dataset, whose card was written last, is complete."""
    (out / UNFINISHED).unlink(missing_ok=True)


def _files(out: Path) -> list[Path]:
    paths = [out / name for name in PLACES]
    below = [path for place in paths if place.is_dir() and not place.is_symlink() for path in place.rglob("*")]
    return [path for path in [*paths, *below] if path.is_symlink() or path.is_file()]


def _listed(out: Path) -> set[str]:
    try:
        return {name for name in json.loads((out / "card.json").read_bytes())["files"] if isinstance(name, str)}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
