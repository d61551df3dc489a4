"""`scisci-gym eval RUN`: a run's best checkpoint in three layers: its training metrics, its task, public benchmarks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from ...datasets.atomic_files import write_json_atomically
from ...datasets.store import load_card
from ...envs.opponents.challengers import ScriptedChallenger
from ...envs.registry import spec
from ...envs.training.groups import renderer_of
from ...evaluation.evaluators import held_out_nll_builder
from ...evaluation.examination import Examination
from ...evaluation.leaderboard import Leaderboard, LeaderboardOptions, baseline_entries, board
from ...evaluation.learners import Encoder
from ...evaluation.probes.consistency import consistency_report
from ...evaluation.probes.contamination import contamination_report
from ...evaluation.probes.flips import flip_report
from ...evaluation.public_benchmarks import public_benchmarks
from ...evaluation.records import plain
from ...evaluation.render.evaluation_page import write_page
from ..kit.engines import open_engine
from ..monitoring.recorded import describe_run
from .contestants import Asked, Contestant, ask_contestant, policy_entry, run_contestant

PUBLIC_TOKENS = 2048


class Probe(StrEnum):
    """Further examinations of a policy; each writes a file of its name into the run's folder."""

    contamination = "contamination"
    flips = "flips"
    consistency = "consistency"


@dataclass(frozen=True)
class RunOptions:
    """How a run is evaluated.

    Parameters
    ----------
    split : "test" | "validation" | "train"
    dataset : str or None
        Another dataset than the one the run was trained on.
    engine : str or None
        Another engine than that of the training.
    seed : int
    max_examples : int or None
    label_probabilities : bool
        Ask for the policy's own probabilities of the labels, for its calibration.
    public : tuple of str
        Benchmarks of the cookbook's registry.
    public_tokens : int
        Longest answer there.
    inspect : tuple of str
        Inspect tasks, ours or public ones; answers are as long as in `public`. They are asked anew at every call.
    probes : tuple of Probe
    cutoff : date or None
        The model's knowledge cutoff, for the contamination probe.
    """

    split: str = "test"
    dataset: str | None = None
    engine: str | None = None
    seed: int = 0
    max_examples: int | None = None
    label_probabilities: bool = False
    public: tuple[str, ...] = ()
    public_tokens: int = PUBLIC_TOKENS
    inspect: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    cutoff: date | None = None


def evaluate_run(
    run: Path,
    options: RunOptions | None = None,
    encoder: Encoder | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Leaderboard:
    """Evaluate a run and write `eval_SPLIT.json` and `eval_SPLIT.html` into its folder, its record and the register.

    The checkpoint is the best one on validation papers, or the last one of a run without validation. Answers are kept
    below `eval/` in the run's folder: a second call asks only what is missing.

    Raises
    ------
    FileNotFoundError
        If the folder is not the folder of a run, or has no checkpoint.
    ValueError
        If the dataset has no example of the run's environment, or a probe does not suit it.
    """
    options = options or RunOptions()
    contestant = run_contestant(run, options.dataset, options.engine)
    task = contestant.task
    shared = LeaderboardOptions(
        dataset=task.dataset,
        out=run / "eval",
        envs=(task.env,),
        runs=(run,),
        split=options.split,
        max_examples=options.max_examples,
        seed=options.seed,
        label_probabilities=options.label_probabilities,
        sampled=True,
        engine=options.engine,
    )
    # Before the engine is opened: sessions that nobody closes complain when their engine is gone for long.
    prior, entries = baseline_entries(task.env, shared, encoder, report)
    with open_engine(contestant.engine, contestant.checkpoints, options.seed):
        asked, extras = asyncio.run(_layers(run, contestant, shared, options, report))
    policy = policy_entry(contestant, asked, prior, options.seed)
    made = board(task.env, prior, [*entries, policy], options.seed)
    result = Leaderboard(shared, (made,), {}, load_card(task.dataset), extras)
    assert policy.sampled is not None
    found = {
        "task": vars(task),
        "split": options.split,
        "checkpoint": contestant.policy.sampler_path,
        # The short form, for the experiment record and the register.
        "policy": {
            "name": policy.name,
            "greedy": policy.outcome.scores.to_json(),
            "sampled": policy.sampled.scores.to_json(),
        },
        "baselines": {one.name: one.outcome.scores.to_json() for one in entries},
        **result.to_json(),
    }
    write_json_atomically(run / f"eval_{options.split}.json", plain(found))
    write_page(result, run / f"eval_{options.split}.html", found["made"])
    describe_run(run)
    return result


async def _layers(
    run: Path,
    contestant: Contestant,
    shared: LeaderboardOptions,
    options: RunOptions,
    report: Callable[[str], None],
) -> tuple[Asked, dict[str, Any]]:
    """Answers of the run, and what the other layers found."""
    task = contestant.task
    client = await contestant.policy.client(task)
    keep = contestant.answers_folder(shared.out, options.split)
    report(f"{task.env}: held-out NLL")
    extras: dict[str, Any] = {"held_out_nll": await _held_out_nll(contestant, options, client, keep)}
    report(f"{task.env}: {contestant.policy.name}")
    asked = await ask_contestant(
        contestant,
        shared.out,
        options.split,
        max_examples=options.max_examples,
        sampled=True,
        with_probabilities=options.label_probabilities,
    )
    if options.public:
        report(f"public benchmarks: {', '.join(options.public)}")
        extras["public"] = await public_benchmarks(
            options.public,
            client,
            renderer_of(task.renderer_name, task.model_name),
            keep / "public",
            max_tokens=options.public_tokens,
            max_examples=options.max_examples,
        )
    if options.inspect:
        from ...evaluation.inspect_tasks import run_inspect, tasks_of

        report(f"Inspect: {', '.join(options.inspect)}")
        extras["inspect"] = await run_inspect(
            tasks_of(options.inspect, task.dataset, options.split, task.options, options.max_examples),
            client,
            model_name=task.model_name,
            renderer_name=task.renderer_name,
            folder=keep / "inspect",
            max_tokens=options.public_tokens,
            limit=options.max_examples,
        )
    examined = Examination(
        task, client, keep / "probes", options.split, options.max_examples, options.seed, keep / "greedy"
    )
    for probe in options.probes:
        report(f"{task.env}: {probe}")
        write_json_atomically(run / f"{probe}.json", plain(await _probe(probe, examined, options.cutoff)))
    return asked, extras


async def _held_out_nll(contestant: Contestant, options: RunOptions, client: Any, keep: Path) -> dict[str, float]:
    task, path = contestant.task, keep / f"held_out_nll-{options.max_examples or 'all'}.json"
    if path.is_file():
        return json.loads(path.read_text())
    build = held_out_nll_builder(
        task.env,
        task.dataset,
        task.options,
        task.renderer_name,
        task.model_name,
        options.max_examples,
        options.split,
    )
    found = await build()(client)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomically(path, found)
    return found


async def _probe(probe: Probe, examined: Examination, cutoff: date | None) -> dict[str, Any]:
    if probe is Probe.contamination:
        return await contamination_report(examined, cutoff)
    if probe is Probe.flips:
        labels = spec("disruption-adversarial-v0").labels
        if spec(examined.task.env).labels != labels:
            raise ValueError(f"the probe flips challenges answers about disruption, not those of {examined.task.env}")
        return await flip_report(examined, {"scripted": ScriptedChallenger()})
    return await consistency_report(examined)
