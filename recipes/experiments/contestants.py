"""Policies that take part in an evaluation: base models and trained runs, asked in the engine they live in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.store import load_card, load_papers
from ...envs.kit.single_turn import SingleTurnEnv
from ...envs.registry import spec, specs
from ...envs.training.groups import renderer_of
from ...evaluation.ask import Answer, Policy, Task, label_probabilities, policy_answers
from ...evaluation.leaderboard import (
    MAX_TOKENS,
    Entry,
    Kind,
    Leaderboard,
    LeaderboardOptions,
    baseline_entries,
    board,
    entry,
    servable,
)
from ...evaluation.learners import Encoder
from ..kit.checkpoints import chosen_checkpoint
from ..kit.config import parse_options, renderer_name_for
from ..kit.engines import engine_kind, open_engine
from ..monitoring.record import read_run_record, require_folders


@dataclass(frozen=True)
class Contestant:
    """A policy, what it is asked, and where.

    Parameters
    ----------
    kind : "base model" | "run"
    task : Task
    policy : Policy
    engine : str or None
        As in `open_engine`.
    checkpoints : str
        Folder of a local engine's weights.
    notes : tuple of str
    """

    kind: Kind
    task: Task
    policy: Policy
    engine: str | None
    checkpoints: str
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> dict[str, Any]:
        """What it takes to ask it again."""
        return {**vars(self.task), "checkpoint": self.policy.sampler_path}

    def answers_folder(self, out: Path, split: str) -> Path:
        """Where its answers are kept: another checkpoint, dataset or option is another folder."""
        asked = {**self.source, "split": split, "content_hash": load_card(self.task.dataset)["content_hash"]}
        # The folder of a dataset may move; what it holds decides.
        del asked["dataset"]
        text = json.dumps(asked, sort_keys=True, default=repr)
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        slug = re.sub(r"[^a-z0-9]+", "-", self.policy.name.lower()).strip("-")
        return out / "answers" / self.task.env / f"{slug[:40]}-{digest}"


@dataclass(frozen=True)
class Asked:
    """Answers of a contestant: greedy, and at temperature 1 if they were asked for."""

    greedy: list[Answer]
    sampled: list[Answer] | None


def base_model(
    model: str,
    env_id: str,
    dataset: str,
    out: Path,
    *,
    options: str = "",
    renderer_name: str | None = None,
    max_tokens: int = MAX_TOKENS,
    engine: str | None = None,
) -> Contestant:
    """A model as it is, without training: the zero-shot baseline."""
    task = Task(
        env_id,
        parse_options(env_id, options),
        dataset,
        model,
        renderer_name_for(model, renderer_name),
        max_tokens,
    )
    name = f"{Path(model).name}, zero-shot"
    return Contestant("base model", task, Policy(name), engine, str(out / "engine"))


def run_contestant(run: Path, dataset: str | None = None, engine: str | None = None) -> Contestant:
    """The best checkpoint of a run on validation papers (or its last), on the environment it was trained on.

    Raises
    ------
    FileNotFoundError
        If the folder is not the folder of a run, or has no checkpoint.
    """
    record = read_run_record(run)
    config = record["config"]
    require_folders(run, ["model_name", *([] if dataset else ["dataset"]), *_local(config, engine)])
    model, folder = config["model_name"], dataset or config["dataset"]
    task = Task(
        env=config["env"],
        options=parse_options(config["env"], config["env_options"]),
        dataset=folder,
        model_name=model,
        renderer_name=renderer_name_for(model, config["renderer_name"]),
        max_tokens=config.get("max_tokens", MAX_TOKENS),
    )
    checkpoint = chosen_checkpoint(run)
    trained_on, here = record["dataset"]["content_hash"], load_card(folder)["content_hash"]
    notes = ()
    if trained_on != here:
        notes = (
            f"{run.name} was trained on another dataset ({trained_on[:12]}, this one is {here[:12]}): papers that it "
            "was trained on may be among these.",
        )
    policy = Policy(f"{run.name} (step {checkpoint.step})", checkpoint.sampler_path)
    return Contestant("run", task, policy, engine or config["engine"], config["checkpoints"], notes)


def _local(config: dict[str, Any], engine: str | None) -> list[str]:
    """The folder of weights counts where the engine is this machine's own."""
    return ["checkpoints"] if engine_kind(engine or config["engine"]) == "local" else []


def ask_contestants(
    contestants: Sequence[Contestant],
    out: Path,
    split: str = "test",
    *,
    max_examples: int | None = None,
    seed: int = 0,
    sampled: bool = False,
    with_probabilities: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> list[Asked]:
    """Answers of all contestants, in their order; engines are opened one after the other.

    Parameters
    ----------
    out : Path
        Answers are kept below it; a second call asks only for what is missing.
    sampled : bool
        Ask at temperature 1 as well.
    with_probabilities : bool
        Ask for the policy's own probabilities of the labels where it is asked for one label; see
        `label_probabilities`.
    report : callable
        Told who is being asked.
    """
    found: dict[int, Asked] = {}
    places = [(contestant.engine, contestant.checkpoints) for contestant in contestants]
    for place in dict.fromkeys(places):
        with open_engine(place[0], place[1], seed):
            for at, contestant in enumerate(contestants):
                if places[at] == place:
                    report(f"{contestant.task.env}: {contestant.policy.name}")
                    asking = ask_contestant(
                        contestant,
                        out,
                        split,
                        max_examples=max_examples,
                        sampled=sampled,
                        with_probabilities=with_probabilities,
                    )
                    found[at] = asyncio.run(asking)
    return [found[at] for at in range(len(contestants))]


async def ask_contestant(
    contestant: Contestant,
    out: Path,
    split: str,
    *,
    max_examples: int | None = None,
    sampled: bool = False,
    with_probabilities: bool = False,
) -> Asked:
    """Answers of one contestant, whose engine is open; see `ask_contestants`."""
    keep = contestant.answers_folder(out, split)
    task, policy, env_class = contestant.task, contestant.policy, spec(contestant.task.env)

    async def at(temperature: float, kind: str) -> list[Answer]:
        return await policy_answers(
            task, policy, split, temperature=temperature, max_examples=max_examples, save_dir=keep / kind
        )

    greedy = await at(0.0, "greedy")
    if with_probabilities and env_class.asks_for == "label" and issubclass(env_class, SingleTurnEnv):
        greedy = believing(
            greedy,
            await label_probabilities(
                await policy.client(task),
                renderer_of(task.renderer_name, task.model_name),
                task.benchmark(split).episodes(max_examples),
                env_class.labels,
                keep / "label_probabilities.jsonl",
            ),
        )
    return Asked(greedy, await at(1.0, "sampled") if sampled else None)


def believing(answers: Sequence[Answer], probabilities: np.ndarray) -> list[Answer]:
    """The same answers with probabilities (N, K) beside them."""
    rows = probabilities.tolist()
    return [replace(answer, probabilities=tuple(row)) for answer, row in zip(answers, rows, strict=True)]


def evaluate_all(
    options: LeaderboardOptions, encoder: Encoder | None = None, report: Callable[[str], None] = lambda _: None
) -> Leaderboard:
    """Evaluate baselines and policies on every environment asked for.

    Parameters
    ----------
    encoder : callable, optional
        For the embeddings baseline.
    report : callable
        Told what is going on.

    Raises
    ------
    FileNotFoundError
        If the dataset, the split or a run is not there.
    ValueError
        If an environment does not exist, the dataset cannot serve one that was asked for, or a run was trained on an
        environment that was not.
    """
    card = load_card(options.dataset)
    load_papers(options.dataset, options.split)
    wanted = [spec(env_id).env_id for env_id in options.envs] or [env_class.env_id for env_class in specs()]
    runs = [run_contestant(run, options.dataset, options.engine) for run in options.runs]
    for contestant in runs:
        if contestant.task.env not in wanted:
            raise ValueError(
                f"{contestant.policy.name} was trained on {contestant.task.env}, which is not among --env "
                f"{', '.join(wanted)}"
            )
    served, skipped = servable(options, wanted)
    contestants = [contestant for contestant in runs if contestant.task.env in served]
    if options.model is not None:
        contestants += [
            base_model(
                options.model,
                env_id,
                options.dataset,
                options.out,
                options=options.env_options,
                renderer_name=options.renderer_name,
                max_tokens=options.max_tokens,
                engine=options.engine,
            )
            for env_id in served
        ]
    # Before any engine is opened: sessions that nobody closes complain when their engine is gone for long.
    baselines = {env_id: baseline_entries(env_id, options, encoder, report) for env_id in served}
    asked = ask_contestants(
        contestants,
        options.out,
        options.split,
        max_examples=options.max_examples,
        seed=options.seed,
        sampled=options.sampled,
        with_probabilities=options.label_probabilities,
        report=report,
    )
    answered = sorted(zip(contestants, asked, strict=True), key=lambda pair: pair[0].kind)
    boards = []
    for env_id, (prior, entries) in baselines.items():
        own = [(one, answers) for one, answers in answered if one.task.env == env_id]
        policies = [policy_entry(one, answers, prior, options.seed) for one, answers in own]
        boards.append(board(env_id, prior, [*entries, *policies], options.seed))
    return Leaderboard(options, tuple(boards), skipped, card, {})


def policy_entry(contestant: Contestant, asked: Asked, prior: np.ndarray, seed: int = 0) -> Entry:
    """A policy that has answered."""
    return entry(
        contestant.policy.name,
        contestant.kind,
        asked.greedy,
        contestant.task.env,
        prior,
        seed=seed,
        source=contestant.source,
        sampled=asked.sampled,
        notes=contestant.notes,
    )
