"""Leaderboards: who answered the questions of each environment, with which outcome, and what was compared with what."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..datasets.atomic_files import write_json_atomically, write_text_atomically
from ..datasets.store import load_papers
from ..envs.kit.base import SciSciEnv
from ..envs.kit.episodes import run_sync
from ..envs.kit.renderers import ends_in_thinking
from ..envs.registry import spec
from .ask import Answer
from .baselines import baseline_answers, baseline_names, examples_of
from .bootstrap import LEVEL, RESAMPLES, Score, mean_score
from .comparison import Comparison, compare
from .embeddings import Encoder
from .outcome import MAIN_SCORES, Outcome, outcome
from .records import git_revision, plain, without_secrets

RESULT = "leaderboard.json"
PACKAGES = ("scisci-gym", "tinker", "tinker-cookbook", "torch", "transformers", "scikit-learn", "numpy")

Kind = Literal["baseline", "base model", "run"]


@dataclass(frozen=True)
class Entry:
    """A baseline or a policy with its greedy answers and their outcome.

    `source` has checkpoint, model and options, with which it can be asked again. `sampled` is the outcome of answers at
    temperature 1, if there are any; `notes` are reservations about its scores, for the reader.
    """

    name: str
    kind: Kind
    outcome: Outcome
    answers: list[Answer] = field(repr=False)
    source: dict[str, Any] = field(default_factory=dict)
    sampled: Outcome | None = None
    notes: tuple[str, ...] = ()


def _main_value(entry: Entry) -> float:
    return entry.outcome.main_score.value


@dataclass(frozen=True)
class Versus:
    """One policy (`first`) against another entry (`second`) on the same examples: the labels they named are compared.

    `reward_difference` is the mean reward of the first minus that of the second, with the interval of the paired
    bootstrap.
    """

    first: str
    second: str
    labels: Comparison
    reward_difference: Score


@dataclass(frozen=True)
class Board:
    """One environment of a leaderboard: entries, baselines first, and their comparisons.

    `prior` holds the shares of the labels in training.
    """

    env_id: str
    prior: tuple[float, ...]
    entries: tuple[Entry, ...]
    versus: tuple[Versus, ...]

    @property
    def env_class(self) -> type[SciSciEnv]:
        return spec(self.env_id)

    @property
    def n(self) -> int:
        return self.entries[0].outcome.n

    @property
    def main_name(self) -> str:
        """Name of the score that counts in this environment, as tables have it."""
        return MAIN_SCORES[self.entries[0].outcome.main]

    @property
    def best_baseline(self) -> Entry:
        """The baseline with the best main score; of equal ones the first."""
        return max((entry for entry in self.entries if entry.kind == "baseline"), key=_main_value)

    @property
    def best_policy(self) -> Entry | None:
        """The policy with the best main score, if there is any."""
        return max((entry for entry in self.entries if entry.kind != "baseline"), key=_main_value, default=None)

    def to_json(self) -> dict[str, Any]:
        labels, of_entry = self.env_class.labels, ("name", "kind", "source", "notes", "outcome", "sampled")
        return plain(
            {
                "env": self.env_id,
                "n": self.n,
                "main": self.entries[0].outcome.main,
                "labels": labels,
                "training_prior": dict(zip(labels, self.prior, strict=True)),
                "entries": [{key: getattr(entry, key) for key in of_entry} for entry in self.entries],
                "comparisons": self.versus,
            }
        )


def entry(
    name: str,
    kind: Kind,
    answers: list[Answer],
    env_id: str,
    prior: np.ndarray,
    *,
    seed: int = 0,
    source: dict[str, Any] | None = None,
    sampled: list[Answer] | None = None,
    notes: Sequence[str] = (),
) -> Entry:
    """An entry from its answers."""
    env_class = spec(env_id)
    greedy = outcome(answers, env_class, prior, seed)
    at_one = outcome(sampled, env_class, prior, seed) if sampled else None
    if thinking := sum(not answer.predicted and ends_in_thinking(answer.text) for answer in answers):
        cut = f"{name} was still thinking when {thinking:,} of its {len(answers):,} answers to {env_id} were cut off"
        notes = [*notes, f"{cut}: they count as wrong; raise --max-tokens."]
    return Entry(name, kind, greedy, answers, source or {}, at_one, tuple(notes))


def board(env_id: str, prior: np.ndarray, entries: Sequence[Entry], seed: int = 0) -> Board:
    """A board: every policy is compared with the best baseline, and every run with the base models.

    Raises `ValueError` if entries answered different examples.
    """
    examples = [answer.example_id for answer in entries[0].answers]
    for other in entries:
        if [answer.example_id for answer in other.answers] != examples:
            raise ValueError(f"{other.name} and {entries[0].name} answered different examples of {env_id}")
    result = Board(env_id, tuple(prior.tolist()), tuple(entries), ())
    models = [other for other in entries if other.kind == "base model"]
    rivals = {"baseline": [], "base model": [result.best_baseline], "run": [result.best_baseline, *models]}
    pairs = [versus(policy, other, seed) for policy in entries for other in rivals[policy.kind]]
    return replace(result, versus=tuple(pairs))


def versus(first: Entry, second: Entry, seed: int = 0) -> Versus:
    """Compare two entries of a board."""
    env_class = spec(first.outcome.env_id)
    block, expected = env_class.presentations, [answer.expected for answer in first.answers]
    one, other = ([answer.predicted for answer in entry.answers] for entry in (first, second))
    labels = compare(expected, one, other, env_class.labels, seed, block)
    gaps = [a.reward - b.reward for a, b in zip(first.answers, second.answers, strict=True)]
    return Versus(first.name, second.name, labels, mean_score(np.array(gaps), seed, block))


@dataclass(frozen=True)
class LeaderboardOptions:
    """Options of an evaluation.

    It asks about the environments `envs` (empty: all that the dataset can serve) on `max_examples` examples of the
    split for each, spread evenly over time: training `runs`, each on the environment it was trained on; the base
    `model`, zero-shot; and baselines, of which `embeddings` names the sentence-transformers model.
    `label_probabilities` asks policies for their own probabilities of the labels, and `sampled` at temperature 1 as
    well. The seed is that of sampling, of baselines that draw, and of the bootstrap. `env_options`, `renderer_name` and
    `max_tokens` are those of the base model, where the ones that suit it are not wanted; runs have their own. `engine`
    is as in `open_engine`.
    """

    dataset: str
    out: Path
    envs: tuple[str, ...] = ()
    runs: tuple[Path, ...] = ()
    model: str | None = None
    split: str = "test"
    max_examples: int | None = None
    seed: int = 0
    embeddings: str | None = None
    env_options: str | None = None
    renderer_name: str | None = None
    max_tokens: int | None = None
    label_probabilities: bool = False
    sampled: bool = False
    engine: str | None = None


@dataclass(frozen=True)
class Leaderboard:
    """A finished evaluation.

    `skipped` has environments that the dataset cannot serve, and why; `card` is that of the dataset. `extras` are
    further layers, such as the held-out NLL and public benchmarks of `scisci-gym eval RUN`.
    """

    options: LeaderboardOptions
    boards: tuple[Board, ...]
    skipped: dict[str, str]
    card: dict[str, Any]
    extras: dict[str, Any]

    @property
    def notes(self) -> list[str]:
        """The notes of all entries, each once."""
        entries = [entry for board in self.boards for entry in board.entries]
        notes = list(dict.fromkeys(note for entry in entries for note in entry.notes))
        if all(entry.kind == "baseline" for entry in entries):
            notes.append("No model took part: baselines only. Name one with --model, or runs with --run.")
        return notes

    def to_json(self) -> dict[str, Any]:
        """All results as plain JSON, with the command, versions and options that made them."""
        about = {name: self.card.get(name) for name in ("content_hash", "command", "labels", "split", "splits")}
        return plain(
            {
                "made": {
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "command": without_secrets([Path(sys.argv[0]).name, *sys.argv[1:]]),
                    "revision": git_revision(),
                    "versions": {name: version(name) for name in PACKAGES},
                    "options": json.loads(json.dumps(vars(self.options), default=str)),
                    "bootstrap": {"resamples": RESAMPLES, "level": LEVEL, "method": "percentile"},
                },
                "dataset": {"folder": self.options.dataset, **about},
                "environments": [board.to_json() for board in self.boards],
                "skipped": self.skipped,
                "notes": self.notes,
                **self.extras,
            }
        )


def servable(options: LeaderboardOptions, wanted: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Environments with training and test examples in the dataset, and for the others the reason.

    Raises `ValueError` if one that was named cannot be served, or none can.
    """
    papers = {part: load_papers(options.dataset, part) for part in {"train", options.split}}
    served, skipped = [], {}
    for env_id in wanted:
        missing = [part for part in papers if not spec(env_id).benchmark_examples(papers[part])]
        if missing:
            skipped[env_id] = f"no example of it among the papers of {' and '.join(sorted(missing))}"
        else:
            served.append(env_id)
    if not served or (options.envs and skipped):
        env_id, reason = next(iter(skipped.items()))
        raise ValueError(f"{options.dataset} cannot serve {env_id}: {reason}")
    return served, skipped


def baseline_entries(
    env_id: str,
    options: LeaderboardOptions,
    encoder: Encoder | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[np.ndarray, list[Entry]]:
    """The shares of the labels in training, and the baselines of one environment; `report` is told of each."""
    examples = examples_of(env_id, options.dataset, options.split, max_examples=options.max_examples)
    prior, seed, entries = examples.prior(), options.seed, []
    for name in baseline_names(spec(env_id), encoder):
        report(f"{env_id}: {name}")
        answers = run_sync(baseline_answers(examples, name, encoder, seed))
        entries.append(entry(name, "baseline", answers, env_id, prior, seed=seed))
    return prior, entries


def write_results(result: Leaderboard, path: Path) -> dict[str, Any]:
    """Write `leaderboard.json`, and every single answer below `predictions/` beside it; returns what the file holds."""
    content = result.to_json()
    write_json_atomically(path, content)
    for board in result.boards:
        folder = path.parent / "predictions" / board.env_id
        folder.mkdir(parents=True, exist_ok=True)
        for index, entry in enumerate(board.entries):
            rows = [json.dumps(plain(asdict(answer)), ensure_ascii=False) for answer in entry.answers]
            header = json.dumps({"entry": entry.name, "kind": entry.kind})
            write_text_atomically(folder / f"{index:02d}.jsonl", "\n".join([header, *rows]) + "\n")
    return content
