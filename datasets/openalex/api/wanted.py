"""Which papers a dataset from the API is to be made of."""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import BadInput
from ..record import normalised_doi, short_id


@dataclass(frozen=True)
class Wanted:
    """Which papers a dataset is to be made of."""

    query: str | None
    """Words to find in title and abstract, in the API's order of relevance."""
    seeds: tuple[str, ...] = ()
    """OpenAlex ids or DOIs, instead of or beside a query."""
    from_year: int | None = None
    to_year: int | None = None
    """First and last publication year of focal papers."""
    max_focal: int = 200
    window: int = 5
    """Years after publication whose citations count."""
    max_cited: int | None = None
    """The citing works of works that are cited more often than this are not fetched. Focal papers that cite one are
    left without a label, because their n_k would be too small."""

    def __post_init__(self) -> None:
        if self.query is None and not self.seeds:
            raise BadInput("nothing to look for: give --query, or --seeds with a file of ids or DOIs")
        if self.query is not None and not self.query.strip():
            raise BadInput("--query is empty")
        if self.max_focal < 1:
            raise BadInput(f"--max-focal must be at least 1, got {self.max_focal}")
        if self.from_year is not None and self.to_year is not None and self.from_year > self.to_year:
            raise BadInput(f"--from-year {self.from_year} is after --to-year {self.to_year}")


def read_seeds(file: Path) -> tuple[str, ...]:
    """Ids (``W...`` or addresses) and DOIs from a text file, one on each line, without blank lines and comments.

    A comment starts with ``#`` at the start of a line or after a space; a DOI may hold one. The file is UTF-8, UTF-16
    with its mark, or Latin-1, in which accents may stand in comments.

    Raises `BadInput` if the file is missing or empty, or a line holds neither an id nor a DOI.
    """
    if not file.is_file():
        raise BadInput(f"no file {file}; give a text file with one OpenAlex id or DOI on each line")
    seeds = []
    for number, line in enumerate(_text(file.read_bytes()).splitlines(), 1):
        seed = re.split(r"(?:^|\s)#", line)[0].strip()
        if not seed:
            continue
        work, doi = short_id(seed), normalised_doi(seed)
        if work is None and not doi:
            raise BadInput(
                f"{file} line {number}: {seed[:80]!r} is neither an OpenAlex id such as W2100837269 nor a DOI"
            )
        seeds.append(doi if work is None else f"W{work}")
    if not seeds:
        raise BadInput(f"{file} holds no id and no DOI")
    return tuple(dict.fromkeys(seeds))


def _text(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
