"""`data update`: the next snapshot of OpenAlex goes into a dataset that was built from an earlier one.

The next dataset is built in `NEXT`, a folder in the dataset's own. Parts of the snapshot that have not changed are not
read again; everything else is as in a build from nothing, so that the result is the same. Then the files of the next
dataset are moved into the place of the earlier ones. Until then the earlier dataset is whole; while they are moved the
folder is no dataset, as during a build, and an update that is cut off there only moves the rest.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import csv

from .build import BuildOptions, build_dataset
from .dataset_folder import NEXT, UNFINISHED, dataset_folder, finish, mark_unfinished, owned_files
from .errors import BadInput
from .graph.citation_graph import CitationGraph
from .label_changes import label_changes
from .openalex.shards import part_names, shard_paths, snapshot_works, take_over, written_from, written_works
from .openalex.snapshot import parts_of
from .openalex.work_changes import work_changes
from .store import load_card
from .title_changes import scrambled_titles

LISTING = "label_changes.csv"
SHOWN = 5


@dataclass(frozen=True)
class Reading:
    """How a snapshot is read; see `shards.convert`."""

    workers: int | None = None
    skip_bad: bool = False
    ray_address: str | None = None
    progress: bool = True


def updatable_card(out: Path) -> dict[str, Any]:
    """The card of a dataset that can be updated; an update that was cut off in its last step is finished first.

    Raises `FileNotFoundError` if `out` is no dataset, and `BadInput` if it was not built by ``build snapshot``.
    """
    if (out / UNFINISHED).is_file() and not (out / "card.json").is_file() and (out / NEXT / "card.json").is_file():
        with dataset_folder(out):
            _put_in_place(out)
    card = load_card(out, {"content_hash": str, "command": str, "source": dict})
    if card["source"].get("kind") != "snapshot":
        raise BadInput(f"{out} was not built by `build snapshot`; build it again instead")
    return card


def update_dataset(
    out: Path, snapshot: Path, options: BuildOptions, reading: Reading, *, any_titles: bool = False, seed: int = 0
) -> dict[str, Any]:
    """Replace a dataset by what ``build snapshot`` makes of another snapshot; the card, with the changes in ``update``.

    Parameters
    ----------
    out : Path
        Folder of a dataset that was built from a snapshot. It stays as it is until the next dataset is complete.
    snapshot : Path
    options : BuildOptions
        Those that the dataset was built with, for the same rules.
    reading : Reading
    any_titles : bool
        Go on where `scrambled_titles` finds that titles do not belong to their ids.
    seed : int
        With which the works are drawn whose titles are compared.

    Raises
    ------
    BadInput
        If titles do not belong to their ids, unless `any_titles`.
    BadInput, FolderInUse
        See `build_dataset`, `snapshot_works` and `dataset_folder`.
    """
    with dataset_folder(out, [snapshot]):
        card = updatable_card(out)
        before = written_works(out / "works")
        before = before.where(np.isin(before.work_id, np.asarray(CitationGraph.load(out / "graph").node_ids)))
        if before.num_rows != card["works_in_graph"]:
            raise BadInput(f"{out / 'works'} does not hold the works of the dataset; build it again instead")
        new = out / NEXT
        with dataset_folder(new, [snapshot]):
            taken = take_over(
                parts_of(snapshot, skip_bad=reading.skip_bad), out / "works", new / "works", skip_bad=reading.skip_bad
            )
            works, dropped, source = snapshot_works(snapshot, new / "works", **asdict(reading))
            compared, wrong = scrambled_titles(before, works, part_names(new / "works"), seed=seed)
            if wrong and not any_titles:
                more = f"; and {len(wrong) - SHOWN:,} more parts" if len(wrong) > SHOWN else ""
                raise BadInput(
                    f"titles of {snapshot} do not belong to their ids: {'; '.join(wrong[:SHOWN])}{more}; {out} is as "
                    "it was: fetch these parts again, wait for the next snapshot, or pass --any-titles to go on"
                )
            changes = work_changes(before, works)
            facts = {
                "previous": card["content_hash"],
                "parts": {"taken_over": taken, "read": source["parts"] - taken},
                "works": asdict(changes),
                "titles_compared": compared,
            }

            def listed(folder: Path) -> dict[str, Any]:
                table, papers = label_changes(out, folder)
                csv.write_csv(table, folder / LISTING)
                changed = f"{len(table):,} papers have another label ({LISTING})"
                sentence = f"{source['sentence']} Updated from the dataset {card['content_hash'][:12]}: {changed}."
                return {"source": {**source, "sentence": sentence}, "update": {**facts, "papers": papers}}

            build_dataset(works, dropped, new, replace(options, extra=listed))
        _put_in_place(out)
        return load_card(out)


def _put_in_place(out: Path) -> None:
    """Move the complete dataset in `NEXT` into the place of the one in `out`, its card last, or go on with that."""
    new = out / NEXT
    card = load_card(new, {"files": list, "source": dict})
    shards = [path.relative_to(new).as_posix() for path in shard_paths(new / "works", card["source"]["parts"])]
    names = sorted([*card["files"], *shards], key=lambda name: name == "card.json")
    mark_unfinished(out)
    earlier = [path for path in (out / "works").glob("part-*.parquet") if written_from(path) is not None]
    for path in [*owned_files(out), *earlier]:
        if path.relative_to(out).as_posix() not in names:
            path.unlink()
    for name in names:
        if (new / name).is_file():
            (out / name).parent.mkdir(exist_ok=True)
            (new / name).replace(out / name)
    finish(out)
    shutil.rmtree(new)
