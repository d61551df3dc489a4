"""`data update`: the next snapshot of OpenAlex goes into a dataset that was built from an earlier one.

The next dataset is built in `NEXT`, a folder in the dataset's own. Parts of the snapshot that have not changed are not
read again; everything else is as in a build from nothing, so that the result is the same. Then the files of the next
dataset are moved into the place of the earlier ones. Until then the earlier dataset is whole; while they are moved the
folder is no dataset, as during a build, and an update that is cut off there only moves the rest.
"""

import shutil
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from pyarrow.compute import call_function

from .build import BuildOptions, build_dataset
from .dataset_folder import NEXT, UNFINISHED, dataset_folder, finish, mark_unfinished, owned_files
from .errors import BadInput
from .graph.citation_graph import CitationGraph
from .openalex.shards import part_names, shard_paths, snapshot_works, take_over, written_from, written_works
from .openalex.snapshot import parts_of
from .openalex.work_changes import work_changes
from .splits import SPLITS
from .store import load_card, split_file
from .title_changes import scrambled_titles

LISTING = "label_changes.csv"
LABELS = ("disruption_label", "novelty_label")
MEASURES = ("cd_index", "n_i", "n_j", "n_k", "novelty_score", "conventionality_score")
SHOWN = 5


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
    out: Path,
    snapshot: Path,
    options: BuildOptions,
    *,
    any_titles: bool = False,
    skip_bad: bool = False,
    **reading: Any,
) -> dict[str, Any]:
    """Replace a dataset by what ``build snapshot`` makes of another snapshot; the card, with the changes in ``update``.

    `options` are those that the dataset in `out` was built with; it stays as it is until the next one is complete.
    `skip_bad` and `reading` are options of `shards.convert`. Raises `BadInput` if `scrambled_titles` finds that titles
    do not belong to their ids, unless `any_titles`, and what `build_dataset`, `snapshot_works` and `dataset_folder`
    raise.
    """
    with dataset_folder(out, [snapshot]):
        card = updatable_card(out)
        before = written_works(out / "works")
        before = before.where(np.isin(before.work_id, np.asarray(CitationGraph.load(out / "graph").node_ids)))
        if before.num_rows != card["works_in_graph"]:
            raise BadInput(f"{out / 'works'} does not hold the works of the dataset; build it again instead")
        new = out / NEXT
        with dataset_folder(new, [snapshot]):
            parts = parts_of(snapshot, skip_bad=skip_bad)
            taken = take_over(parts, out / "works", new / "works", skip_bad=skip_bad)
            works, dropped, source = snapshot_works(snapshot, new / "works", skip_bad=skip_bad, **reading)
            compared, wrong = scrambled_titles(before, works, part_names(new / "works"))
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


def label_changes(before: Path, after: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Compare the papers of the datasets in two folders by id.

    Returns
    -------
    table : pyarrow.Table
        A row for each paper of `before` of which a label differs, by id: ``paper`` and, each with ``_before`` and
        ``_after`` behind its name, ``split``, `LABELS` and `MEASURES`. Null stands for what a paper does not have; a
        paper that is not in `after` has no split, label or measure there.
    facts : dict
        ``entered``, ``left`` and ``moved``: papers that only `after` has, that only `before` has, and that are in
        another split; ``labels``: label -> change, such as "neutral to disruptive" -> papers, "none" for no label.
    """
    old, new = _papers(before), _papers(after)
    both = old.join(new, "paper", join_type="left outer", left_suffix="_before", right_suffix="_after").sort_by("paper")
    pairs = {name: [both[f"{name}_{when}"].fill_null("none") for when in ("before", "after")] for name in LABELS}
    differs = {name: call_function("not_equal", pair) for name, pair in pairs.items()}
    split_after = both["split_after"]
    common = len(both) - split_after.null_count
    facts = {
        "entered": len(new) - common,
        "left": len(both) - common,
        "moved": call_function("sum", [call_function("not_equal", [both["split_before"], split_after])]).as_py() or 0,
        "labels": {
            name: _counted(*(labels.filter(differs[name]).to_pylist() for labels in pairs[name])) for name in LABELS
        },
    }
    columns = [f"{name}_{when}" for name in ("split", *LABELS, *MEASURES) for when in ("before", "after")]
    return both.filter(call_function("or", list(differs.values()))).select(["paper", *columns]), facts


def _papers(folder: Path) -> pa.Table:
    columns = ["openalex_id", *LABELS, *MEASURES]
    tables = []
    for split in SPLITS:
        table = pq.read_table(split_file(folder, split), columns=columns).rename_columns(["paper", *columns[1:]])
        tables.append(table.append_column("split", pa.array([split] * len(table), pa.string())))
    return pa.concat_tables(tables)


def _counted(before: list[str], after: list[str]) -> dict[str, int]:
    changes = Counter(f"{old} to {new}" for old, new in zip(before, after, strict=True))
    return dict(changes.most_common())
