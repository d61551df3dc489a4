"""`scisci-gym check --learnable`: does RL learn an environment, from a policy that knows its answers and no label?

The proof is made on a synthetic corpus, on which the reward of the best reader is known. What it found is written as a
certificate, whose shapes are those of environment quality reports elsewhere: a check has an id, a status, what was
observed and what was asked for (as in OpenEnv's RFC 008), and the difficulty comes with pass rates by task (as in NeMo
Gym's reports).
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import chz
import numpy as np
from rich.console import Console

from ...datasets.atomic_files import write_json_atomically
from ...datasets.build import BuildOptions
from ...datasets.cli.build import build_synthetic
from ...datasets.labels.eligibility import LabelRules
from ...datasets.store import load_card, load_papers
from ...datasets.synthetic.corpus import SyntheticCorpus
from ...engine import run_seed
from ...engine.tiny.init_model import InitOptions
from ...envs.integrations.papers import options_of
from ...envs.kit.base import SciSciEnv
from ...envs.registry import spec
from ...evaluation.ask import Answer, Policy, Task, policy_answers
from ...evaluation.probes.pass_rates import attempt_seed, pass_rates, shares
from ...evaluation.reachable import Reachable, reachable, subjects_of
from ..kit.checkpoints import best_checkpoint
from ..kit.engines import engine_kind
from ..kit.tiny_model import ensure_tiny_model
from ..monitoring.metrics import NO_SIGNAL, REWARD, VALIDATION_REWARD, read_metrics, sparkline, values
from ..monitoring.record import read_run_record
from ..rl import CLIConfig
from .runner import Runner, is_resumed

ENV_OPTIONS = {"prompt": "short"}
SCHEMA = "scisci-gym/certificate/1"
TARGET = 0.9
TARGETS = {"disruption-v0": 0.95, "novelty-v0": 0.95}
"""The share of the gap between the start and the best reader that RL has to close; `TARGET` for all others."""
BUDGET = 1200.0
"""CPU seconds: ten minutes on two cores."""


@dataclass(frozen=True)
class LearnableSettings:
    """Settings of the proof that an environment can be learned.

    From each of the `seeds` follow those of a corpus, a model and a run of RL; see `streams_of`. The wording of the
    corpus tells the truth with the probability `fidelity`, and a paper of it needs `min_citations` to carry a label.
    Pre-training has so many steps a round, at the rate given. The policy is scored on so many test `examples`, with
    `attempts` sampled answers to each. `rl` has options of RL where they are not the defaults for a tiny model.
    """

    seeds: tuple[int, ...] = (301, 302)
    papers: int = 6000
    fidelity: float = 0.9
    min_citations: int = LabelRules.min_citations
    pretraining_steps: int = 300
    pretraining_rate: float = InitOptions.learning_rate
    examples: int = 128
    attempts: int = 4
    rl: dict[str, Any] = field(default_factory=dict)


MORE_PAPERS: dict[str, Any] = {"papers": 12_000}
FOR_HITS: dict[str, Any] = {
    "papers": 16_000,
    "min_citations": 8,
    "fidelity": 0.95,
    "pretraining_steps": 900,
    "pretraining_rate": 2e-3,
}
SUITED = {
    "disruption-selfplay-v0": MORE_PAPERS,
    "hit-paper-forecast-v0": FOR_HITS,
    "hit-paper-forecast-v1": FOR_HITS,
}
"""Settings by environment, where they are not the defaults.

A fortieth of the papers validates: where rewards vary much from paper to paper, that of 6,000 is too few to choose a
checkpoint by. Of the papers with five citations an eighth are hits, of those with eight a quarter: with an eighth and a
wording that tells the truth nine times in ten, the proof failed on two seeds of three. An answer that cannot be parsed
costs several times what the best one earns, so the model has to know the format better. It gets there slowly: at 5e-3
the residual stream grew to several hundred at the tokens of the answer, beside which RL found no trace of the text."""


def settings_for(env_id: str, seeds: tuple[int, ...], papers: int | None = None) -> LearnableSettings:
    """The settings that suit an environment, with so many papers if a number is given."""
    given = {} if papers is None else {"papers": papers}
    return LearnableSettings(seeds, **{**SUITED.get(env_id, {}), **given})


def streams_of(seed: int) -> dict[str, int]:
    """Independent seeds of the corpus, the model and the run of RL, so that no two draw the same numbers.

    Examples
    --------
    >>> len(set(streams_of(301).values()))
    3
    """
    names = ("corpus", "model", "rl")
    children = np.random.SeedSequence(seed).spawn(len(names))
    return {name: int(child.generate_state(1)[0]) for name, child in zip(names, children, strict=True)}


def certify(
    env_id: str, out: Path, settings: LearnableSettings, console: Console, engine: str | None = None
) -> dict[str, Any]:
    """Put an environment to the proof and return its certificate, which `out`/certificates/ENV.json holds as well.

    Nothing is trained where a check that needs no training has failed. A proof that was stopped goes on; the seconds of
    its parts are added up. Raises `ValueError` if no synthetic text tells the labels of the environment, and `BadInput`
    if `out` holds a proof of the environment with other settings.
    """
    started, cpu = time.monotonic(), _cpu_seconds()
    env_class = spec(env_id)
    if not subjects_of(env_class):
        fields = ", ".join(env_class.score_fields)
        raise ValueError(f"{env_id} follows from {fields}, of which the text of the synthetic corpus tells nothing")
    proof = out / env_id
    spent = proof / "seconds.json"
    if not is_resumed(proof, "proof.json", asdict(settings), "delete the folder"):
        proof.mkdir(parents=True, exist_ok=True)
        write_json_atomically(proof / "proof.json", asdict(settings))
    earlier = json.loads(spent.read_text()) if spent.is_file() else {"wall": 0.0, "cpu": 0.0}
    checks: list[dict[str, Any]] = []
    seeds: list[dict[str, Any]] = []
    try:
        # One engine for all seeds; its CPU time counts when it is closed.
        with Runner(console, engine) as runner:
            for seed in settings.seeds:
                facts, found = _prove(env_class, seed, out, settings, runner)
                seeds.append(facts)
                checks += [{**check, "seed": seed} for check in found]
    finally:
        # The seconds of an engine elsewhere are not ours to count, and neither is a sum of which they are a part.
        counted = earlier["cpu"] is not None and engine_kind(engine) == "local"
        seconds = {
            "wall": round(earlier["wall"] + time.monotonic() - started, 1),
            "cpu": round(earlier["cpu"] + _cpu_seconds() - cpu, 1) if counted else None,
        }
        write_json_atomically(spent, seconds)
    checks.append(cost_check(seconds["cpu"]))
    return write_certificate(out, env_id, asdict(settings), seeds, checks, seconds)


def _prove(
    env_class: type[SciSciEnv], seed: int, out: Path, settings: LearnableSettings, runner: Runner
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was found with one seed, and the checks of it."""
    env_id, tells, streams = env_class.env_id, subjects_of(env_class), streams_of(seed)
    data = out / env_id / str(seed) / "data"
    if not (data / "card.json").is_file():
        corpus = SyntheticCorpus(
            papers=settings.papers, seed=streams["corpus"], fidelity=settings.fidelity, tells=tells
        )
        rules = LabelRules(min_citations=settings.min_citations)
        build_synthetic(corpus, data, BuildOptions(rules, seed=streams["corpus"]), progress=False)
    train = load_papers(data, "train")
    options = options_of(env_id, str(data), ENV_OPTIONS)
    limits = reachable(env_class, train, load_papers(data, "test"), options, tells)
    checks = untrained_checks(limits)
    facts = {
        "seed": seed,
        "streams": streams,
        "dataset": load_card(data)["content_hash"],
        "tells": list(tells),
        **asdict(limits),
    }
    if all(check["status"] == "pass" for check in checks):
        facts |= _learn(env_id, seed, data, settings, runner)
        checks += learned_checks(env_id, facts)
    return facts, checks


def _learn(env_id: str, seed: int, data: Path, settings: LearnableSettings, runner: Runner) -> dict[str, Any]:
    """Make the tiny policy beside the data, train it, and score where it started and where it ended."""
    folder, checkpoints = data.parent, data.parent.parent / "checkpoints"
    model = folder / "model"
    ensure_tiny_model(
        model,
        data,
        options=ENV_OPTIONS,
        env_id=env_id,
        seed=streams_of(seed)["model"],
        progress=runner.console.is_terminal,
        steps=settings.pretraining_steps,
        learning_rate=settings.pretraining_rate,
    )
    cfg = CLIConfig(
        env=env_id,
        dataset=str(data),
        model_name=str(model),
        log_path=str(folder / "rl"),
        checkpoints=str(checkpoints),
        seed=streams_of(seed)["rl"],
        **settings.rl,
    )
    runner.train("rl", cfg, f"{env_id}, seed {seed}")
    runner.open(checkpoints, cfg.model_name)
    with run_seed(cfg.seed):
        point, _ = best_checkpoint(cfg.log_path, VALIDATION_REWARD.key)
        task = Task(env_id, cfg.options(), str(data), cfg.model_name, cfg.renderer(), cfg.max_tokens)
        starts, greedy, sampled = asyncio.run(_ask(task, Policy("end", point.sampler_path), settings, cfg.seed))
    rows = read_metrics(cfg.log_path)
    curve = [round(value, 4) for _, value in values(rows, REWARD.key)]
    ties = [value for _, value in values(rows, NO_SIGNAL.key)]
    return {
        # The better one of its greedy and its sampled answers: what greedy decoding gains is not learned.
        "start": max(map(_mean, starts)),
        "end": _mean(greedy),
        "end_sampled": _mean([answer for attempt in sampled for answer in attempt]),
        "step": point.step,
        "curve": curve,
        "sparkline": sparkline(curve, 24),
        "groups_with_signal": {
            "first_steps": round(1 - sum(ties[:5]) / max(1, len(ties[:5])), 4),
            "all_steps": round(1 - sum(ties) / max(1, len(ties)), 4),
        },
        "pass_rates": {row.example_id: row.pass_rate for row in pass_rates(sampled)},
        "options": {name: value for name, value in chz.asdict(cfg).items() if name not in LEFT_OUT},
        "record": read_run_record(cfg.log_path),
    }


LEFT_OUT = {"dataset", "model_name", "log_path", "checkpoints", "wandb_name", "wandb_project", "question", "engine"}


async def _ask(
    task: Task, policy: Policy, settings: LearnableSettings, seed: int
) -> tuple[list[list[Answer]], list[Answer], list[list[Answer]]]:
    """Greedy and sampled answers of the base model, greedy ones of the policy, and as many sampled ones as there are
    attempts, each drawn with an `attempt_seed` of its own. Greedy answers are those to the whole test split.
    """
    sampling: dict[str, Any] = {"temperature": 1.0, "max_examples": settings.examples}
    start = Policy("start")
    starts = [await policy_answers(task, start), await policy_answers(task, start, **sampling)]
    greedy = await policy_answers(task, policy)
    sampled = []
    for attempt in range(settings.attempts):
        with run_seed(attempt_seed(seed, attempt)):
            sampled.append(await policy_answers(task, policy, **sampling))
    return starts, greedy, sampled


def _mean(answers: Sequence[Answer]) -> float:
    return round(sum(answer.reward for answer in answers) / len(answers), 6)


def _cpu_seconds() -> float:
    """CPU time of this process and of those that it has ended, such as engines."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def write_certificate(
    out: Path,
    env_id: str,
    settings: dict[str, Any],
    seeds: Sequence[dict[str, Any]],
    checks: list[dict[str, Any]],
    seconds: dict[str, float | None],
) -> dict[str, Any]:
    """Write `out`/certificates/ENV.json and return what it holds.

    `seeds` has what was found with each seed, and the record of its run of RL under ``record`` if it was trained;
    `checks` has those of all seeds. `seconds` are ``wall`` and ``cpu``, None where they were not ours to measure.
    """
    records = [facts["record"] for facts in seeds if "record" in facts]
    record = records[0] if records else {}
    certificate = {
        "schema": SCHEMA,
        "environment": env_id,
        "verdict": "fail" if any(check["status"] == "fail" for check in checks) else "pass",
        "checks": checks,
        "difficulty": _difficulty(seeds),
        "settings": settings,
        "seeds": [{name: fact for name, fact in facts.items() if name != "record"} for facts in seeds],
        "seconds": seconds,
        "versions": record.get("versions", {}),
        "revision": record.get("revision"),
    }
    path = out / "certificates" / f"{env_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomically(path, certificate)
    return certificate


def untrained_checks(limits: Reachable) -> list[dict[str, Any]]:
    """The checks that need no training: the oracle, the degenerate answers, and whether the text tells the labels."""
    floor, best = limits.reward_range
    worst = max(limits.degenerate.values())
    # How much evidence there is to quote depends on the paper, so only the rest is certain.
    certain, asked = best - limits.for_reasons, f"{best:g}, the most there is"
    if limits.for_reasons:
        asked = f"at least {certain:g}: {asked}, less {limits.for_reasons:g} for reasons"
    return [
        _check("semantic.oracle_max", limits.oracle > certain - 1e-6, limits.oracle, asked),
        _check("semantic.noop_floor", limits.no_op <= floor, limits.no_op, f"{floor:g}, the least there is"),
        _check("adversarial.degenerate_floor", worst <= floor, worst, f"{floor:g} for each text that is no answer"),
        _check("adversarial.length", limits.padded <= 1e-9, limits.padded, "nothing for filler before an answer"),
        _check(
            "learnable.headroom",
            limits.advantage >= 2,
            limits.advantage,
            "the best reader at least 2 standard errors above the best single answer",
        ),
    ]


def learned_checks(env_id: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The checks of what RL reached with one seed; the shares of the gap that it closed are added to `facts`."""
    target = TARGETS.get(env_id, TARGET)
    within_reach, best = facts["best_without_quotes"], facts["best"]
    facts["closed"] = closed = _share_closed(facts, within_reach)
    reader = "the best reader"
    if best > within_reach:
        reader += " without quotes"
        facts["closed_with_quotes"] = _share_closed(facts, best)
    above_chance = (facts["end"] - facts["chance"]) / (within_reach - facts["chance"])
    facts["closed_from_chance"] = round(above_chance, 4)
    signal = facts["groups_with_signal"]["first_steps"]
    return [
        _check("learnable.gap_closed", closed >= target, closed, f"at least {target:g} up to {reader}"),
        _check(
            "learnable.reads_the_paper",
            above_chance >= 0.5,
            above_chance,
            f"at least half the way from the best single answer to {reader}",
        ),
        _check("learnable.signal", signal >= 0.2, signal, "rewards differ in a fifth of the groups of the first steps"),
    ]


def _share_closed(facts: dict[str, Any], best: float) -> float:
    """The share of the gap between the start and `best` that RL closed; 0 where there is no gap."""
    gap = best - facts["start"]
    return round((facts["end"] - facts["start"]) / gap, 4) if gap > 0 else 0.0


def _check(check_id: str, holds: bool | None, observed: float | None, expected: str) -> dict[str, Any]:
    status = "not measured" if holds is None else "pass" if holds else "fail"
    observed = None if observed is None else round(float(observed), 4)
    return {"id": check_id, "status": status, "observed": observed, "expected": expected}


def cost_check(seconds: float | None) -> dict[str, Any]:
    """Whether the proof kept to its budget of CPU seconds; None is time that was not ours to measure."""
    expected, unknown = f"at most {BUDGET:g}", "; an engine that is not local was not measured"
    if seconds is None:
        return _check("cost.cpu_seconds", None, None, expected + unknown)
    return _check("cost.cpu_seconds", seconds <= BUDGET, seconds, expected)


def _difficulty(seeds: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Share of the tasks that the policy never, sometimes and always passes; empty without training."""
    rates = [rate for facts in seeds for rate in facts.get("pass_rates", {}).values()]
    if not rates:
        return {}
    found = shares(rates)
    named = {"never": "never right", "sometimes": "sometimes", "always": "always right"}
    return {"tasks": len(rates), **{name: round(found[share], 4) for name, share in named.items()}}
