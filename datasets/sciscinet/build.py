"""SciSciNet (Lin, Yin, Liu & Wang 2023): its published disruption and atypicality columns, out of core.

Two passes over the file. The first reads the narrow columns and decides which records become papers and where each of
them goes; the second reads the texts of those and sorts them on disk. Only the narrow columns, and the titles of the
papers, are ever in memory whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import MatchSubstringOptions, call_function

from ..atomic_files import scratch_folder
from ..build import BuildOptions, choose_papers, cuts_fact, known, write_dataset
from ..dataset_folder import dataset_folder
from ..errors import BadInput
from ..labels.eligibility import LabelRules, first_failures, number_checks
from ..labels.published import PublishedScores
from ..labels.schemes import disruption_labels
from ..openalex.decode import known_abstracts
from ..openalex.notices import MARKED_TITLE, NOTICE_TITLE
from ..openalex.record import abstract_from_inverted_index, count, normalised_doi, text
from ..paper import FIRST_YEAR, LAST_YEAR, Paper
from ..positions import positions_of
from ..progress import reading_bar

BATCH_ROWS = 1 << 14
BUCKET_ROWS = 20_000
MAX_BUCKETS = 200
Advance = Callable[[int, int], object]
REQUIRED = ("paperid", "year", "disruption", "title")
TEXTS = ("paperid", "doi", "title", "abstract_inverted_index", "citation_count")


@dataclass(frozen=True, eq=False)
class _Columns:
    scores: PublishedScores
    references: np.ndarray
    citations: np.ndarray
    language: np.ndarray
    untitled: np.ndarray
    no_abstract: np.ndarray
    marked: np.ndarray
    notice: np.ndarray


def build_sciscinet(
    file: Path, out: Path, options: BuildOptions, *, fields: Path | None = None, level: int = 0, progress: bool = True
) -> dict[str, Any]:
    """Build a dataset from the published scores of SciSciNet and return its card.

    The published disruption looks at all later citations, so no split can close its label windows: the split is by
    publication year, and `rules.window` only says how old a paper must be.

    Parameters
    ----------
    file : Path
        Parquet with one row a paper: ``paperid``, ``year``, ``disruption``, ``title`` and, where there, ``doi``,
        ``reference_count``, ``citation_count``, ``C5``, ``C10``, ``Atyp_Median_Z``, ``Atyp_10pct_Z``,
        ``abstract_inverted_index``, ``language``.
    out : Path
    options : BuildOptions
    fields : Path, optional
        Parquet link table ``paperid``, ``fieldid``, ``display_name``, ``level``.
    level : int
        Level of the fields to take; of several, the first by name.
    progress : bool
        Whether to draw progress bars.

    Raises
    ------
    BadInput
    """
    options = replace(options, split="publication")
    rules, size = options.rules, file.stat().st_size if file.is_file() else 0
    source = _open(file, REQUIRED)
    with reading_bar(size, progress, "reading scores") as advance:
        columns = _narrow_columns(source, size, rules.window, advance)
    scores = columns.scores
    usable, dropped = _usable(scores)
    closed_by = rules.closed_by(scores.year[usable])
    rows, reasons = _eligible_rows(columns, usable, rules, closed_by)
    field = _fields(fields, level, scores.paper[rows])
    compared = scores.disruption[rows], field, scores.year[rows]
    labels = disruption_labels(compared[0], rules, fields=field, years=compared[2])

    def described(positions: np.ndarray) -> tuple[list[str], list[str], np.ndarray]:
        dois, titles = _dois_and_titles(source, rows[positions])
        return dois, titles, np.full(positions.size, "")

    chosen, split_years = choose_papers(
        scores.paper[rows], scores.year[rows], labels, described, reasons, options, closed_by
    )
    order = np.concatenate(list(chosen.values()))
    facts = {
        "works_read": scores.paper.size,
        "works_in_graph": int(usable.sum()),
        "works_dropped": dict(sorted(dropped.items())),
        "not_labelled": {name: number for name, number in sorted(reasons.items()) if number},
        "labels": {**asdict(rules), "last_complete_year": closed_by, "published": True},
        **cuts_fact(*compared, rules),
        **({"novelty": _novelty_facts(scores)} if options.novelty else {}),
        "split": {"kind": "publication", **asdict(split_years)},
        "source": {
            "kind": "sciscinet",
            "sentence": f"Source: {file.name} of SciSciNet, {scores.paper.size:,} records.",
        },
    }
    with dataset_folder(out), scratch_folder(out / "sorting") as folder:
        with reading_bar(size, progress, "reading texts") as advance:
            buckets = _sorted_texts(source, rows[order], scores.paper.size, folder, size, advance)
        papers = _papers(buckets, columns, rows[order], labels[order], [field[position] for position in order], options)
        # One run through the texts serves all splits: they follow one another in `order`, and are written in turn.
        splits: dict[str, Iterator[Paper]] = {
            name: islice(papers, positions.size) for name, positions in chosen.items()
        }
        return write_dataset(out, splits, facts, options, lambda folder: scores.save(folder, scores.paper[rows], field))


def _novelty_facts(scores: PublishedScores) -> dict[str, Any]:
    scored = int((~np.isnan(scores.z10)).sum())
    sentence = (
        f"Novelty: the published atypicality of the venues cited together, as shares of the papers of the same year; "
        f"{scored:,} records have one."
    )
    return {"sentence": sentence, "scored": scored}


def _open(file: Path, required: tuple[str, ...]) -> pq.ParquetFile:
    if not file.is_file():
        raise BadInput(f"no file {file}; give a parquet file of SciSciNet")
    try:
        source = pq.ParquetFile(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{file} cannot be read as parquet ({error}); fetch it again") from error
    missing = [name for name in required if name not in source.schema_arrow.names]
    if missing:
        raise BadInput(f"{file} has no column {', '.join(missing)}, only {', '.join(source.schema_arrow.names)}")
    return source


def _narrow_columns(source: pq.ParquetFile, size: int, window: int, advance: Advance) -> _Columns:
    citations = next((name for name in (f"C{window}", "citation_count") if name in source.schema_arrow.names), None)
    parts: dict[str, list[np.ndarray]] = {}
    for batch in _batches(source, None, size, advance):
        columns = {
            "paper": _numbers(batch["paperid"]),
            "year": _column(batch, "year", -1).astype(np.int32),
            "disruption": _column(batch, "disruption", np.nan),
            "z10": _column(batch, "Atyp_10pct_Z", np.nan),
            "z_median": _column(batch, "Atyp_Median_Z", np.nan),
            "references": _column(batch, "reference_count", 0).astype(np.int32),
            "citations": _column(batch, citations, 0).astype(np.int32),
            "language": np.array([value or "" for value in _list(batch, "language")], dtype="U2"),
            "untitled": np.array([not text(title) for title in _list(batch, "title")], bool),
            "marked": _matches(batch, "title", MARKED_TITLE),
            "notice": _matches(batch, "title", NOTICE_TITLE),
            "no_abstract": np.array([not abstract for abstract in _abstracts(batch)], bool),
        }
        for name, values in columns.items():
            parts.setdefault(name, []).append(values)
    if not parts:
        raise BadInput("the file has no rows")
    whole = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    names = ("paper", "year", "disruption", "z10", "z_median")
    scores = PublishedScores(*(whole.pop(name) for name in names))
    return _Columns(scores, **whole)


def _usable(scores: PublishedScores) -> tuple[np.ndarray, Counter[str]]:
    """Which records are papers, bool (N,), and how many are not, by reason. The first record of a paper counts."""
    repeated = np.ones(scores.paper.size, bool)
    repeated[np.unique(scores.paper, return_index=True)[1]] = False
    usable, dropped = first_failures(
        [
            ("no_id", scores.paper < 0),
            ("no_year", scores.year < 0),
            ("bad_year", (scores.year < FIRST_YEAR) | (scores.year > LAST_YEAR)),
            ("repeated_id", repeated),
        ],
        scores.paper.size,
    )
    return usable, +dropped


def _eligible_rows(
    columns: _Columns, usable: np.ndarray, rules: LabelRules, closed_by: int
) -> tuple[np.ndarray, Counter[str]]:
    """Rows of the papers that can carry a label, ascending, and how many usable papers cannot, by reason."""
    scores = columns.scores
    eligible, reasons = first_failures(
        [
            ("unusable", ~usable),
            ("no_title", columns.untitled),
            ("no_abstract", columns.no_abstract),
            ("withdrawn", columns.marked),
            ("not_an_article", columns.notice),
            *([("other_language", ~np.isin(columns.language, [rules.language, ""]))] if rules.language else []),
            *number_checks(scores.year, columns.references, columns.citations, scores.disruption, rules, closed_by),
            ("cd_out_of_range", np.abs(scores.disruption) > 1),
        ],
        usable.size,
    )
    del reasons["unusable"]
    return np.flatnonzero(eligible), reasons


def _dois_and_titles(source: pq.ParquetFile, rows: np.ndarray) -> tuple[list[str], list[str]]:
    """DOIs and titles of the records at ascending `rows`."""
    dois, titles, first = [], [], 0
    names = [name for name in ("doi", "title") if name in source.schema_arrow.names]
    for batch in source.iter_batches(BATCH_ROWS, columns=names):
        inside = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))] - first
        first += len(batch)
        chosen = batch.take(pa.array(inside))
        dois += [normalised_doi(value) for value in _list(chosen, "doi")]
        titles += [text(value) for value in chosen["title"].to_pylist()]
    return dois, titles


def _sorted_texts(
    source: pq.ParquetFile, rows: np.ndarray, total: int, folder: Path, size: int, advance: Advance
) -> list[Path]:
    """Texts of the records at `rows`, in files that follow that order, each small enough to be sorted in memory."""
    rank = np.full(total, -1, np.int64)
    rank[rows] = np.arange(rows.size)
    bucket_rows = max(BUCKET_ROWS, -(-rows.size // MAX_BUCKETS))
    buckets = [folder / f"{first}.arrow" for first in range(0, rows.size, bucket_rows)]
    names = [name for name in TEXTS if name in source.schema_arrow.names]
    writers: dict[int, pa.RecordBatchStreamWriter] = {}
    first = 0
    try:
        for batch in _batches(source, names, size, advance):
            ranks = rank[first : first + len(batch)]
            first += len(batch)
            chosen = batch.append_column("rank", pa.array(ranks)).filter(pa.array(ranks >= 0))
            ranks = ranks[ranks >= 0]
            for bucket in np.unique(ranks // bucket_rows).tolist():
                if bucket not in writers:
                    writers[bucket] = pa.ipc.new_stream(buckets[bucket], chosen.schema)
                writers[bucket].write_batch(chosen.filter(pa.array(ranks // bucket_rows == bucket)))
    finally:
        for writer in writers.values():
            writer.close()
    return buckets


def _papers(
    buckets: list[Path],
    columns: _Columns,
    rows: np.ndarray,
    labels: np.ndarray,
    fields: list[str],
    options: BuildOptions,
) -> Iterator[Paper]:
    """Papers in the order of `rows`, with the texts out of `buckets`."""
    scores, rules = columns.scores, options.rules
    novelty, conventionality = scores.novelty() if options.novelty else (np.full(scores.paper.size, np.nan),) * 2
    for path in buckets:
        with pa.ipc.open_stream(path) as stream:
            table = stream.read_all().sort_by("rank")
        for batch in table.to_batches(1024):
            for work, abstract in zip(batch.to_pylist(), _abstracts(batch), strict=True):
                rank = work["rank"]
                row = int(rows[rank])
                yield Paper(
                    openalex_id=f"W{scores.paper[row]}",
                    title=text(work["title"]),
                    abstract=abstract,
                    publication_year=int(scores.year[row]),
                    cited_by_count=count(work.get("citation_count")),
                    cd_index=float(scores.disruption[row]),
                    novelty_score=known(novelty[row]),
                    conventionality_score=known(conventionality[row]),
                    disruption_label=str(labels[rank]),  # pyright: ignore[reportArgumentType]
                    primary_field=fields[rank],
                    label_scheme=rules.scheme,  # pyright: ignore[reportArgumentType]
                    doi=normalised_doi(work.get("doi")),
                    reference_count=int(columns.references[row]),
                    cd_window=None,
                    cd_threshold=rules.threshold,
                )


def _fields(links: Path | None, level: int, papers: np.ndarray) -> list[str]:
    """Field of each paper at a level of the link table; "" where there is none."""
    if links is None:
        return [""] * papers.size
    order = np.argsort(papers)
    names = np.full(papers.size, None, dtype=object)
    has_level = False
    columns = ("paperid", "display_name", "level")
    for batch in _open(links, columns).iter_batches(BATCH_ROWS * 4, columns=list(columns)):
        batch = batch.filter(call_function("equal", [batch["level"], pa.scalar(level, batch["level"].type)]))
        has_level |= len(batch) > 0
        positions = positions_of(_numbers(batch["paperid"]), papers, order)
        linked = np.flatnonzero(positions >= 0)
        field_names = batch["display_name"].take(pa.array(linked)).to_pylist()
        for position, name in zip(positions[linked].tolist(), map(text, field_names), strict=True):
            if name and (names[position] is None or name < names[position]):
                names[position] = name
    if not has_level:
        raise BadInput(f"{links} has no field of level {level}; choose another --field-level")
    return [name or "" for name in names]


def _batches(source: pq.ParquetFile, names: list[str] | None, size: int, advance: Advance) -> Iterator[pa.RecordBatch]:
    total, done = max(1, source.metadata.num_rows), 0
    for batch in source.iter_batches(BATCH_ROWS, columns=names):
        yield batch
        before, done = size * done // total, done + len(batch)
        advance(size * done // total - before, len(batch))


def _numbers(ids: pa.Array) -> np.ndarray:
    """Numbers of papers given as 2100837269, "2100837269" or "W2100837269"; -1 for anything else."""
    if pa.types.is_integer(ids.type):
        return ids.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    digits = (str(value).rsplit("/", 1)[-1].lstrip("Ww") if value is not None else "" for value in ids.to_pylist())
    return np.array([int(d) if d.isascii() and d.isdecimal() and len(d) <= 18 else -1 for d in digits], np.int64)


def _column(batch: pa.RecordBatch, name: str | None, missing: float) -> np.ndarray:
    if name is None or name not in batch.schema.names:
        return np.full(len(batch), missing, float)
    values = batch[name].cast(pa.float64()).to_numpy(zero_copy_only=False).astype(float)
    return np.where(np.isnan(values), missing, values)


def _list(batch: pa.RecordBatch, name: str) -> list[Any]:
    return batch[name].to_pylist() if name in batch.schema.names else [None] * len(batch)


def _matches(batch: pa.RecordBatch, name: str, pattern: str) -> np.ndarray:
    values = pa.array([text(value) for value in _list(batch, name)], pa.string())
    return call_function("match_substring_regex", [values], MatchSubstringOptions(pattern)).to_numpy(
        zero_copy_only=False
    )


def _abstracts(batch: pa.RecordBatch) -> list[str]:
    if "abstract_inverted_index" not in batch.schema.names:
        return [""] * len(batch)
    column = batch["abstract_inverted_index"]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return known_abstracts(
            [b"null" if value is None else value.encode() for value in column.to_pylist()]
        ).to_pylist()
    values = column.to_pylist()
    return [abstract_from_inverted_index(dict(value) if isinstance(value, list) else value) for value in values]
