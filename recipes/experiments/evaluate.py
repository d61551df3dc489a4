"""`scisci-gym eval`: a run in three layers, or baselines, a base model and runs on every environment of a dataset.

The layers of a run are its training metrics, its task, and public benchmarks. Policies are asked in the engine that
their weights live in.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from ...datasets.atomic_files import write_json_atomically
from ...datasets.store import load_card, load_papers
from ...engine import run_seed
from ...envs.kit.single_turn import SingleTurnEnv
from ...envs.registry import spec, specs
from ...envs.training.groups import renderer_of
from ...evaluation.ask import Policy, Task
from ...evaluation.embeddings import Encoder
from ...evaluation.evaluators import held_out_nll_builder
from ...evaluation.examination import Examination
from ...evaluation.leaderboard import Kind, Leaderboard, LeaderboardOptions, baseline_entries, board, entry, servable
from ...evaluation.probes.consistency import consistency_report
from ...evaluation.probes.contamination import contamination_report
from ...evaluation.probes.flips import challenging_env, flip_report
from ...evaluation.probes.pass_rates import sampled_pass_rates, shares, write_pass_rates
from ...evaluation.public_benchmarks import public_benchmarks
from ...evaluation.records import plain
from ..kit.checkpoints import chosen_checkpoint
from ..kit.config import MAX_TOKENS, parse_options, renderer_name_for, suited_env_options, suited_max_tokens
from ..kit.engines import engine_kind, open_engine
from ..monitoring.record import read_run_record, require_folders
from ..monitoring.recorded import describe_run
from .assessment import PolicyAnswers, ask_policy, client_of_seed

Report = Callable[[str], None]


@dataclass(frozen=True)
class Contestant:
    """A policy, what it is asked, and on which engine (`engine` and `checkpoints` as in `open_engine`).

    `notes` are what a reader of its scores has to know.
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
        """Folder of its answers: another checkpoint, dataset or option is another folder."""
        # The folder of a dataset may move; its content decides.
        key = {name: value for name, value in self.source.items() if name != "dataset"}
        key |= {"split": split, "content_hash": load_card(self.task.dataset)["content_hash"]}
        text = json.dumps(key, sort_keys=True, default=repr)
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        slug = re.sub(r"[^a-z0-9]+", "-", self.policy.name.lower()).strip("-")
        return out / "answers" / self.task.env / f"{slug[:40]}-{digest}"

    async def answers(self, options: LeaderboardOptions) -> PolicyAnswers:
        """Its answers; its engine must be open."""
        return await ask_policy(
            self.task,
            self.policy,
            options.split,
            self.answers_folder(options.out, options.split),
            max_examples=options.max_examples,
            sampled=options.sampled,
            with_probabilities=options.label_probabilities and issubclass(spec(self.task.env), SingleTurnEnv),
            seed=options.seed,
        )


def run_contestant(run: Path, dataset: str | None = None, engine: str | None = None) -> Contestant:
    """The best checkpoint of a run on validation papers (or its last), on the environment it was trained on.

    Raises `FileNotFoundError` if the folder is not the folder of a run, or has no checkpoint.
    """
    record = read_run_record(run)
    config = record["config"]
    engine = engine_kind(engine or config["engine"], config["model_name"])
    # The folder of weights is needed where the engine is this machine's own.
    local = ["checkpoints"] if engine == "local" else []
    require_folders(run, ["model_name", *([] if dataset else ["dataset"]), *local])
    task = Task(
        env=config["env"],
        options=parse_options(config["env"], config["env_options"]),
        dataset=dataset or config["dataset"],
        model_name=config["model_name"],
        renderer_name=renderer_name_for(config["model_name"], config["renderer_name"]),
        max_tokens=config.get("max_tokens", MAX_TOKENS),
    )
    checkpoint = chosen_checkpoint(run)
    training, current = record["dataset"]["content_hash"], load_card(task.dataset)["content_hash"]
    another = (
        f"{run.name} was trained on another dataset ({training[:12]}, this one is {current[:12]}): papers that it was "
        "trained on may be among these."
    )
    policy = Policy(f"{run.name} (step {checkpoint.step})", checkpoint.sampler_path)
    return Contestant("run", task, policy, engine, config["checkpoints"], () if training == current else (another,))


def _base_model(options: LeaderboardOptions, env_id: str) -> Contestant:
    """A model without training: the zero-shot baseline."""
    assert options.model is not None
    renderer = renderer_name_for(options.model, options.renderer_name)
    env_options = parse_options(env_id, suited_env_options(options.model, env_id, options.env_options))
    max_tokens = suited_max_tokens(options.model, env_id, options.max_tokens)
    task = Task(env_id, env_options, options.dataset, options.model, renderer, max_tokens)
    policy = Policy(f"{Path(options.model).name}, zero-shot")
    engine = engine_kind(options.engine, options.model)
    return Contestant("base model", task, policy, engine, str(options.out / "engine"))


def evaluate_all(
    options: LeaderboardOptions,
    encoder: Encoder | None = None,
    report: Report = lambda _: None,
    examine: Callable[[Contestant], Coroutine[Any, Any, dict[str, Any]]] | None = None,
) -> Leaderboard:
    """Evaluate baselines and policies on every environment of `options`.

    `encoder` is for the embeddings baseline, and `report` is told what is being done. `examine` is called with every
    policy that has answered, while its engine is open; it returns further results, by name.

    Raises `FileNotFoundError` if the dataset, the split or a run does not exist, and `ValueError` if an environment
    does not exist, the dataset cannot serve one that was named, or a run was trained on an environment that was not.
    """
    card = load_card(options.dataset)
    load_papers(options.dataset, options.split)
    env_ids = [spec(env_id).env_id for env_id in options.envs] or [env_class.env_id for env_class in specs()]
    runs = [run_contestant(run, options.dataset, options.engine) for run in options.runs]
    for contestant in runs:
        if contestant.task.env not in env_ids:
            raise ValueError(
                f"{contestant.policy.name} was trained on {contestant.task.env}, which is not among --env "
                f"{', '.join(env_ids)}"
            )
    served, skipped = servable(options, env_ids)
    contestants = [_base_model(options, env_id) for env_id in served] if options.model is not None else []
    contestants += [contestant for contestant in runs if contestant.task.env in served]
    # Before any engine is opened: sessions that nobody closes complain when their engine is gone for long.
    baselines = {env_id: baseline_entries(env_id, options, encoder, report) for env_id in served}
    answers: dict[int, PolicyAnswers] = {}
    extras: dict[str, Any] = {}
    for engine, checkpoints in dict.fromkeys((each.engine, each.checkpoints) for each in contestants):
        # The seed goes with the clients too: an engine that runs already has a seed of its own.
        with open_engine(engine, checkpoints, options.seed), run_seed(options.seed):
            for index, contestant in enumerate(contestants):
                if (contestant.engine, contestant.checkpoints) == (engine, checkpoints):
                    report(f"{contestant.task.env}: {contestant.policy.name}")
                    answers[index] = asyncio.run(contestant.answers(options))
                    if examine is not None:
                        extras |= asyncio.run(examine(contestant))
    boards = []
    for env_id, (prior, entries) in baselines.items():
        policies = [
            entry(
                each.policy.name,
                each.kind,
                answers[index].greedy,
                env_id,
                prior,
                seed=options.seed,
                source=each.source,
                sampled=answers[index].sampled,
                notes=each.notes,
            )
            for index, each in enumerate(contestants)
            if each.task.env == env_id
        ]
        boards.append(board(env_id, prior, [*entries, *policies], options.seed))
    return Leaderboard(options, tuple(boards), skipped, card, extras)


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
    # It loads matplotlib, which `play` and the leaderboard do without.
    from ...evaluation.render.evaluation_page import write_page

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
        client_of = partial(client_of_seed, contestant.policy, task)
        rows = await sampled_pass_rates(examined, layers.pass_rates, client_of)
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
        if challenging_env(spec(examined.task.env)) is None:
            raise ValueError(f"the probe flips challenges answers about disruption, not those of {examined.task.env}")
        return await flip_report(examined)
    raise ValueError(f"probe must be contamination, flips or consistency, got {probe!r}")
