"""A tiny base model for a dataset and an environment: `init_model` on prompts about unlabelled papers."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from tinker_cookbook.renderers import Message

from ...datasets.openalex.snapshot import read_works
from ...datasets.paper import DISRUPTION_LABELS, NOVELTY_LABELS, Paper
from ...datasets.store import load_card, load_papers
from ...engine.tiny.init_model import InitReport, init_model
from ...envs.disruption import DisruptionEnv
from ...envs.kit.base import SciSciEnv
from ...envs.registry import spec
from ...evaluation.reachable import valid_answers
from .config import tiny_notes

MAX_PROMPTS = 12_000
MAX_ANSWER_GAP = 0.1
"""Nats; see `answer_gap`. What a policy hardly ever writes it is never paid for, and RL starts from that."""


# Columns of the works table that an episode needs, and the field of `Paper` that each is.
COLUMNS = {
    "work_id": "openalex_id",
    "title": "title",
    "abstract": "abstract",
    "publication_year": "publication_year",
    "field": "primary_field",
    "venue": "venue",
    "authors_count": "authors_count",
}


def init_tiny_model(
    out: Path,
    works: pa.Table,
    dataset: Path,
    *,
    options: dict[str, Any],
    seed: int,
    env_id: str = DisruptionEnv.env_id,
    progress: bool = True,
    **sizes: Any,
) -> InitReport:
    """Make a tiny model in `out`, pre-trained on papers up to the last validation year and on no label.

    Its documents are episodes of the environment about papers with made-up outcomes, whose answers are drawn at random.
    So it knows the format of every answer, and nothing about the right one. Validation labels are used for one thing: a
    linear probe of the hidden states decides whether another round of pre-training is needed, together with the chances
    of the answers, which have to be nearly equal.

    `works` has the works table's columns, and `dataset` was built from them. `options` are those of the environment,
    which decide the prompt; `sizes` are passed on to `init_model`.
    """
    env_class = spec(env_id)
    asked = env_class.pretraining_options(options)
    last_year = load_card(dataset)["split"]["validation_to"]
    papers = unlabelled_papers(works, last_year, seed)
    rng = random.Random(seed + 1)
    prompts = [
        conversation
        for example in env_class.examples(papers, seed)
        for conversation in _conversations(env_class.make_group(example, env_class.roles, asked), rng)
    ]
    examples = env_class.examples(load_papers(dataset, "validation"), seed)
    probe = [(_question(env), env.gold_label) for env in (env_class(*example, **asked) for example in examples)]
    return init_model(
        out,
        prompts,
        answers=valid_answers(env_class),
        whole_words=tuple(dict.fromkeys(("answer", *re.findall(r"[a-z]+", " ".join(env_class.labels))))),
        seed=seed,
        probe=probe,
        progress=progress,
        max_answer_gap=MAX_ANSWER_GAP,
        notes={"env": env_id, "env_options": options},
        **sizes,
    )


def ensure_tiny_model(out: Path, dataset: Path, **options: Any) -> None:
    """`init_tiny_model` on the papers of a dataset, unless `out` holds a tiny model already."""
    if tiny_notes(str(out)) is None:
        init_tiny_model(out, works_of(dataset), dataset, **options)


def _question(env: SciSciEnv) -> list[dict[str, str]]:
    return _plain(asyncio.run(env.initial_observation()))


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message["role"], "content": str(message["content"])} for message in messages]


def _conversations(group: Sequence[SciSciEnv], rng: random.Random) -> list[list[dict[str, str]]]:
    """The episodes of a group, each up to its last answer, with random answers before that."""

    def answer(env: SciSciEnv) -> Message:
        return Message(role="assistant", content=env.answer_for(rng.choice(env.labels)))

    async def play(env: SciSciEnv) -> list[dict[str, str]]:
        shown: Sequence[Message] = await env.initial_observation()
        for _ in range(env.turns - 1):
            shown = (await env.step(answer(env))).next_messages
        document = _plain(shown)
        if len(group) > 1:
            # The other side of a game may be waiting for the last answer.
            await env.step(answer(env))
        return document

    async def play_all() -> list[list[dict[str, str]]]:
        return await asyncio.gather(*map(play, group))

    return asyncio.run(play_all())


def works_of(dataset: Path) -> pa.Table:
    """The works that a synthetic dataset was built from; of another dataset its own training papers, as works."""
    source = dataset / "source" / "works"
    if source.is_dir():
        return read_works(source, progress=False)[0]
    papers = load_papers(dataset, "train")
    columns = {name: [getattr(paper, field) for paper in papers] for name, field in COLUMNS.items()}
    return pa.table({**columns, "work_id": [name.removeprefix("W") for name in columns["work_id"]]})


def unlabelled_papers(works: pa.Table, last_year: int, seed: int) -> list[Paper]:
    """Works with an abstract that were published up to `last_year`, with outcomes that the seed makes up.

    At most 12,000, drawn by the seed. An environment needs outcomes to make an episode.
    """
    published = works.select(list(COLUMNS)).filter(pa.array(works["publication_year"].to_numpy() <= last_year))
    rows = [row for row in published.to_pylist() if row["title"] and row["abstract"]]
    random.Random(seed).shuffle(rows)
    rng = random.Random(seed)
    return [_paper(row, rng) for row in rows[:MAX_PROMPTS]]


def _paper(row: dict[str, Any], rng: random.Random) -> Paper:
    known: dict[str, Any] = {field: row[name] for name, field in COLUMNS.items()}
    known["openalex_id"] = f"W{row['work_id']}"
    return Paper(
        **known,
        cd_index=rng.uniform(-1, 1),
        disruption_label=rng.choice(DISRUPTION_LABELS),  # pyright: ignore[reportArgumentType]
        novelty_label=rng.choice(NOVELTY_LABELS),  # pyright: ignore[reportArgumentType]
        citation_percentile=rng.random(),
        label_scheme="quantile",
    )
