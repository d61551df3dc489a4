"""`scisci-gym study`: train all arms, ask all of them the same questions, and compare. Resumable at every point.

With `--plan` it is several studies, one after the other, and one page about all of them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chz
from rich.console import Console

from ...datasets.atomic_files import write_json_atomically
from ...datasets.errors import BadInput
from ...datasets.store import load_papers
from ...envs.registry import spec
from ...evaluation.baselines import examples_of, require_baseline, simple_baselines
from .. import dpo
from ..kit.config import parse_options
from ..monitoring.record import read_run_record
from ..monitoring.recorded import read_register
from ..reporting.experiment_page import Section, write_experiment_page
from .assessment import assess_arms
from .plan import StudyPlan
from .report import QUESTION, comparison_table, score_table, scores_picture, write_study_report
from .result import StudyResult, findings, study_result
from .runner import Runner, is_finished, is_resumed, require_same_data, steps_of

PLAN = "plan.json"


def run_studies(
    plans: Mapping[str, StudyPlan],
    out: Path,
    console: Console,
    engine: str | None = None,
    seeds: Sequence[int] | None = None,
) -> dict[str, StudyResult]:
    """Run studies in folders of their names below `out`, or continue them; `report.html` there is about all of them.

    With `seeds`, only these are trained, and there are no results; see `train_seeds`. The page is written anew after
    each study. Raises `BadInput`, which names the study, before anything is started if the dataset of one lacks its
    split or options do not fit, and otherwise what `run_study` raises.
    """
    for name, plan in plans.items():
        try:
            _check(plan, out / name)
        except (FileNotFoundError, ValueError) as error:
            raise BadInput(f"study {name!r}: {error}") from error
    results: dict[str, StudyResult] = {}
    for name, plan in plans.items():
        console.print(f"[bold]{name}[/bold]")
        if seeds is not None:
            train_seeds(plan, out / name, seeds, console, engine)
        else:
            results[name] = run_study(plan, out / name, console, engine)
            _write_studies_report(results, out)
    return results


def train_seeds(plan: StudyPlan, out: Path, seeds: Sequence[int], console: Console, engine: str | None = None) -> None:
    """Train the arms of some of a study's seeds, which several processes can share, and ask no question.

    Raises what `run_study` raises, and `ValueError` if the plan does not have a seed.
    """
    if foreign := [seed for seed in seeds if seed not in plan.seeds]:
        raise ValueError(f"the study has no seed {foreign[0]}; its seeds are {', '.join(map(str, plan.seeds))}")
    _begin(plan, out, console)
    with Runner(console, engine) as runner:
        train_arms(plan, out, runner, seeds)


def run_study(plan: StudyPlan, out: Path, console: Console, engine: str | None = None) -> StudyResult:
    """Run a study in `out`, or continue the one in it.

    Raises `BadInput` if `out` holds a study with another plan, or the dataset has another content than when it began,
    `ValueError` if an arm's options do not fit its recipe or arms cannot be compared on the environment, and
    `FileNotFoundError` if the dataset lacks the split; nothing has been started then.
    """
    _begin(plan, out, console)
    with Runner(console, engine) as runner:
        train_arms(plan, out, runner, plan.seeds)
        runner.open(out / "checkpoints", plan.model_name)
        assessments = asyncio.run(assess_arms(plan, out, console, plan.probabilities, plan.sampled))
    with console.status("baselines"):
        options = parse_options(plan.env, plan.env_options)
        asked = (plan.split, plan.env, options, plan.max_examples, plan.baselines, plan.train_papers)
        # Where the seed draws the training papers, it draws those of the baselines as well.
        seeds = plan.seeds if plan.train_papers is not None else plan.seeds[:1]
        by_seed = [simple_baselines(plan.dataset, seed, *asked) for seed in seeds]
        baselines = {name: [answers[name] for answers in by_seed] for name in plan.baselines}
        prior = examples_of(plan.env, plan.dataset, "train", options).prior()
    result = study_result(plan, out, assessments, baselines, prior)
    write_json_atomically(out / "study.json", result.to_json())
    write_study_report(result, assessments, out)
    return result


def _check(plan: StudyPlan, out: Path) -> str:
    """The content hash of the dataset, which the study in `out` has to have begun with.

    Raises what `run_study` raises about the folder, the dataset, the environment and the options of the arms.
    """
    env_class = spec(plan.env)
    if env_class.asks_for == "number":
        raise ValueError(f"{plan.env} asks for a number, and a study compares labels; choose another environment")
    for name in plan.baselines:
        require_baseline(env_class, name)
    for split in (plan.split, "train"):
        if not env_class.examples(load_papers(plan.dataset, split)):
            raise ValueError(f"no paper of {plan.dataset} ({split}) has the label that {plan.env} grades against")
    for arm in plan.trained:
        cfg = plan.config(out, arm, plan.seeds[0])
        if isinstance(cfg, dpo.CLIConfig):
            try:
                dpo.require_pairs(cfg)
            except ValueError as error:
                raise ValueError(f"arm {arm.name}: {error}; or leave the arm out") from error
    later = json.loads(json.dumps(plan.later()))
    is_resumed(out, PLAN, plan.to_json(), "delete the folder", later=later)
    runs = [plan.folder(out, arm, seed) for arm in plan.trained for seed in plan.seeds]
    return require_same_data(out, plan.dataset, "delete the study's folder", PLAN, runs)


def _begin(plan: StudyPlan, out: Path, console: Console) -> None:
    content_hash = _check(plan, out)
    out.mkdir(parents=True, exist_ok=True)
    write_json_atomically(out / PLAN, {**plan.to_json(), "content_hash": content_hash})
    _tell_what_is_left(plan, out, console)


def train_arms(plan: StudyPlan, out: Path, runner: Runner, seeds: Sequence[int]) -> None:
    """Train what is not trained yet: seed by seed, and within a seed in the order of the arms."""
    for seed in seeds:
        for arm in plan.trained:
            assert arm.recipe is not None
            runner.train(arm.recipe, plan.config(out, arm, seed), f"{arm.title}, seed {seed}")
            _tell_what_is_left(plan, out, runner.console)


def _tell_what_is_left(plan: StudyPlan, out: Path, console: Console) -> None:
    left = training_left(plan, out)
    if left.runs:
        runs = f"{left.runs} run{'s' if left.runs > 1 else ''}"
        console.print(f"[dim]to train: {runs}, {left.updates:,} updates; {left.time}[/dim]", soft_wrap=True)


@dataclass(frozen=True)
class TrainingLeft:
    """What is left to train: runs, updates, and the seconds that this takes.

    `seconds` counts the recipes of which there are earlier runs; `unknown` names the others, and `sources` those runs.
    """

    runs: int
    updates: int
    seconds: float
    unknown: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def time(self) -> str:
        """The time in words."""
        if not self.sources:
            return "no earlier run of this model tells how long that takes; the time left is shown as soon as one does"
        about = f"{self.seconds / 3600:.1f} h" if self.seconds > 5400 else f"{max(1, round(self.seconds / 60))} min"
        without = f" without {', '.join(self.unknown)}, of which there is no run yet" if self.unknown else ""
        return f"about {about}{without}"


def training_left(plan: StudyPlan, out: Path) -> TrainingLeft:
    """What a study in `out` has still to train.

    A run takes as long for each sample (a rollout of RL, a row of SFT or DPO) as the runs of its recipe on the same
    model and environment took; those that the registers beside the model and the study name, and those of the study
    itself. Validation is in that time, the comparison at the end of the study is not.
    """
    runs = [(str(arm.recipe), plan.config(out, arm, seed)) for arm in plan.trained for seed in plan.seeds]
    left = [(recipe, cfg) for recipe, cfg in runs if not is_finished(Path(cfg.log_path), cfg)]
    folders = {out.absolute().parent}
    for _, cfg in runs:
        folders |= {Path(cfg.log_path).parent, Path(cfg.model_name).parent if Path(cfg.model_name).is_dir() else out}
    alike, recipes = {(cfg.model_name, cfg.env) for _, cfg in left}, {recipe for recipe, _ in runs}
    seconds, samples, sources = Counter[str](), Counter[str](), []
    for path, updates in (run for folder in sorted(folders) for run in _registered_runs(folder)):
        record = read_run_record(path)
        recipe, config = record["recipe"], record["config"]
        same = (config.get("model_name"), config.get("env")) in alike
        if same and updates and record["seconds"] and recipe in recipes:
            seconds[recipe] += record["seconds"]
            samples[recipe] += updates * _samples_per_update(config)
            sources.append(str(path))
    return TrainingLeft(
        runs=len(left),
        updates=sum(steps_of(cfg) for _, cfg in left),
        seconds=sum(
            seconds[recipe] / samples[recipe] * steps_of(cfg) * _samples_per_update(chz.asdict(cfg))
            for recipe, cfg in left
            if recipe in seconds
        ),
        unknown=tuple(dict.fromkeys(recipe for recipe, _ in left if recipe not in seconds)),
        sources=tuple(sources),
    )


def _registered_runs(folder: Path) -> Iterator[tuple[Path, int]]:
    """Folder and updates of the runs in a register that are still there."""
    for name, entry in read_register(folder).items():
        if (folder / name / "run.json").is_file():
            yield folder / name, int(entry.get("step") or 0)


def _samples_per_update(config: Mapping[str, Any]) -> int:
    if config.get("groups_per_batch"):
        return int(config["groups_per_batch"]) * int(config["group_size"])
    return int(config.get("batch_size") or 1)


def _write_studies_report(results: Mapping[str, StudyResult], out: Path) -> None:
    """Write the page about several studies into `out`."""
    sections, answers = [], []
    for name, result in results.items():
        plan = result.plan
        # A pilot compares nothing, so it has no answer.
        found = findings(result)
        answers += [f"{name}: {answer}" for answer in found[:1]]
        papers = "all" if plan.train_papers is None else f"{plan.train_papers:,}"
        note = (
            f"{plan.env} on {plan.dataset}, model {plan.model_name}, {papers} training papers, {result.papers:,} "
            f"{plan.split} papers, seeds {', '.join(map(str, plan.seeds))}. {' '.join(found[1:])}"
        )
        tables = [score_table(result), comparison_table(result, "Paired comparisons")]
        link = ("Curves, costs and cases", f"{name}/report.html")
        sections.append(Section(name, tables, note, [scores_picture(result)], link=link))
    write_experiment_page(
        out / "report.html",
        "scisci-gym study",
        QUESTION,
        f"Studies of one plan: {', '.join(results)}. Checkpoints were chosen on validation papers; the answer to each "
        "study's question comes first.",
        answers,
        sections,
        "Scores are means over seeds with 95 % intervals over seeds and papers, differences are paired by seed.",
    )
