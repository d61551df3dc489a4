"""`scisci-gym demo`, `sweep`, `study` and `check --learnable`: several runs, and what they show together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...datasets.cli.labels import Scheme
from ...datasets.dataset_folder import set_aside
from ...datasets.errors import stop_on_bad_input
from ..kit.engines import Engine
from .train import Recipe

OwnModelEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="local, or the URL of a Tinker-compatible service; default: local, since the model is made on this "
        "machine.",
        show_default=False,
    ),
]
"""The option ``--engine`` of the commands that make the model that they train."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for data, model, runs and report.")] = Path("runs/demo"),
    works: Annotated[
        Path | None, typer.Option(help="Real works in OpenAlex snapshot layout instead of the synthetic corpus.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A language model instead of the tiny one: smollm2, OWNER/NAME of the hub, or the folder of a model."
        ),
    ] = None,
    labels: Annotated[
        Scheme | None,
        typer.Option(help="Label scheme; default: threshold for the synthetic corpus, quantile for real works."),
    ] = None,
    window: Annotated[int, typer.Option(help="Number of years after publication whose citations count.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of corpus, model, order and sampling.")] = 0,
    rl_steps: Annotated[int | None, typer.Option(help="Steps of RL (default: 60).")] = None,
    challenge: Annotated[
        bool, typer.Option(help="A second act: another tiny model learns to be challenged (synthetic corpus only).")
    ] = True,
    engine: OwnModelEngine = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over; the content of --out is kept as OUT.1, OUT.2, ...")
    ] = False,
) -> None:
    """Build data, train a tiny model by SFT and RL, evaluate it and write a report, in minutes on two cores."""
    from ..experiments.demo import Demo, DemoSettings
    from ..experiments.demo_report import print_summary, write_report

    console = Console(highlight=False)
    if fresh and (out / "demo.json").is_file():
        console.print(f"the former content of {out} is in {set_aside(out)} now")
    settings = DemoSettings(
        seed=seed,
        works=str(works) if works else None,
        model=model,
        labels=str(labels) if labels else None,
        window=window,
        rl_steps=rl_steps,
    )
    demonstration = Demo(out, settings, console, engine, challenge)
    result = stop_on_bad_input(demonstration.run)
    report = write_report(out, result)
    print_summary(result, report, out, console)


def sweep(
    context: typer.Context,
    recipe: Annotated[Recipe, typer.Option(help="Recipe to run.")] = Recipe.rl,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Run whose options hold where none are given; default: that of the demo, if any.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the table.")] = Path("runs/sweep"),
    engine: Engine = None,
) -> None:
    """Run a recipe over a grid of options: group_size=4,8,16 learning_rate=1e-3,2e-3 seed=0,1,2.

    Any option of the recipe can vary; alternatives of env_options are separated by semicolons. A sweep that is started
    again trains only the runs that have not finished. The table has tie metrics, mean reward, correct rate and
    throughput, and is written to sweep.json and sweep.md. With several seeds a row shows the mean and half the width of
    the 95 % t interval.
    """
    from ..experiments.sweep import Sweep, alternatives, base_options, sweep_table

    def act() -> None:
        console = Console(highlight=False)
        options = alternatives(context.args)
        base = base_options(like, str(recipe), console.print)
        for needed in ("dataset", "model_name"):
            if needed not in options and needed not in base:
                raise ValueError(f"a sweep needs {needed}=..., or an earlier run whose options hold: --like RUN")
        if engine is not None:
            base["engine"] = engine
        planned = Sweep(str(recipe), options, out, base)
        runs = planned.run(console)
        console.print()
        console.print(sweep_table(runs, planned.varied, console))
        console.print(f"\nwritten to {out / 'sweep.md'} and {out / 'sweep.json'}")

    stop_on_bad_input(act)


def study(
    context: typer.Context,
    dataset: Annotated[str, typer.Option(help="Dataset folder; default: the demo's.")] = "runs/demo/data",
    model: Annotated[
        str, typer.Option(help="Folder of a model, or a name the engine knows; default: the demo's.")
    ] = "runs/demo/model",
    env: Annotated[
        str, typer.Option(help="Environment, whose answers must be labels or their probabilities.")
    ] = "disruption-v0",
    env_options: Annotated[
        str | None,
        typer.Option(help="Options of the environment, such as prompt=short (default for models in a folder)."),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            help="Arms, of base,format,sft,rl,sft_rl,dpo (format: for a tiny model); those that they start from are "
            "added. Default: all."
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds; every arm is trained once for each of them.")] = "0,1,2",
    split: Annotated[
        str, typer.Option(help="Split to compare on: validation while options are chosen, test once at the end.")
    ] = "test",
    flip_examples: Annotated[
        int, typer.Option(help="Number of papers of the adversarial evaluation; 0 leaves it out.")
    ] = 300,
    max_examples: Annotated[
        int | None, typer.Option(help="Largest number of papers of the split; default: all.")
    ] = None,
    validation_examples: Annotated[
        int | None, typer.Option(help="Largest number of papers that checkpoints are chosen on; default: all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, study.json and report.html.")] = Path("runs/study"),
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Several studies from a TOML file, such as docs/study-plan.toml, each in a folder of --out; of the "
            "other options only --only, --seeds, --split, --out and --engine go with it. With --seeds those seeds of "
            "the plan are only trained, so that several processes can share the work.",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="With --plan: names of the studies to run, with commas; default: all.")
    ] = None,
    engine: Engine = None,
) -> None:
    """Compare the base model, SFT, RL, SFT then RL, and DPO on the same splits: does RL beat SFT?

    Options of an arm follow as ARM.option=value, such as rl.max_steps=60 sft.num_epochs=4. A study that is started
    again trains and asks only what is missing. The report has scores with intervals and paired tests, curves,
    calibration, ties, flips under challenge, cost in tokens, and a plain sentence on the question.
    """
    from ...datasets.store import load_card
    from ..experiments.plan import StudyPlan, arms_for, chosen_arms, read_plans, with_options
    from ..experiments.report import study_table
    from ..experiments.result import StudyResult, verdict
    from ..experiments.study import run_studies, run_study
    from ..kit.config import is_known_model

    def act_by_file(path: Path) -> None:
        beside = {"plan_file", "only", "seeds", "split", "out", "engine"}
        given = [f"--{name.replace('_', '-')}" for name in context.params if name not in beside and was_given(name)]
        if given or context.args:
            raise ValueError(f"{path} says that already: leave out {' '.join([*given, *context.args])}")
        plans = read_plans(path, split)
        names = only.split(",") if only else list(plans)
        if unknown := [name for name in names if name not in plans]:
            raise ValueError(f"--only {unknown[0]}: {path} has the studies {', '.join(plans)}")
        console = Console(highlight=False)
        trained = _seeds(seeds) if was_given("seeds") else None
        results = run_studies({name: plans[name] for name in names}, out, console, engine, trained)
        if trained is not None:
            return
        for name, result in results.items():
            show(console, f"\n[bold]{name}[/bold]", result)
        console.print(f"\nreport: {out / 'report.html'}")

    def show(console: Console, heading: str, result: StudyResult) -> None:
        console.print(heading)
        console.print(study_table(result))
        for sentence in verdict(result):
            console.print(f"- {sentence}", soft_wrap=True)

    def was_given(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    def act() -> None:
        if plan_file is not None:
            act_by_file(plan_file)
            return
        if only is not None:
            raise ValueError(f"--only {only} chooses studies of a plan file; give --plan as well")
        console = Console(highlight=False)
        synthetic = bool(load_card(dataset).get("ceiling"))
        chosen = with_options(arms_for(model, synthetic), context.args)
        plan = StudyPlan(
            dataset=dataset,
            model_name=model,
            arms=chosen_arms(chosen, arms.split(",")) if arms else chosen,
            env=env,
            env_options=env_options if env_options is not None else "" if is_known_model(model) else "prompt=short",
            seeds=_seeds(seeds),
            split=split,
            flip_examples=flip_examples,
            validation_examples=validation_examples,
            max_examples=max_examples,
        )
        result = run_study(plan, out, console, engine)
        show(console, "", result)
        console.print(f"\nreport: {out / 'report.html'}, numbers: {out / 'study.json'}")

    stop_on_bad_input(act)


def check(
    env_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The environment's id. Without it, all are checked.")
    ] = None,
    learnable: Annotated[
        bool, typer.Option("--learnable", help="Train on a synthetic corpus as well, and write a certificate.")
    ] = False,
    seeds: Annotated[
        str, typer.Option(help="With --learnable: whole numbers; the seeds of corpus, model and RL follow from each.")
    ] = "301,302",
    papers: Annotated[
        int | None,
        typer.Option(
            help="With --learnable: papers of each corpus. Default: 6000, and 12000 for disruption-selfplay-v0 and the "
            "hit-paper-forecast environments."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="With --learnable: folder for data, runs and certificates.")] = Path(
        "runs/learnable"
    ),
    engine: OwnModelEngine = None,
) -> None:
    """Check that an environment is fit to train on and, with --learnable, that RL learns it.

    With --learnable a tiny policy, which knows how the environment is answered and no label, learns it by RL on a
    synthetic corpus whose best reachable reward is known. At least 90 % of the gap between the start and that reward
    have to be closed (95 % for disruption-v0 and novelty-v0), for every seed. OUT/certificates/ID.json says what was
    found; the exit status is 1 if anything failed.
    """
    from ...envs.cli import check as check_untrained
    from ...envs.registry import spec, specs

    if not learnable:
        check_untrained(env_id)
        return
    if env_id is None:
        # In processes of their own: the SDK keeps asking for the engines of environments that are done.
        command = [sys.executable, "-m", "scisci_gym", "check", "--learnable"]
        command += ["--seeds", seeds, "--out", str(out)]
        command += [] if papers is None else ["--papers", str(papers)]
        command += [] if engine is None else ["--engine", engine]
        # An environment that fails does not keep the others from being checked.
        codes = [subprocess.run([*command, each.env_id], check=False).returncode for each in specs()]
        if any(codes):
            raise typer.Exit(1)
        return
    from ..experiments.learnable import certify, settings_for

    def act() -> None:
        console = Console(highlight=False)
        settings = settings_for(env_id, _seeds(seeds), papers)
        certificate = certify(spec(env_id).env_id, out, settings, console, engine)
        for found in certificate["checks"]:
            mark = {"pass": "[green]✓[/green]", "fail": "[red]✗[/red]"}.get(found["status"], "-")
            of = f" (seed {found['seed']})" if "seed" in found else ""
            observed = found["status"] if found["observed"] is None else f"{found['observed']:g}"
            console.print(f"  {mark} {found['id']}{of}: {observed}; required: {found['expected']}")
        for facts in certificate["seeds"]:
            if "end" in facts:
                reachable = f"best reachable {facts['best_without_quotes']:.3f}"
                if "closed_with_quotes" in facts:
                    reachable += f" without quotes, {facts['best']:.3f} with perfect ones"
                console.print(
                    f"  seed {facts['seed']}: reward {facts['start']:.3f} -> {facts['end']:.3f}, {reachable}  "
                    f"{facts['sparkline']}"
                )
        path = out / "certificates" / f"{env_id}.json"
        console.print(f"[bold]{env_id}: {certificate['verdict']}[/bold], {path}", soft_wrap=True)
        if certificate["verdict"] != "pass":
            raise typer.Exit(1)

    stop_on_bad_input(act)


def _seeds(text: str) -> tuple[int, ...]:
    """Different whole numbers of at least 0 with commas between; anything else is a `ValueError` with the remedy."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise ValueError(f"--seeds wants different whole numbers with commas between, such as 301,302; got {text!r}")
    return tuple(int(part) for part in parts)
