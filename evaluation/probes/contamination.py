"""Whether a model has seen the answers.

Scores are compared around its knowledge cutoff, by how well it knows a paper, with names and numbers masked, and
without test papers that training contains in another form.
"""

import calendar
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from ...datasets.near_duplicates import title_words
from ...datasets.paper import Paper
from ...datasets.splits import is_post_cutoff
from ...datasets.store import load_papers
from ...envs.kit.base import SciSciEnv
from ...envs.registry import make, spec
from ..ask import Answer
from ..bootstrap import Score, mean_difference
from ..comparison import compare
from ..examination import Examination, VariantBenchmark
from ..outcome import score_answers
from ..records import plain
from .masking import Anonymiser
from .titles import KNOWN, TitleCompletionBenchmark, TitleRecall, summarise, title_recalls

PROBE_TOKENS = 64
SHOWN = 20
SHINGLE, THRESHOLD = 3, 0.5
"""Near-duplicates: number of successive words that are compared, and the least share of them that both papers have."""
ROWS_AT_A_TIME = 256


def cutoff_date(text: str) -> date:
    """A knowledge cutoff as a date: ``YYYY-MM-DD``, or the last day that ``YYYY-MM`` or ``YYYY`` includes.

    Raises `ValueError` if it is none of these.

    Examples
    --------
    >>> cutoff_date("2024").isoformat(), cutoff_date("2024-02").isoformat()
    ('2024-12-31', '2024-02-29')
    """
    try:
        if re.fullmatch(r"\d{4}", text):
            return date(int(text), 12, 31)
        if re.fullmatch(r"\d{4}-\d{2}", text):
            first = date.fromisoformat(f"{text}-01")
            return first.replace(day=calendar.monthrange(first.year, first.month)[1])
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"a knowledge cutoff is YYYY, YYYY-MM or YYYY-MM-DD, got {text!r}") from error


def period(papers: Sequence[Paper], cutoff: date) -> str:
    """What a model with this knowledge cutoff can have read about an example.

    ``published_after``: every paper appeared on or after the cutoff. ``outcome_known``: every paper appeared before it,
    and the years that its label looks at were over. ``published_before``: anything between.

    Examples
    --------
    >>> old = Paper(openalex_id="W1", title="Old", publication_year=2010, cd_window=5)
    >>> period([old], date(2014, 6, 1)), period([old], date(2016, 1, 1)), period([old], date(2009, 1, 1))
    ('published_before', 'outcome_known', 'published_after')
    """
    after = [is_post_cutoff(paper.publication_date, paper.publication_year, cutoff) for paper in papers]
    if all(after):
        return "published_after"
    closed = [p.cd_window is not None and date(p.publication_year + p.cd_window, 12, 31) <= cutoff for p in papers]
    return "outcome_known" if all(closed) else "published_before"


def near_duplicates(
    test: Sequence[Paper], train: Sequence[Paper], threshold: float = THRESHOLD
) -> list[dict[str, Any]]:
    """Test papers whose nearest training paper has a resemblance of at least `threshold`, the closest first.

    The resemblance of two texts is the Jaccard index of their sets of shingles, here of three successive words of
    title and abstract, without case, accents and punctuation. It is computed exactly, for all pairs. The builder of
    datasets already drops papers with an equal DOI or a near-identical title (`datasets.near_duplicates`). This finds
    preprints that appeared under another title and extended versions. Raises `ValueError` for a threshold outside
    (0, 1]. Source: Broder (1997), On the resemblance and containment of documents.

    Examples
    --------
    >>> one = Paper(openalex_id="W1", title="Strings", abstract="we count the states of a long string at rest")
    >>> other = Paper(openalex_id="W2", title="Strings", abstract="we count the states of a long string at large")
    >>> [round(pair["resemblance"], 3) for pair in near_duplicates([one], [other])]
    [0.8]
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"threshold must be in (0, 1], got {threshold!r}")
    texts = [[" ".join(title_words(f"{paper.title}. {paper.abstract}")) for paper in part] for part in (test, train)]
    if not all(any(text and text.count(" ") >= SHINGLE - 1 for text in part) for part in texts):
        return []
    options: dict[str, Any] = {"ngram_range": (SHINGLE, SHINGLE), "token_pattern": r"\S+", "dtype": np.int32}
    counter = CountVectorizer(lowercase=False, binary=True, **options).fit([*texts[0], *texts[1]])
    ours, theirs = (sparse.csr_matrix(counter.transform(part)) for part in texts)
    sizes, their_sizes = (np.asarray(shingles.sum(axis=1)).ravel() for shingles in (ours, theirs))
    pairs = []
    for start in range(0, len(test), ROWS_AT_A_TIME):
        shared = sparse.coo_matrix(ours[start : start + ROWS_AT_A_TIME] @ theirs.T)
        union = sizes[start + shared.row] + their_sizes[shared.col] - shared.data
        resemblance = sparse.csr_matrix((shared.data / union, (shared.row, shared.col)), shape=shared.shape)
        highest = resemblance.max(axis=1).toarray().ravel()
        nearest = np.asarray(resemblance.argmax(axis=1)).ravel().tolist()
        for row in np.flatnonzero(highest >= threshold).tolist():
            paper, twin = test[start + row], train[nearest[row]]
            pairs.append(
                {
                    "test_id": paper.openalex_id,
                    "train_id": twin.openalex_id,
                    "test_title": paper.title,
                    "train_title": twin.title,
                    "resemblance": float(highest[row]),
                }
            )
    return sorted(pairs, key=lambda pair: (-pair["resemblance"], pair["test_id"]))


class Contamination:
    """The parts of the probe for one policy: its `answers` to the benchmark's examples `envs`, in the same order."""

    def __init__(self, examined: Examination, envs: Sequence[SciSciEnv], answers: Sequence[Answer]):
        self.examined, self.envs, self.answers = examined, envs, answers
        self.papers = {paper.openalex_id: paper for env in envs for paper in env.papers}
        env_class = spec(examined.task.env)
        self.labels, self.block, self.seed = env_class.labels, env_class.presentations, examined.seed
        self.right = np.array([answer.predicted == answer.expected for answer in answers])

    def scores(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """The scores of answers that go into a row of a table."""
        scores = score_answers(answers, self.labels, self.seed, self.block)
        row = {name: getattr(scores, name) for name in ("n", "answered", "accuracy", "macro_f1", "mcc")}
        return row | {"balanced_accuracy": scores.balanced.accuracy}

    def by_group(self, groups: Sequence[str]) -> dict[str, Any]:
        """Scores of each group of examples that occurs; a group holds both orders of a pair or neither."""
        return {
            name: self.scores([answer for answer, group in zip(self.answers, groups, strict=True) if group == name])
            for name in dict.fromkeys(groups)
        }

    def _difference(self, group: np.ndarray, members: np.ndarray) -> Score | None:
        """Accuracy in a group minus accuracy of the other members; None where one of the two is empty."""
        inside = group[members]
        if inside.all() or not inside.any():
            return None
        return mean_difference(self.right[members], inside, self.seed, self.block)

    def around_cutoff(self, cutoff: date) -> dict[str, Any]:
        """Scores of papers published before and after a knowledge cutoff."""
        periods = [period(env.papers, cutoff) for env in self.envs]
        after = np.array([name == "published_after" for name in periods])
        return {
            "cutoff": cutoff.isoformat(),
            "scores": self.by_group(["after" if late else "before" for late in after]),
            "scores_by_period": self.by_group(periods),
            "accuracy_before_minus_after": self._difference(~after, np.ones_like(after)),
        }

    async def titles(self) -> dict[str, Any]:
        """The title-completion probe, and scores by how well the papers are known.

        ``summary`` is None where every title is too short to be probed.
        """
        benchmark = TitleCompletionBenchmark(self.examined.benchmark())
        probed = [env.papers[0] for env in benchmark.episodes(self.examined.max_examples)]
        too_short = len(self.papers) - len(probed)
        if not probed:
            return {"known_at": KNOWN, "summary": None, "too_short": too_short}
        tokens = max(PROBE_TOKENS, self.examined.task.max_tokens)
        completions = await self.examined.ask("titles", benchmark, max_tokens=tokens)
        recalls = title_recalls(probed, [completion.text for completion in completions])
        by_paper = {recall.paper_id: recall for recall in recalls}
        of_examples = [[by_paper.get(paper.openalex_id) for paper in env.papers] for env in self.envs]
        groups = np.array([_known(found) for found in of_examples])
        best = sorted(recalls, key=lambda recall: -recall.score)[:SHOWN]
        return {
            "known_at": KNOWN,
            "summary": summarise(recalls, too_short, self.seed),
            "scores_known": self.by_group(groups.tolist()),
            "scores_by_tercile": self.by_group(_terciles(of_examples)),
            "accuracy_known_minus_unknown": self._difference(groups == "known", groups != "not_probed"),
            "best_completions": [{**vars(recall), "known": recall.known} for recall in best],
        }

    async def anonymised(self) -> dict[str, Any]:
        """The same questions about papers whose names, acronyms and numbers are masked; nothing else is different."""
        task, benchmark = self.examined.task, self.examined.benchmark()
        masks = Anonymiser.learn(paper.abstract for paper in load_papers(task.dataset, "train"))
        hidden = {name: masks.paper(paper) for name, paper in self.papers.items()}
        options = benchmark.env_options()

        def masked(env: SciSciEnv) -> SciSciEnv:
            return make(task.env, *(hidden[paper.openalex_id] for paper in env.papers), **options)

        variant = VariantBenchmark(benchmark, masked)
        answers = await self.examined.ask("anonymised", variant, settings="options of the benchmark")
        expected = [answer.expected for answer in answers]
        before, after = ([answer.predicted for answer in part] for part in (self.answers, answers))

        def brackets(papers: dict[str, Paper]) -> int:
            return sum(f"{paper.title} {paper.abstract}".count("[") for paper in papers.values())

        return {
            "common_words": len(masks.common),
            "placeholders_per_paper": (brackets(hidden) - brackets(self.papers)) / len(self.papers),
            "same_answer": float(np.mean([one == other for one, other in zip(before, after, strict=True)])),
            "scores": {"plain": self.scores(self.answers), "anonymised": self.scores(answers)},
            "plain_minus_anonymised": compare(expected, before, after, self.labels, self.seed, self.block),
        }

    def duplicates(self) -> dict[str, Any]:
        """Test papers that resemble a training paper, and scores without them."""
        train = load_papers(self.examined.task.dataset, "train")
        pairs = near_duplicates(list(self.papers.values()), train)
        copied = {pair["test_id"] for pair in pairs}
        fresh = ["copy" if any(p.openalex_id in copied for p in env.papers) else "fresh" for env in self.envs]
        return {
            "threshold": THRESHOLD,
            "test_papers": len(self.papers),
            "train_papers": len(train),
            "near_duplicates": len(pairs),
            "pairs": pairs,
            "scores": self.by_group(fresh),
        }


def _known(recalls: Sequence[TitleRecall | None]) -> str:
    """Whether the papers of an example, whose titles were completed in this way, are known."""
    if any(recall is not None and recall.known for recall in recalls):
        return "known"
    return "not_probed" if None in recalls else "unknown"


def _terciles(examples: Sequence[Sequence[TitleRecall | None]]) -> list[str]:
    """Thirds of the examples by how well their titles were completed.

    Equal scores stay together, so thirds may be of different sizes, or fewer than three.
    """
    means = np.array([np.mean([np.nan if recall is None else recall.score for recall in one]) for one in examples])
    if np.isnan(means).all():
        return ["not_probed"] * len(means)
    edges, names = np.nanquantile(means, [1 / 3, 2 / 3]), ("least_known", "middle", "best_known")
    return ["not_probed" if np.isnan(mean) else names[int(np.searchsorted(edges, mean))] for mean in means]


async def contamination_report(examined: Examination, cutoff: date | None = None) -> dict[str, Any]:
    """All parts of the probe for one policy; without the model's knowledge cutoff, that part is left out.

    Returns, ready for JSON, settings, ``scores`` of the task itself, ``cutoff`` (or None), ``titles``, ``anonymised``,
    and ``duplicates``.
    """
    envs, answers = examined.benchmark().episodes(examined.max_examples), await examined.ask()
    parts = Contamination(examined, envs, answers)
    return plain(
        {
            **examined.settings,
            "seed": examined.seed,
            "scores": parts.scores(answers),
            "cutoff": parts.around_cutoff(cutoff) if cutoff else None,
            "titles": await parts.titles(),
            "anonymised": await parts.anonymised(),
            "duplicates": parts.duplicates(),
        }
    )
