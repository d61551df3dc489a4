"""Which papers of a dataset have another label, or none, in a later build of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import call_function

from .splits import SPLITS
from .store import split_file

LABELS = ("disruption_label", "novelty_label")
MEASURES = ("cd_index", "n_i", "n_j", "n_k", "novelty_score", "conventionality_score")


def label_changes(before: Path, after: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Compare the papers of two datasets by id.

    Parameters
    ----------
    before, after : Path
        Folders of datasets.

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
            name: dict(Counter(_change(*values) for values in _rows(pairs[name], differs[name])).most_common())
            for name in LABELS
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


def _rows(pair: list[pa.ChunkedArray], chosen: pa.ChunkedArray) -> zip[tuple[str, str]]:
    return zip(*(column.filter(chosen).to_pylist() for column in pair), strict=True)


def _change(before: str, after: str) -> str:
    return f"{before} to {after}"
