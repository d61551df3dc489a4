"""SciSciNet (Lin, Yin, Liu & Wang 2023): its published disruption and atypicality columns, out of core.

Two passes over the file. The first reads the narrow columns and decides which records become papers and where each of
them goes; the second reads the texts of those and sorts them on disk. Only the narrow columns, and the titles of the
papers, are ever in memory whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import MatchSubstringOptions, call_function

from ..atomic_files import scratch_folder
from ..build import BuildOptions, choose_papers, cuts_fact, none_for_nan, write_dataset
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
REQUIRED = ("paperid", "year", "disruption", "title")
SCORES = ("paper", "year", "disruption", "z10", "z_median")
TEXTS = ("doi", "title", "abstract_inverted_index", "citation_count")


def build_sciscinet(
    file: Path, out: Path, options: BuildOptions, *, fields: Path | None = None, level: int = 0, progress: bool = True
) -> dict[str, Any]:
    """Build a dataset from the published scores of SciSciNet and return its card.

    The published disruption looks at all later citations, so no split can close its label windows: the split is by
    publication year, and `rules.window` only says how old a paper must be.

    Parameters
    ----------
    file : Path
        Parquet with one row per paper: ``paperid``, ``year``, ``disruption``, ``title`` and, where there, ``doi``,
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
    """
    options = replace(options, split="publication")
    rules, source = options.rules, _Rows(file, REQUIRED)
    columns = _narrow_columns(source, rules.window, progress)
    scores = PublishedScores(**{name: columns[name] for name in SCORES})
    usable, dropped = _usable(scores)
    closed_by = rules.closed_by(scores.year[usable])
    rows, reasons = _eligible_rows(columns, usable, rules, closed_by)
    paper, year, cd = scores.paper[rows], scores.year[rows], scores.disruption[rows]
    field = _fields(fields, level, paper)
    labels = disruption_labels(cd, rules, fields=field, years=year)

    def described(positions: np.ndarray) -> tuple[list[str], list[str], np.ndarray]:
        return *_dois_and_titles(source, rows[positions]), np.full(positions.size, "")

    chosen, split_years = choose_papers(paper, year, labels, described, reasons, options, closed_by)
    order = np.concatenate(list(chosen.values()))
    works, scored = scores.paper.size, int((~np.isnan(scores.z10)).sum())
    novelty = (
        f"Novelty: the published atypicality of the venues cited together, as shares of the papers of the same year; "
        f"{scored:,} records have one."
    )
    facts = {
        "works_read": works,
        "works_in_graph": int(usable.sum()),
        "works_dropped": dict(sorted((+dropped).items())),
        "not_labelled": dict(sorted((+reasons).items())),
        "labels": {**asdict(rules), "last_complete_year": closed_by, "published": True},
        **cuts_fact(cd, field, year, rules),
        **({"novelty": {"sentence": novelty, "scored": scored}} if options.novelty else {}),
        "split": {"kind": "publication", **asdict(split_years)},
        "source": {"kind": "sciscinet", "sentence": f"Source: {file.name} of SciSciNet, {works:,} records."},
    }
    with dataset_folder(out), scratch_folder(out / "sorting") as folder:
        texts = _sorted_texts(source, rows[order], folder, progress)
        fields_in_order = [field[position] for position in order.tolist()]
        papers = _papers(texts, scores, columns["references"], rows[order], labels[order], fields_in_order, options)
        # One run through the texts serves all splits: they follow one another in `order`, and are written in turn.
        splits: dict[str, Iterator[Paper]] = {name: islice(papers, part.size) for name, part in chosen.items()}
        return write_dataset(out, splits, facts, options, lambda folder: scores.save(folder, paper, field))


def _usable(scores: PublishedScores) -> tuple[np.ndarray, Counter[str]]:
    """Which records are papers, bool (N,), and how many are not, by reason. The first record of a paper counts."""
    repeated = np.ones(scores.paper.size, bool)
    repeated[np.unique(scores.paper, return_index=True)[1]] = False
    checks = [
        ("no_id", scores.paper < 0),
        ("no_year", scores.year < 0),
        ("bad_year", (scores.year < FIRST_YEAR) | (scores.year > LAST_YEAR)),
        ("repeated_id", repeated),
    ]
    return first_failures(checks, scores.paper.size)


def _eligible_rows(
    columns: dict[str, np.ndarray], usable: np.ndarray, rules: LabelRules, closed_by: int
) -> tuple[np.ndarray, Counter[str]]:
    """Rows of the papers that can carry a label, ascending, and how many usable papers cannot, by reason."""
    year, references, citations, cd = (columns[name] for name in ("year", "references", "citations", "disruption"))
    checks = [
        ("unusable", ~usable),
        *((reason, columns[reason]) for reason in ("no_title", "no_abstract", "withdrawn", "not_an_article")),
        *([("other_language", ~np.isin(columns["language"], [rules.language, ""]))] if rules.language else []),
        *number_checks(year, references, citations, cd, rules, closed_by),
        ("cd_out_of_range", np.abs(cd) > 1),
    ]
    eligible, reasons = first_failures(checks, usable.size)
    del reasons["unusable"]
    return np.flatnonzero(eligible), reasons


class _Rows:
    """Rows of a parquet file in batches; a column that it does not have is read as one of nulls."""

    def __init__(self, file: Path, required: Sequence[str]):
        if not file.is_file():
            raise BadInput(f"no file {file}; give a parquet file of SciSciNet")
        try:
            self._source = pq.ParquetFile(file)
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"{file} cannot be read as parquet ({error}); fetch it again") from error
        self._bytes, self.rows = file.stat().st_size, self._source.metadata.num_rows
        self.names = frozenset(self._source.schema_arrow.names)
        missing = [name for name in required if name not in self.names]
        if missing:
            present = ", ".join(self._source.schema_arrow.names)
            raise BadInput(f"{file} has no column {', '.join(missing)}, only {present}")

    def batches(self, columns: Sequence[str], title: str = "", progress: bool = False) -> Iterator[pa.RecordBatch]:
        """`columns` of all rows, in order, with a progress bar over the bytes of the file."""
        done, names = 0, [name for name in columns if name in self.names]
        with reading_bar(self._bytes, progress, title) as advance:
            for batch in self._source.iter_batches(BATCH_ROWS, columns=names):
                nulls = pa.nulls(len(batch))
                yield pa.record_batch([batch[name] if name in names else nulls for name in columns], list(columns))
                before, done = done, done + len(batch)
                advance(self._bytes * done // self.rows - self._bytes * before // self.rows, len(batch))


def _narrow_columns(source: _Rows, window: int, progress: bool) -> dict[str, np.ndarray]:
    """The narrow columns of all records, arrays (N,); four bool arrays have the name of a reason to drop a record."""
    citations = next((name for name in (f"C{window}", "citation_count") if name in source.names), "citation_count")
    names = (*REQUIRED, "Atyp_10pct_Z", "Atyp_Median_Z", "reference_count", citations, "language", TEXTS[2])
    parts = []
    for batch in source.batches(names, "reading scores", progress):
        titles = pa.array([text(title) for title in batch["title"].to_pylist()], pa.string())
        part = {
            "paper": _ids(batch["paperid"]),
            "year": _numbers(batch["year"], -1).astype(np.int32),
            "disruption": _numbers(batch["disruption"], np.nan),
            "z10": _numbers(batch["Atyp_10pct_Z"], np.nan),
            "z_median": _numbers(batch["Atyp_Median_Z"], np.nan),
            "references": _numbers(batch["reference_count"], 0).astype(np.int32),
            "citations": _numbers(batch[citations], 0).astype(np.int32),
            "language": np.array([value or "" for value in batch["language"].to_pylist()], "U2"),
            "no_title": np.array([not title for title in titles.to_pylist()], bool),
            "no_abstract": np.array([not abstract for abstract in _abstracts(batch)], bool),
            "withdrawn": _matches(titles, MARKED_TITLE),
            "not_an_article": _matches(titles, NOTICE_TITLE),
        }
        parts.append(part)
    if not parts:
        raise BadInput("the file has no rows")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _dois_and_titles(source: _Rows, rows: np.ndarray) -> tuple[list[str], list[str]]:
    """DOIs and titles of the records at ascending `rows`."""
    dois, titles, first = [], [], 0
    for batch in source.batches(("doi", "title")):
        inside = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))] - first
        first += len(batch)
        chosen = batch.take(pa.array(inside))
        dois += [normalised_doi(value) for value in chosen["doi"].to_pylist()]
        titles += [text(value) for value in chosen["title"].to_pylist()]
    return dois, titles


def _sorted_texts(source: _Rows, rows: np.ndarray, folder: Path, progress: bool) -> list[Path]:
    """Texts of the records at `rows`, in files that follow that order, each small enough to be sorted in memory."""
    rank = np.full(source.rows, -1, np.int64)
    rank[rows] = np.arange(rows.size)
    bucket_rows = max(BUCKET_ROWS, -(-rows.size // MAX_BUCKETS))
    buckets = [folder / f"{first}.arrow" for first in range(0, rows.size, bucket_rows)]
    writers: dict[int, pa.RecordBatchStreamWriter] = {}
    first = 0
    try:
        for batch in source.batches(TEXTS, "reading texts", progress):
            ranks = rank[first : first + len(batch)]
            first += len(batch)
            ranked = batch.append_column("rank", pa.array(ranks))
            for bucket in np.unique(ranks[ranks >= 0] // bucket_rows).tolist():
                if bucket not in writers:
                    writers[bucket] = pa.ipc.new_stream(buckets[bucket], ranked.schema)
                writers[bucket].write_batch(ranked.filter(pa.array((ranks >= 0) & (ranks // bucket_rows == bucket))))
    finally:
        for writer in writers.values():
            writer.close()
    return buckets


def _papers(
    buckets: list[Path],
    scores: PublishedScores,
    references: np.ndarray,
    rows: np.ndarray,
    labels: np.ndarray,
    fields: list[str],
    options: BuildOptions,
) -> Iterator[Paper]:
    """Papers in the order of `rows`, which is that of `labels` and `fields`, with the texts out of `buckets`."""
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
                    cited_by_count=count(work["citation_count"]),
                    cd_index=float(scores.disruption[row]),
                    novelty_score=none_for_nan(novelty[row]),
                    conventionality_score=none_for_nan(conventionality[row]),
                    disruption_label=str(labels[rank]),  # pyright: ignore[reportArgumentType]
                    primary_field=fields[rank],
                    label_scheme=options.rules.scheme,  # pyright: ignore[reportArgumentType]
                    doi=normalised_doi(work["doi"]),
                    reference_count=int(references[row]),
                    cd_window=None,
                    cd_threshold=options.rules.threshold,
                )


def _fields(links: Path | None, level: int, papers: np.ndarray) -> list[str]:
    """Field of each paper at a level of the link table; "" where there is none."""
    if links is None:
        return [""] * papers.size
    order = np.argsort(papers)
    names: list[str] = [""] * papers.size
    has_level = False
    columns = ("paperid", "display_name", "level")
    for batch in _Rows(links, columns).batches(columns):
        batch = batch.filter(call_function("equal", [batch["level"], pa.scalar(level, batch["level"].type)]))
        has_level |= len(batch) > 0
        positions = positions_of(_ids(batch["paperid"]), papers, order)
        linked = np.flatnonzero(positions >= 0)
        given = batch["display_name"].take(pa.array(linked)).to_pylist()
        for position, name in zip(positions[linked].tolist(), map(text, given), strict=True):
            if name and (not names[position] or name < names[position]):
                names[position] = name
    if not has_level:
        raise BadInput(f"{links} has no field of level {level}; choose another --field-level")
    return names


def _ids(ids: pa.Array) -> np.ndarray:
    """Numbers of papers given as 2100837269, "2100837269" or "W2100837269"; -1 for anything else."""
    if pa.types.is_integer(ids.type):
        return ids.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    digits = (str(value).rsplit("/", 1)[-1].lstrip("Ww") if value is not None else "" for value in ids.to_pylist())
    return np.array([int(d) if d.isascii() and d.isdecimal() and len(d) <= 18 else -1 for d in digits], np.int64)


def _numbers(values: pa.Array, missing: float) -> np.ndarray:
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(float)
    return np.where(np.isnan(numbers), missing, numbers)


def _matches(texts: pa.Array, pattern: str) -> np.ndarray:
    matches = call_function("match_substring_regex", [texts], MatchSubstringOptions(pattern))
    return matches.to_numpy(zero_copy_only=False)


def _abstracts(batch: pa.RecordBatch) -> list[str]:
    column = batch["abstract_inverted_index"]
    values = column.to_pylist()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return known_abstracts([b"null" if value is None else value.encode() for value in values]).to_pylist()
    return [abstract_from_inverted_index(dict(value) if isinstance(value, list) else value) for value in values]
