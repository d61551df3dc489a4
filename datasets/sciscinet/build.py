"""SciSciNet (Lin, Yin, Liu & Wang 2023): its published disruption and atypicality columns, out of core.

Two passes over the file. The first reads the narrow columns and decides which records become papers and where each of
them goes; the second reads the texts of those and sorts them on disk. Only the narrow columns, and the titles of the
papers, are ever in memory whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import MatchSubstringOptions, call_function

from ..atomic_files import scratch_folder
from ..build import BuildOptions, cuts_fact, known, members, split_years_for, write_dataset
from ..dataset_folder import dataset_folder
from ..errors import BadInput
from ..labels.eligibility import first_failures, number_checks
from ..labels.published import PublishedScores
from ..labels.schemes import disruption_labels
from ..near_duplicates import later_copies
from ..openalex.decode import known_abstracts
from ..openalex.notices import MARKED_TITLE, NOTICE_TITLE
from ..openalex.record import abstract_from_inverted_index, count, normalised_doi, text
from ..paper import FIRST_YEAR, LAST_YEAR, Paper
from ..progress import reading_bar

BATCH_ROWS = 1 << 14
BUCKET_ROWS = 20_000
MAX_BUCKETS = 200
REQUIRED = ("paperid", "year", "disruption", "title")
TEXTS = ("paperid", "doi", "title", "abstract_inverted_index", "citation_count")


@dataclass(frozen=True, eq=False)
class _Narrow:
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
    rules = options.rules
    source = _open(file, REQUIRED)
    with reading_bar(file.stat().st_size, progress, "reading scores") as advance:
        narrow = _narrow(source, file.stat().st_size, rules.window, advance)
    scores = narrow.scores
    dropped, usable = _usable(scores)
    closed_by = rules.closed_by(scores.year[usable])
    eligible, reasons = first_failures(
        [
            ("unusable", ~usable),
            ("no_title", narrow.untitled),
            ("no_abstract", narrow.no_abstract),
            ("withdrawn", narrow.marked),
            ("not_an_article", narrow.notice),
            *([("other_language", ~np.isin(narrow.language, [rules.language, ""]))] if rules.language else []),
            *number_checks(scores.year, narrow.references, narrow.citations, scores.disruption, rules, closed_by),
            ("cd_out_of_range", np.abs(scores.disruption) > 1),
        ],
        usable.size,
    )
    del reasons["unusable"]
    focal = np.flatnonzero(eligible)
    focal = focal[np.lexsort((scores.paper[focal], scores.year[focal]))]
    field = _fields(fields, level, scores.paper[focal])
    compared = (scores.disruption[focal], field, scores.year[focal])
    labels = disruption_labels(compared[0], rules, fields=field, years=compared[2]).astype(object)
    cuts = cuts_fact(*compared, rules)
    given = labels != ""
    reasons["small_field_year"] = int((~given).sum())
    kept_beside = scores.paper[focal], field
    if not given.any():
        counted = ", ".join(f"{name} {number:,}" for name, number in reasons.most_common() if number)
        raise BadInput(f"no paper of {file} is eligible for a label; left out: {counted}; loosen the label options")
    focal, labels, field = focal[given], labels[given], [name for name, kept in zip(field, given, strict=True) if kept]
    copies = later_copies(*_dois_and_titles(source, focal))
    reasons["copy_of_earlier"] = int(copies.sum())
    focal, labels = focal[~copies], labels[~copies]
    field = [name for name, copy in zip(field, copies, strict=True) if not copy]
    split_years = split_years_for(scores.year[focal], options, closed_by)
    chosen, left = members(scores.year[focal], labels, split_years, options)
    reasons.update(left)

    without = np.full(usable.size, np.nan)
    novelty = scores.novelty() if options.novelty else (without, without)
    maker = _Papers(narrow, novelty, options)
    with dataset_folder(out), scratch_folder(out / "sorting") as folder:
        rank = np.full(usable.size, -1, np.int64)
        order = np.concatenate(list(chosen.values()))
        rank[focal[order]] = np.arange(order.size)
        with reading_bar(file.stat().st_size, progress, "reading texts") as advance:
            buckets = _sorted_texts(source, rank, order.size, folder, file.stat().st_size, advance)
        bounds = np.cumsum([0, *(positions.size for positions in chosen.values())]).tolist()
        rows = {
            name: maker.of(buckets, start, stop, focal[order], labels[order], [field[at] for at in order[start:stop]])
            for name, start, stop in zip(chosen, bounds[:-1], bounds[1:], strict=True)
        }
        facts = _facts(file, scores, dropped, reasons, options, closed_by, cuts, split_years)
        return write_dataset(out, rows, facts, options, lambda folder: scores.save(folder, *kept_beside))


def _facts(file, scores, dropped, reasons, options, closed_by, cuts, split_years) -> dict[str, Any]:
    scored = int((~np.isnan(scores.z10)).sum())
    sentence = (
        f"Novelty: the published atypicality of the venues cited together, as shares of the papers of the same year; "
        f"{scored:,} records have one."
    )
    return {
        "works_read": scores.paper.size,
        "works_in_graph": scores.paper.size - sum(dropped.values()),
        "works_dropped": dict(sorted(dropped.items())),
        "not_labelled": {name: number for name, number in sorted(reasons.items()) if number},
        "labels": {**asdict(options.rules), "last_complete_year": closed_by, "published": True},
        **cuts,
        **({"novelty": {"sentence": sentence, "scored": scored}} if options.novelty else {}),
        "split": {"kind": "publication", **asdict(split_years)},
        "source": {
            "kind": "sciscinet",
            "sentence": f"Source: {file.name} of SciSciNet, {scores.paper.size:,} records.",
        },
    }


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


def _narrow(source: pq.ParquetFile, size: int, window: int, advance: Callable[[int, int], object]) -> _Narrow:
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
    return _Narrow(scores, **whole)


def _usable(scores: PublishedScores) -> tuple[Counter[str], np.ndarray]:
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
    return +dropped, usable


def _dois_and_titles(source: pq.ParquetFile, focal: np.ndarray) -> tuple[list[str], list[str]]:
    wanted = np.sort(focal)
    dois, titles, first = [], [], 0
    names = [name for name in ("doi", "title") if name in source.schema_arrow.names]
    for batch in source.iter_batches(BATCH_ROWS, columns=names):
        here = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, first + len(batch))] - first
        first += len(batch)
        chosen = batch.take(pa.array(here))
        dois += [normalised_doi(value) for value in _list(chosen, "doi")]
        titles += [text(value) for value in chosen["title"].to_pylist()]
    back = np.searchsorted(wanted, focal).tolist()
    return [dois[at] for at in back], [titles[at] for at in back]


def _sorted_texts(
    source: pq.ParquetFile, rank: np.ndarray, total: int, folder: Path, size: int, advance: Callable[[int, int], object]
) -> list[tuple[int, Path]]:
    """Texts of the chosen records in files by rank: ``(first rank, file)``, each small enough to sort in memory."""
    rows = max(BUCKET_ROWS, -(-total // MAX_BUCKETS))
    buckets = [(first, folder / f"{first}.arrow") for first in range(0, total, rows)]
    names = [name for name in TEXTS if name in source.schema_arrow.names]
    writers: dict[int, pa.RecordBatchStreamWriter] = {}
    at = 0
    try:
        for batch in _batches(source, names, size, advance):
            places = rank[at : at + len(batch)]
            at += len(batch)
            here = np.flatnonzero(places >= 0)
            chosen = batch.take(pa.array(here)).append_column("rank", pa.array(places[here]))
            for bucket in np.unique(places[here] // rows).tolist():
                if bucket not in writers:
                    writers[bucket] = pa.ipc.new_stream(buckets[bucket][1], chosen.schema)
                writers[bucket].write_batch(chosen.filter(pa.array(places[here] // rows == bucket)))
    finally:
        for writer in writers.values():
            writer.close()
    return buckets


def _fields(links: Path | None, level: int, papers: np.ndarray) -> list[str]:
    """Field of each paper at a level of the link table; "" where there is none."""
    if links is None:
        return [""] * papers.size
    order = np.argsort(papers)
    names = np.full(papers.size, None, dtype=object)
    found = 0
    for batch in _open(links, ("paperid", "display_name", "level")).iter_batches(
        BATCH_ROWS * 4, columns=["paperid", "display_name", "level"]
    ):
        batch = batch.filter(call_function("equal", [batch["level"], pa.scalar(level, batch["level"].type)]))
        numbers = _numbers(batch["paperid"])
        place = order[np.minimum(np.searchsorted(papers, numbers, sorter=order), papers.size - 1)]
        hit = np.flatnonzero(papers[place] == numbers)
        found += len(batch)
        for at, name in zip(place[hit].tolist(), batch["display_name"].take(pa.array(hit)).to_pylist(), strict=True):
            if text(name) and (names[at] is None or text(name) < names[at]):
                names[at] = text(name)
    if not found:
        raise BadInput(f"{links} has no field of level {level}; choose another --field-level")
    return [name or "" for name in names]


def _batches(
    source: pq.ParquetFile, names: list[str] | None, size: int, advance: Callable[[int, int], object]
) -> Iterator[pa.RecordBatch]:
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


@dataclass(frozen=True, eq=False)
class _Papers:
    narrow: _Narrow
    novelty: tuple[np.ndarray, np.ndarray]
    options: BuildOptions

    def of(
        self,
        buckets: list[tuple[int, Path]],
        start: int,
        stop: int,
        focal: np.ndarray,
        labels: np.ndarray,
        field: list[str],
    ) -> Iterator[Paper]:
        """Papers of ranks `start` to `stop`, in order."""
        ends = [first for first, _ in buckets[1:]] + [focal.size]
        for (first, path), end in zip(buckets, ends, strict=True):
            if end <= start or first >= stop:
                continue
            with pa.ipc.open_stream(path) as stream:
                table = stream.read_all()
            table = table.take(pa.array(np.argsort(table["rank"].to_numpy())))
            for batch in table.slice(max(start - first, 0), min(end, stop) - max(start, first)).to_batches(1024):
                abstracts = _abstracts(batch)
                for row, abstract in zip(batch.to_pylist(), abstracts, strict=True):
                    rank = row["rank"]
                    yield self._paper(int(focal[rank]), row, abstract, labels[rank], field[rank - start])

    def _paper(self, at: int, row: dict[str, Any], abstract: str, label: Any, field: str) -> Paper:
        rules, scores = self.options.rules, self.narrow.scores
        return Paper(
            openalex_id=f"W{scores.paper[at]}",
            title=text(row["title"]),
            abstract=abstract,
            publication_year=int(scores.year[at]),
            cited_by_count=count(row.get("citation_count")),
            cd_index=float(scores.disruption[at]),
            novelty_score=known(self.novelty[0][at]),
            conventionality_score=known(self.novelty[1][at]),
            disruption_label=label,
            primary_field=field,
            label_scheme=rules.scheme,  # pyright: ignore[reportArgumentType]
            doi=normalised_doi(row.get("doi")),
            reference_count=int(self.narrow.references[at]),
            cd_window=None,
            cd_threshold=rules.threshold,
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
