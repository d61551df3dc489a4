"""All environments that a dataset can serve, with baselines and policies: `scisci-gym eval --all`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.atomic_files import write_json_atomically
from ..datasets.store import load_papers
from ..envs.kit.episodes import run_sync
from ..envs.registry import spec
from .baselines import baseline_answers, baseline_names, examples_of
from .board import Board, Entry, entry
from .bootstrap import LEVEL, RESAMPLES
from .examination import plain
from .features import Encoder
from .redaction import without_secrets
from .revision import git_revision

RESULT = "leaderboard.json"
MAX_TOKENS = 1024
"""Longest answer of a policy that is asked."""


@dataclass(frozen=True)
class LeaderboardOptions:
    """What is evaluated.

    Parameters
    ----------
    dataset : str
    envs : tuple of str
        Environment ids; empty for all that the dataset can serve.
    runs : tuple of Path
        Training runs, each on the environment it was trained on.
    model : str or None
        Base model to ask zero-shot.
    split : "test" | "validation" | "train"
    max_examples : int or None
        For every environment, spread evenly over time.
    seed : int
        Of sampling, of baselines that draw, and of the bootstrap.
    out : Path
    embeddings : str or None
        Sentence-transformers model of the embeddings baseline.
    env_options, renderer_name, max_tokens
        Of the base model; runs have their own.
    label_probabilities : bool
        Ask policies for their own probabilities of the labels.
    sampled : bool
        Ask policies at temperature 1 as well.
    engine : str or None
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
    env_options: str = ""
    renderer_name: str | None = None
    max_tokens: int = MAX_TOKENS
    label_probabilities: bool = False
    sampled: bool = False
    engine: str | None = None


@dataclass(frozen=True)
class Leaderboard:
    """A finished evaluation.

    Parameters
    ----------
    options : LeaderboardOptions
    boards : tuple of Board
    skipped : dict of str to str
        Environments that the dataset cannot serve, and why.
    card : dict
        Of the dataset.
    extras : dict
        Further layers, such as the held-out NLL and public benchmarks of `scisci-gym eval RUN`.
    """

    options: LeaderboardOptions
    boards: tuple[Board, ...]
    skipped: dict[str, str]
    card: dict[str, Any]
    extras: dict[str, Any]

    @property
    def has_policies(self) -> bool:
        return any(one.kind != "baseline" for each in self.boards for one in each.entries)

    @property
    def notes(self) -> list[str]:
        """What a reader of the scores has to know, each thing once."""
        found = dict.fromkeys(note for each in self.boards for one in each.entries for note in one.notes)
        if not self.has_policies:
            found["No model took part: baselines only. Name one with --model, or runs with --run."] = None
        return list(found)

    def to_json(self) -> dict[str, Any]:
        """Everything, and what it takes to make it again."""
        card = self.card
        return plain(
            {
                "made": {
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "command": without_secrets([Path(sys.argv[0]).name, *sys.argv[1:]]),
                    "revision": git_revision(),
                    "versions": {
                        name: version(name)
                        for name in (
                            "scisci-gym",
                            "tinker",
                            "tinker-cookbook",
                            "torch",
                            "transformers",
                            "scikit-learn",
                            "numpy",
                        )
                    },
                    "options": json.loads(json.dumps(asdict(self.options), default=str)),
                    "bootstrap": {"resamples": RESAMPLES, "level": LEVEL, "method": "percentile"},
                },
                "dataset": {
                    "folder": self.options.dataset,
                    **{name: card.get(name) for name in ("content_hash", "command", "labels", "split", "splits")},
                },
                "environments": [each.to_json() for each in self.boards],
                "skipped": self.skipped,
                "notes": self.notes,
                **self.extras,
            }
        )


def servable(options: LeaderboardOptions, wanted: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Environments with training and test examples in the dataset, and for the others the reason.

    Raises
    ------
    ValueError
        If one that was named cannot be served, or none can.
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
    """The class prior of training, and the baselines of one environment."""
    examples = examples_of(env_id, options.dataset, options.split, max_examples=options.max_examples)
    prior, seed, entries = examples.prior(), options.seed, []
    for name in baseline_names(spec(env_id), encoder):
        report(f"{env_id}: {name}")
        answers = run_sync(baseline_answers(examples, name, encoder, seed))
        entries.append(entry(name, "baseline", answers, env_id, prior, seed=seed))
    return prior, entries


def write_results(result: Leaderboard, path: Path) -> dict[str, Any]:
    """Write `leaderboard.json`, and every single answer below `predictions/` beside it; what the file holds."""
    found = result.to_json()
    write_json_atomically(path, found)
    for each in result.boards:
        folder = path.parent / "predictions" / each.env_id
        folder.mkdir(parents=True, exist_ok=True)
        for at, one in enumerate(each.entries):
            rows = [json.dumps(plain(asdict(answer)), ensure_ascii=False) for answer in one.answers]
            header = json.dumps({"entry": one.name, "kind": one.kind})
            (folder / f"{at:02d}.jsonl").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return found
