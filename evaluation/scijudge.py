"""An outside benchmark: which of two papers is cited more, on a local file in the format of SciJudgeBench.

SciJudgeBench (Tong et al. 2026, "AI Can Learn Scientific Taste", arXiv:2603.14473) holds pairs of papers of the same
field and time. As there, a pair counts as right only if the answer is right in both orders of the papers. The file is
not part of this project: get ``test.jsonl`` from its authors and name it in ``SCISCI_GYM_SCIJUDGE``. Each line is an
object with ``correct_answer`` ("A" or "B") and, for x in a and b, ``paper_x_title``, ``paper_x_abstract``,
``paper_x_date``, and as far as there is one ``paper_x_arxiv_id``, ``paper_x_citations``, ``paper_x_category``. Lines
about the same pair (the file repeats pairs under other prompts and orders) count once.

The wording of the question is ours, with the papers fenced off as data, so scores are close to published ones but not
the same measurement.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinker_cookbook.eval.benchmarks import BenchmarkResult, register

from ..datasets.paper import FIRST_YEAR, LAST_YEAR, Paper
from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark
from ..envs.kit.answers import format_answer, parse_label
from ..envs.kit.base import SciSciEnv
from ..envs.kit.fencing import as_data
from ..envs.kit.prompts import DATA
from ..envs.kit.single_turn import Grade, SingleTurnEnv
from ..rewards import RewardBreakdown, correctness

FILE_VARIABLE = "SCISCI_GYM_SCIJUDGE"
NAME = "scisci_scijudge"

QUESTION = """\
Two papers of about the same field and time, A and B. {data}

A:
{first}

B:
{second}

By their titles, abstracts and publication dates: which of the two has been cited more?

Reason as long as you like. Then finish with A or B between answer tags and nothing after it:
<answer>LETTER</answer>"""


@dataclass(frozen=True)
class CitationPair:
    """Two papers, shown as A and B; `more_cited` is "a" or "b"."""

    first: Paper
    second: Paper
    more_cited: str

    def swapped(self) -> CitationPair:
        return CitationPair(self.second, self.first, "b" if self.more_cited == "a" else "a")

    @property
    def winner(self) -> str:
        """The id of the paper that is cited more."""
        return (self.first if self.more_cited == "a" else self.second).openalex_id


def read_pairs(path: str | Path) -> list[CitationPair]:
    """The pairs of a file in the format of SciJudgeBench, each once, in the order of the file.

    Raises `FileNotFoundError` if there is no such file, and `ValueError`, which names the line, if one is not such an
    object or a pair occurs with contradicting answers.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}: name a JSONL file in the format of SciJudgeBench")
    pairs: dict[tuple[str, str], CitationPair] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                pair = _pair(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise ValueError(f"{path}, line {number} is not a pair of papers: {what}") from error
            low, high = sorted((pair.first.openalex_id, pair.second.openalex_id))
            seen = pairs.setdefault((low, high), pair)
            if seen.winner != pair.winner:
                raise ValueError(f"{path}, line {number} contradicts an earlier line about {low} and {high}")
    if not pairs:
        raise ValueError(f"{path} holds no pair of papers")
    return list(pairs.values())


def _pair(row: dict[str, Any]) -> CitationPair:
    answer = str(row["correct_answer"]).strip().lower()
    if answer not in ("a", "b"):
        raise ValueError(f"correct_answer must be A or B, got {row['correct_answer']!r}")
    first, second = _paper(row, "a"), _paper(row, "b")
    if first.openalex_id == second.openalex_id:
        raise ValueError(f"both papers are {first.openalex_id}")
    return CitationPair(first, second, answer)


def _paper(row: dict[str, Any], side: str) -> Paper:
    title, day = str(row[f"paper_{side}_title"]).strip(), str(row.get(f"paper_{side}_date") or "")
    # Only `Paper` needs the year: the prompt shows the date as the file has it.
    year = int(day[:4]) if day[:4].isdecimal() else 0
    return Paper(
        openalex_id=str(row.get(f"paper_{side}_arxiv_id") or title),
        title=title,
        abstract=str(row.get(f"paper_{side}_abstract") or "").strip(),
        publication_year=year if FIRST_YEAR <= year <= LAST_YEAR else Paper.publication_year,
        publication_date=day,
        cited_by_count=int(row.get(f"paper_{side}_citations") or 0),
        primary_field=str(row.get(f"paper_{side}_category") or ""),
    )


class CitationPairEnv(SingleTurnEnv):
    """One pair in one order. Not registered as a task: its outcomes come from a file and not from a built dataset."""

    env_id = "scijudge"
    labels = ("a", "b")
    presentations = 2

    def __init__(self, pair: CitationPair):
        super().__init__(pair.first, pair.second)
        self.pair = pair

    @property
    def gold_label(self) -> str:
        return self.pair.more_cited

    def gold_answer(self) -> str:
        return format_answer(self.gold_label.upper())

    def question(self) -> str:
        first, second = (_shown(paper) for paper in self.papers)
        return QUESTION.format(data=DATA, first=first, second=second)

    def grade(self, text: str) -> Grade:
        label = parse_label(text, self.labels)
        if label is None:
            return self.no_answer()
        reward, right = RewardBreakdown(correctness(label, self.gold_label)), label == self.gold_label
        return Grade(reward, label, right, valid=True, metrics={"said_first": float(label == "a")})


def _shown(paper: Paper) -> str:
    facts = {"Title": paper.title, "Date": paper.publication_date, "Abstract": paper.abstract}
    lines = [f"{name}: {as_data(text)}" for name, text in facts.items() if text or name == "Title"]
    return "\n".join(["<paper>", *lines, "</paper>"])


class SciJudgeBenchmark(SciSciBenchmark):
    """The pairs of a file, each in both orders; the score is the share of pairs that are right in both.

    Without a path it is the file that the environment variable ``SCISCI_GYM_SCIJUDGE`` names.

    Notes
    -----
    In a `BenchmarkResult` of this benchmark ``num_examples`` and ``num_correct`` count pairs; errors and truncations
    count single answers. Metrics: ``single_accuracy``, ``position_bias`` (share of "A" among the answers that could be
    parsed, minus 1/2), ``always_first`` and ``always_second`` (shares of pairs), ``correct``, ``format_valid``.
    """

    def __init__(self, path: str | None = None):
        super().__init__(CitationPairEnv.env_id, NAME, path, "test")

    def episodes(self, max_examples: int | None = None) -> list[SciSciEnv]:
        """Both orders of the pairs, one after the other; pairs are spread evenly over the file."""
        path = self.dataset or os.environ.get(FILE_VARIABLE)
        if not path:
            raise ValueError(
                f"benchmark {NAME} needs a file: set {FILE_VARIABLE} to a JSONL file in the format of SciJudgeBench, "
                "or pass SciJudgeBenchmark(path)"
            )
        pairs = read_pairs(path)
        wanted = len(pairs) if max_examples is None else min(len(pairs), max(1, max_examples // 2))
        chosen = [pairs[index * len(pairs) // wanted] for index in range(wanted)]
        return [CitationPairEnv(order) for pair in chosen for order in (pair, pair.swapped())]

    def env_options(self) -> dict[str, Any]:
        return {}  # Nothing follows from training papers.

    def aggregate(self, rewards: list[float], metrics_list: list[dict[str, float | int]]) -> BenchmarkResult:
        right = [reward > 0 for reward in rewards]
        # None where nothing was answered: cut off, or not parsable.
        first = [m["said_first"] if m.get("format_valid") else None for m in metrics_list]
        both = [one and other for one, other in zip(right[::2], right[1::2], strict=True)]
        orders = list(zip(first[::2], first[1::2], strict=True))
        given = [named_first for named_first in first if named_first is not None]
        metrics: dict[str, float | int] = {
            "single_accuracy": sum(right) / len(right),
            "correct": sum(right) / len(right),
            "format_valid": len(given) / len(first),
            "always_first": orders.count((1.0, 1.0)) / len(orders),
            "always_second": orders.count((0.0, 0.0)) / len(orders),
        }
        if given:
            metrics["position_bias"] = sum(given) / len(given) - 0.5
        return BenchmarkResult(NAME, sum(both) / len(both), len(both), sum(both), metrics=metrics)


register(SciJudgeBenchmark())
