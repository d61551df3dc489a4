"""`scisci-gym eval --all`: baselines, a base model and runs on every environment of a dataset.

Policies are asked in the engine that their weights live in.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...datasets.store import load_card, load_papers
from ...engine import run_seed
from ...envs.kit.single_turn import SingleTurnEnv
from ...envs.registry import spec, specs
from ...evaluation.ask import Policy, Task
from ...evaluation.embeddings import Encoder
from ...evaluation.leaderboard import Kind, Leaderboard, LeaderboardOptions, baseline_entries, board, entry, servable
from ..kit.checkpoints import chosen_checkpoint
from ..kit.config import MAX_TOKENS, parse_options, renderer_name_for, suited_env_options, suited_max_tokens
from ..kit.engines import engine_kind, open_engine
from ..monitoring.record import read_run_record, require_folders
from .assessment import PolicyAnswers, ask_policy

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
    notes = ()
    if training != current:
        notes = (
            f"{run.name} was trained on another dataset ({training[:12]}, this one is {current[:12]}): papers that it "
            "was trained on may be among these.",
        )
    policy = Policy(f"{run.name} (step {checkpoint.step})", checkpoint.sampler_path)
    return Contestant("run", task, policy, engine, config["checkpoints"], notes)


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
