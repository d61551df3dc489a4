"""`scisci-gym eval RUN`: one run in three layers, which are its training metrics, its task, and public benchmarks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ...datasets.atomic_files import write_json_atomically
from ...envs.registry import spec
from ...envs.training.groups import renderer_of
from ...evaluation.ask import Task
from ...evaluation.embeddings import Encoder
from ...evaluation.evaluators import held_out_nll_builder
from ...evaluation.examination import Examination
from ...evaluation.leaderboard import Leaderboard, LeaderboardOptions
from ...evaluation.probes.consistency import consistency_report
from ...evaluation.probes.contamination import contamination_report
from ...evaluation.probes.flips import flip_report
from ...evaluation.probes.pass_rates import sampled_pass_rates, shares, write_pass_rates
from ...evaluation.public_benchmarks import public_benchmarks
from ...evaluation.records import plain
from ...evaluation.render.evaluation_page import write_page
from ..monitoring.recorded import describe_run
from .evaluate import Contestant, Report, evaluate_all, run_contestant


@dataclass(frozen=True)
class Layers:
    """What a run is asked besides its own task: benchmarks of the cookbook's registry, Inspect tasks (asked anew at
    every call), both with answers of at most `public_tokens` tokens, and probes.

    A probe is "contamination" (for which `cutoff` is the model's knowledge cutoff), "flips" or "consistency". It writes
    a file of its name into the run's folder. With `pass_rates` above 0 every example is answered so often at
    temperature 1, and the table is written to `pass_rates_SPLIT.csv`.
    """

    public: tuple[str, ...] = ()
    public_tokens: int = 2048
    inspect: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    cutoff: date | None = None
    pass_rates: int = 0


def evaluate_run(
    run: Path,
    layers: Layers,
    encoder: Encoder | None = None,
    report: Report = lambda _: None,
    *,
    dataset: str | None = None,
    engine: str | None = None,
    **shared: Any,
) -> Leaderboard:
    """Evaluate a run and write `eval_SPLIT.json` and `eval_SPLIT.html` into its folder, its record and the register.

    The checkpoint is the best one on validation papers, or the last one of a run without validation. Answers are stored
    below `eval/` in the run's folder: a second call asks only for what is missing.

    `encoder` and `report` are as in `evaluate_all`. `dataset` and `engine` are others than those of the training;
    `shared` are split, max_examples, seed and label_probabilities of `LeaderboardOptions`. Raises `FileNotFoundError`
    if the folder is not the folder of a run, or has no checkpoint, and `ValueError` if the dataset has no example of
    the run's environment, or a probe does not suit it.
    """
    contestant = run_contestant(run, dataset, engine)
    task = contestant.task
    options = LeaderboardOptions(
        task.dataset, run / "eval", envs=(task.env,), runs=(run,), sampled=True, engine=engine, **shared
    )
    result = evaluate_all(options, encoder, report, lambda each: _layers(run, each, layers, options, report))
    *baselines, policy = result.boards[0].entries
    assert policy.sampled is not None
    content = {
        "task": vars(task),
        "split": options.split,
        "checkpoint": contestant.policy.sampler_path,
        # The short form, for the experiment record and the register.
        "policy": {
            "name": policy.name,
            "greedy": policy.outcome.scores.to_json(),
            "sampled": policy.sampled.scores.to_json(),
        },
        "baselines": {each.name: each.outcome.scores.to_json() for each in baselines},
        **result.to_json(),
    }
    write_json_atomically(run / f"eval_{options.split}.json", plain(content))
    write_page(result, run / f"eval_{options.split}.html", content["made"])
    describe_run(run)
    return result


async def _layers(
    run: Path, contestant: Contestant, layers: Layers, options: LeaderboardOptions, report: Report
) -> dict[str, Any]:
    """Results of the layers besides the run's own task; probes write theirs into the run's folder."""
    task = contestant.task
    client = await contestant.policy.client(task)
    folder = contestant.answers_folder(options.out, options.split)
    report(f"{task.env}: held-out NLL")
    extras: dict[str, Any] = {"held_out_nll": await _held_out_nll(task, options, client, folder)}
    if layers.public:
        report(f"public benchmarks: {', '.join(layers.public)}")
        extras["public"] = await public_benchmarks(
            layers.public,
            client,
            renderer_of(task.renderer_name, task.model_name),
            folder / "public",
            max_tokens=layers.public_tokens,
            max_examples=options.max_examples,
        )
    if layers.inspect:
        from ...evaluation.inspect_runs import run_inspect, tasks_of

        report(f"Inspect: {', '.join(layers.inspect)}")
        extras["inspect"] = await run_inspect(
            tasks_of(layers.inspect, task.dataset, options.split, task.options, options.max_examples),
            client,
            model_name=task.model_name,
            renderer_name=task.renderer_name,
            folder=folder / "inspect",
            max_tokens=layers.public_tokens,
            limit=options.max_examples,
        )
    examined = Examination(
        task, client, folder / "probes", options.split, options.max_examples, options.seed, folder / "greedy"
    )
    if layers.pass_rates:
        report(f"{task.env}: {layers.pass_rates} attempts at every example")
        rows = await sampled_pass_rates(examined, layers.pass_rates)
        write_pass_rates(rows, pass_rates_file(run, options.split))
        extras["pass_rates"] = shares([row.pass_rate for row in rows])
    for probe in layers.probes:
        report(f"{task.env}: {probe}")
        write_json_atomically(run / f"{probe}.json", plain(await _probe(probe, examined, layers.cutoff)))
    return extras


def pass_rates_file(run: Path, split: str) -> Path:
    """Where the pass rates of a run on a split are written."""
    return run / f"pass_rates_{split}.csv"


async def _held_out_nll(task: Task, options: LeaderboardOptions, client: Any, folder: Path) -> Mapping[str, float]:
    path = folder / f"held_out_nll-{options.max_examples or 'all'}.json"
    if path.is_file():
        return json.loads(path.read_text())
    examples, split = options.max_examples, options.split
    evaluator = held_out_nll_builder(
        task.env, task.dataset, task.options, task.renderer_name, task.model_name, examples, split
    )
    values = await evaluator()(client)
    folder.mkdir(parents=True, exist_ok=True)
    write_json_atomically(path, values)
    return values


async def _probe(probe: str, examined: Examination, cutoff: date | None) -> dict[str, Any]:
    if probe == "contamination":
        return await contamination_report(examined, cutoff)
    if probe == "consistency":
        return await consistency_report(examined)
    if probe == "flips":
        games = ("disruption-adversarial-v0", "impact-adversarial-v0")
        if spec(examined.task.env).labels not in [spec(game).labels for game in games]:
            raise ValueError(f"the probe flips challenges answers about disruption, not those of {examined.task.env}")
        return await flip_report(examined)
    raise ValueError(f"probe must be contamination, flips or consistency, got {probe!r}")
