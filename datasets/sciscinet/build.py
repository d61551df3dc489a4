"""SciSciNet (Lin, Yin, Liu & Wang 2023): its published disruption and atypicality columns, out of core.

The tables are read in passes. The first read the narrow columns, and what is to be known of the texts, and decide which
records become papers and where each of them goes; the last reads the texts of those and sorts them on disk. Only the
narrow columns, and the titles and DOIs of the papers, are ever in memory whole.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import MatchSubstringOptions, SetLookupOptions, call_function

from ..atomic_files import scratch_folder
from ..build import BuildOptions, choose_papers, cuts_fact, none_for_nan, write_dataset
from ..dataset_folder import dataset_folder
from ..errors import BadInput
from ..labels.eligibility import NOT_ARTICLES, LabelRules, first_failures, number_checks
from ..labels.published import PublishedScores, is_first
from ..labels.schemes import DISRUPTION_NAMES, DisruptionCuts
from ..openalex.decode import known_abstracts
from ..openalex.notices import MARKED_TITLE, NOTICE_TITLE
from ..openalex.record import abstract_from_inverted_index, normalised_doi, text
from ..openalex.string_columns import few_values, plain_texts
from ..paper import FIRST_YEAR, LAST_YEAR, Paper
from .tables import (
    NO_DAY,
    TEXTS,
    Rows,
    Tables,
    Texts,
    counts,
    days,
    fields_of,
    flags,
    numbers,
    paper_numbers,
    values_at,
)

BUCKET_ROWS = 20_000
MAX_BUCKETS = 200
REQUIRED = ("paperid", "year", "disruption")
SCORES = ("paper", "year", "disruption", "z10", "z_median")
OF_TITLES = f"; SciSciNet-v2 has titles and abstracts in {TEXTS}: give that with --texts"


def build_sciscinet(
    file: Path,
    out: Path,
    options: BuildOptions,
    *,
    texts: Path | None = None,
    fields: Path | None = None,
    field_names: Path | None = None,
    level: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """Build a dataset from the published scores of SciSciNet and return its card.

    The published disruption looks at all later citations, so no split can close its label windows: the split is by
    publication year, and `rules.window` only says how old a paper must be.

    Parameters
    ----------
    file : Path
        Parquet with one row per paper: ``paperid``, ``year``, ``disruption`` and, where there, ``doi``, ``date``,
        ``doctype``, ``is_retracted``, ``team_size``, ``reference_count``, ``citation_count``, ``C5``, ``C10``,
        ``Atyp_Median_Z``, ``Atyp_10pct_Z``. Or the folder with the tables of SciSciNet-v2, see `tables.Tables`.
    texts : Path, optional
        Parquet with ``paperid``, ``title`` and, where there, ``abstract_inverted_index`` and ``language``, in any order
        of papers. Without it, these are columns of `file`.
    fields, field_names : Path, optional
        Parquet link table with ``paperid`` and either ``display_name`` and ``level``, or ``fieldid``; parquet table of
        the fields with ``fieldid``, ``display_name`` and ``level``.
    level : int
        Level of the fields to take; of several, the one with the highest ``score_openalex``, then the first by name.

    Raises `BadInput` for a table or column that is missing, of a type that cannot be read, or damaged, and where no
    paper can carry a label.
    """
    tables = Tables.of(file, texts, fields, field_names)
    with dataset_folder(out, [path for path in tables if path is not None]), scratch_folder(out / "sorting") as folder:
        return _build(tables, level, out, replace(options, split="publication"), progress, folder)


def _build(
    tables: Tables, level: int, out: Path, options: BuildOptions, progress: bool, folder: Path
) -> dict[str, Any]:
    rules = options.rules
    source = Rows(tables.papers, REQUIRED if tables.texts else (*REQUIRED, "title"), "" if tables.texts else OF_TITLES)
    columns = _narrow_columns(source, rules.window, progress)
    scores = PublishedScores(**{name: columns[name] for name in SCORES})
    written = Texts(source) if tables.texts is None else Texts(Rows(tables.texts, ("paperid", "title")), scores.paper)
    columns |= _facts_of_texts(written, scores.paper.size, rules, progress)
    usable, dropped = _usable(scores)
    closed_by = rules.closed_by(scores.year[usable])
    rows, reasons = _eligible_rows(columns, usable, rules, closed_by)
    paper, year, cd = scores.paper[rows], scores.year[rows], scores.disruption[rows]
    field = fields_of(paper, tables.fields, tables.field_names, level)
    codes = DisruptionCuts.of(cd, rules, field, year).codes(cd)
    dates = _dates(columns["day"][rows], year)

    dois, titles = values_at(Texts(source), "doi", rows, normalised_doi), values_at(written, "title", rows, text)

    def described(positions: np.ndarray) -> tuple[list[str], list[str]]:
        return dois[positions].tolist(), titles[positions].tolist()

    chosen, split_years = choose_papers(paper, year, dates, codes, described, reasons, options, closed_by, folder)
    order = np.concatenate(list(chosen.values()))
    works, scored = scores.paper.size, int((~np.isnan(scores.z10)).sum())
    novelty = (
        "Novelty: the published atypicality of the venues cited together, as shares of the papers of the same "
        f"year; {scored:,} records have one."
    )
    facts = {
        "works_read": works,
        "works_in_graph": int(usable.sum()),
        "works_dropped": dict(sorted((+dropped).items())),
        "not_labelled": dict(sorted((+reasons).items())),
        "labels": {**asdict(rules), "last_complete_year": closed_by, "published": True},
        **cuts_fact(cd, pa.array(field).dictionary_encode(), year, rules),
        **({"novelty": {"sentence": novelty, "scored": scored}} if options.novelty else {}),
        "split": {"kind": "publication", **asdict(split_years)},
        "source": {"kind": "sciscinet", "sentence": f"Source: {tables.papers.name} of SciSciNet, {works:,} records."},
    }
    known = {name: columns[name][rows[order]] for name in ("references", "cited", "authors")}
    known |= {"date": dates[order], "label": DISRUPTION_NAMES[codes[order]]}
    known |= {"doi": dois[order], "field": np.array(field, object)[order]}
    texts = _sorted_texts(written, rows[order], works, folder, progress)
    papers = _papers(texts, scores, rows[order], known, options)
    # One run through the texts serves all splits: they follow one another in `order`, and are written in turn.
    splits: dict[str, Iterator[Paper]] = {name: islice(papers, part.size) for name, part in chosen.items()}
    return write_dataset(out, splits, facts, options, lambda folder: scores.save(folder, paper, field))


def _usable(scores: PublishedScores) -> tuple[np.ndarray, Counter[str]]:
    """Which records are papers, bool (N,), and how many are not, by reason. The first record of a paper counts."""
    checks = [
        ("no_id", scores.paper < 0),
        ("no_year", scores.year < 0),
        ("bad_year", (scores.year < FIRST_YEAR) | (scores.year > LAST_YEAR)),
        ("repeated_id", ~is_first(scores.paper)),
    ]
    return first_failures(checks, scores.paper.size)


def _eligible_rows(
    columns: dict[str, np.ndarray], usable: np.ndarray, rules: LabelRules, closed_by: int
) -> tuple[np.ndarray, Counter[str]]:
    """Rows of the papers that can carry a label, ascending, and how many usable papers cannot, by reason."""
    year, references, citations, cd = (columns[name] for name in ("year", "references", "citations", "disruption"))
    checks = [
        ("unusable", ~usable),
        *((reason, columns[reason]) for reason in ("no_title", "no_abstract", "paratext", "retracted", "withdrawn")),
        ("not_an_article", columns["not_an_article"] | columns["notice"]),
        *([("other_language", columns["other_language"])] if rules.language else []),
        *number_checks(year, references, citations, cd, rules, closed_by),
        ("cd_out_of_range", np.abs(cd) > 1),
    ]
    eligible, reasons = first_failures(checks, usable.size)
    del reasons["unusable"]
    return np.flatnonzero(eligible), reasons


def _narrow_columns(source: Rows, window: int, progress: bool) -> dict[str, np.ndarray]:
    """The narrow columns of all records, arrays (N,); three bool arrays have the name of a reason to drop a record."""
    citations = next((name for name in (f"C{window}", "citation_count") if name in source.names), "citation_count")
    names = [*REQUIRED, "Atyp_10pct_Z", "Atyp_Median_Z", "reference_count", "citation_count", "team_size", "date"]
    names += ["doctype", "is_retracted", *([citations] if citations not in names else [])]
    parts = []
    for batch in source.batches(names, "reading scores", progress):
        kind = few_values(batch["doctype"].cast(pa.string()), lambda kind: text(kind).lower())
        part = {
            "paper": paper_numbers(batch["paperid"]),
            "year": numbers(batch["year"], -1, 0, np.iinfo(np.int32).max).astype(np.int32),
            "disruption": numbers(batch["disruption"], np.nan),
            "z10": numbers(batch["Atyp_10pct_Z"], np.nan),
            "z_median": numbers(batch["Atyp_Median_Z"], np.nan),
            "references": counts(batch["reference_count"]),
            "citations": counts(batch[citations]),
            "cited": counts(batch["citation_count"]),
            "authors": counts(batch["team_size"]),
            "day": days(batch["date"]),
            "paratext": _is_in(kind, ["paratext"]),
            "not_an_article": _is_in(kind, sorted(NOT_ARTICLES)),
            "retracted": flags(batch["is_retracted"]),
        }
        parts.append(part)
    if not parts:
        raise BadInput(f"{source.file} has no rows")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _facts_of_texts(texts: Texts, papers: int, rules: LabelRules, progress: bool) -> dict[str, np.ndarray]:
    """What the texts of the papers say about these, bool arrays (N,). A paper without texts has no title."""
    facts = {name: np.ones(papers, bool) for name in ("no_title", "no_abstract")}
    facts |= {name: np.zeros(papers, bool) for name in ("withdrawn", "notice", "other_language")}
    columns = ("title", "abstract_inverted_index", "language")
    for rows, batch in texts.batches(columns, "reading what the texts say", progress):
        titles = plain_texts(batch["title"].cast(pa.string()))
        language = few_values(batch["language"].cast(pa.string()), lambda language: language[:2])
        facts["no_title"][rows] = _is_in(titles, [""])
        facts["no_abstract"][rows] = _is_in(_abstracts(batch), [""])
        facts["withdrawn"][rows] = _matches(titles, MARKED_TITLE)
        facts["notice"][rows] = _matches(titles, NOTICE_TITLE)
        facts["other_language"][rows] = ~_is_in(language, [rules.language or "", ""])
    return facts


def _dates(day: np.ndarray, year: np.ndarray) -> np.ndarray:
    """Publication dates, such as "1999-12-31", str (N,); "" where none is given or it is not of the paper's year."""
    dates = np.where(day == NO_DAY, 0, day).astype("datetime64[D]")
    is_of_year = dates.astype("datetime64[Y]").astype(np.int64) + 1970 == year
    return np.where((day != NO_DAY) & is_of_year, dates.astype(str), "")


def _sorted_texts(texts: Texts, rows: np.ndarray, papers: int, folder: Path, progress: bool) -> list[Path]:
    """Texts of the papers at `rows`, in files that follow that order, each small enough to be sorted in memory."""
    rank = np.full(papers, -1, np.int64)
    rank[rows] = np.arange(rows.size)
    bucket_rows = max(BUCKET_ROWS, -(-rows.size // MAX_BUCKETS))
    buckets = [folder / f"{first}.arrow" for first in range(0, rows.size, bucket_rows)]
    writers: dict[int, pa.RecordBatchStreamWriter] = {}
    try:
        for found, batch in texts.batches(("title", "abstract_inverted_index"), "reading texts", progress):
            ranks = rank[found]
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
    texts: list[Path], scores: PublishedScores, rows: np.ndarray, known: dict[str, Any], options: BuildOptions
) -> Iterator[Paper]:
    """Papers in the order of `rows`, which is that of the columns in `known` and of the files with their `texts`."""
    novelty, conventionality = scores.novelty() if options.novelty else (np.full(scores.paper.size, np.nan),) * 2
    for path in texts:
        with pa.ipc.open_stream(path) as stream:
            table = stream.read_all().sort_by("rank")
        for batch in table.to_batches(1024):
            written = (batch[name].to_pylist() for name in ("rank", "title"))
            for rank, title, abstract in zip(*written, _abstracts(batch).to_pylist(), strict=True):
                row = int(rows[rank])
                yield Paper(
                    openalex_id=f"W{scores.paper[row]}",
                    title=text(title),
                    abstract=abstract,
                    publication_year=int(scores.year[row]),
                    publication_date=str(known["date"][rank]),
                    cited_by_count=int(known["cited"][rank]),
                    cd_index=float(scores.disruption[row]),
                    novelty_score=none_for_nan(novelty[row]),
                    conventionality_score=none_for_nan(conventionality[row]),
                    disruption_label=str(known["label"][rank]),  # pyright: ignore[reportArgumentType]
                    primary_field=known["field"][rank],
                    label_scheme=options.rules.scheme,  # pyright: ignore[reportArgumentType]
                    doi=known["doi"][rank],
                    authors_count=int(known["authors"][rank]),
                    reference_count=int(known["references"][rank]),
                    cd_window=None,
                    cd_threshold=options.rules.threshold,
                )


def _is_in(texts: pa.Array, values: list[str]) -> np.ndarray:
    return call_function("is_in", [texts], SetLookupOptions(pa.array(values, pa.string()))).to_numpy(False)


def _matches(texts: pa.Array, pattern: str) -> np.ndarray:
    return call_function("match_substring_regex", [texts], MatchSubstringOptions(pattern)).to_numpy(False)


def _abstracts(batch: pa.RecordBatch) -> pa.Array:
    column = batch["abstract_inverted_index"]
    if pa.types.is_string(column.type) or pa.types.is_null(column.type):
        return known_abstracts(call_function("coalesce", [column.cast(pa.string()), pa.scalar("")]))
    indexes = (dict(value) if isinstance(value, list) else value for value in column.to_pylist())
    return pa.array([abstract_from_inverted_index(index) for index in indexes], pa.string())
