"""`scisci-gym eval`: one run in three layers, or a leaderboard over all environments of a dataset."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ...datasets.atomic_files import write_text_atomically
from ...datasets.errors import stop_on_bad_input
from ..kit.engines import ENGINE_HELP

if TYPE_CHECKING:
    from ...evaluation.leaderboard import Leaderboard

# Options of one of the two forms of the command.
one = partial(typer.Option, rich_help_panel="One run")
every = partial(typer.Option, rich_help_panel="Leaderboard (--all)")


class Probe(StrEnum):
    """Further examinations of a run."""

    contamination = "contamination"
    flips = "flips"
    consistency = "consistency"


def evaluate(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="Folder of a training run (its log_path).", show_default=False)
    ] = None,
    all_envs: Annotated[
        bool, typer.Option("--all", help="A leaderboard: baselines, --model and --run on every environment.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="Folder that `scisci-gym build` wrote; default for RUN: the one of its training.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to score on: test, validation or train.")] = "test",
    max_examples: Annotated[
        int | None, typer.Option(min=1, help="Largest number of examples of each environment, spread over time.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling, of random baselines, and of the bootstrap.")] = 0,
    label_probabilities: Annotated[
        bool,
        typer.Option("--label-probabilities", help="Also measure calibration, by the policies' label probabilities."),
    ] = False,
    embeddings: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Also a baseline: this model's sentence embeddings with gradient boosting."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            "--public-tokens",
            help="Largest number of tokens in an answer to --public and --inspect (default: 2048), or of --model "
            "(default: 1024, or what a tiny model needs).",
        ),
    ] = None,
    engine: Annotated[str | None, typer.Option(help=ENGINE_HELP)] = None,
    public: Annotated[str, one(help="Public benchmarks of the cookbook, such as gsm8k,mmlu_pro.")] = "",
    inspect: Annotated[
        str, one(metavar="TASKS", help="Inspect tasks, such as inspect_evals/gpqa_diamond,scisci_gym/novelty.")
    ] = "",
    probe: Annotated[list[Probe] | None, one(help="Also examine the policy in this way; may be repeated.")] = None,
    cutoff: Annotated[
        str | None,
        one(
            metavar="DATE",
            help="The model's knowledge cutoff, for --probe contamination: YYYY (to its end), YYYY-MM or YYYY-MM-DD.",
        ),
    ] = None,
    pass_rates: Annotated[
        int,
        one(
            metavar="N",
            min=0,
            help="Also answer every example N times at temperature 1, and write its share of right answers and its "
            "rewards to RUN/pass_rates_SPLIT.csv; 0 leaves it out.",
        ),
    ] = 0,
    env: Annotated[list[str] | None, every(help="Environment to score, instead of all; may be repeated.")] = None,
    runs: Annotated[list[Path] | None, every("--run", help="A training run to include; may be repeated.")] = None,
    model: Annotated[str | None, every(help="Base model to ask zero-shot: a folder or a name.")] = None,
    renderer: Annotated[str | None, every(help="Renderer of --model.")] = None,
    env_options: Annotated[
        str | None,
        every(help="Options of the environments for --model, as in prompt=short; a tiny model has its own default."),
    ] = None,
    out: Annotated[Path, every(help="Folder for the leaderboard and the answers.")] = Path("runs/eval"),
) -> None:
    """Score a run's best checkpoint on papers it has not seen, or everything on all environments with --all.

    `eval RUN` measures the held-out NLL, the run's own environment with its baselines, and public benchmarks. `eval
    --all --dataset DIR` writes a leaderboard of baselines, a base model (--model) and runs (--run). Answers are kept: a
    second call asks only for what is missing.
    """
    console = Console(highlight=False)

    def act() -> None:
        from ...evaluation.leaderboard import LeaderboardOptions
        from ...evaluation.learned_baselines import sentence_encoder
        from ...evaluation.probes.contamination import cutoff_date
        from ..experiments.evaluate import Layers, evaluate_all, evaluate_run, pass_rates_file
        from ..kit.compat import ignore_deprecated_calls
        from ..kit.preflight import troubles_in_one_line

        ignore_deprecated_calls()

        only_all = {"--env": env, "--run": runs, "--model": model, "--renderer": renderer, "--env-options": env_options}
        only_one = {
            "--public": public,
            "--inspect": inspect,
            "--probe": probe,
            "--cutoff": cutoff,
            "--pass-rates": pass_rates,
        }
        if all_envs == (run is not None):
            raise ValueError("give either the folder of a run, or --all --dataset DIR for a leaderboard")
        wrong = [name for name, given in (only_one if all_envs else only_all).items() if given]
        if wrong:
            raise ValueError(f"{wrong[0]} goes with {'a single run' if all_envs else '--all'} only")
        shared: dict[str, Any] = {
            "split": split,
            "engine": engine,
            "seed": seed,
            "max_examples": max_examples,
            "label_probabilities": label_probabilities,
        }
        encoder = sentence_encoder(embeddings) if embeddings else None
        if run is not None:
            day = cutoff_date(cutoff) if cutoff else None
            tokens = Layers.public_tokens if max_tokens is None else max_tokens
            layers = Layers(_names(public), tokens, _names(inspect), tuple(probe or ()), day, pass_rates)
            with troubles_in_one_line(run), console.status("reading the dataset") as status:
                result = evaluate_run(run, layers, encoder, status.update, dataset=dataset, **shared)
            probed = [run / f"{name}.json" for name in layers.probes]
            written = [run / f"eval_{split}.json", run / f"eval_{split}.html", *probed]
            written += [pass_rates_file(run, split)] if pass_rates else []
            _show(console, result, written, probed)
            return
        if dataset is None:
            raise ValueError("--all needs --dataset DIR, a folder that `scisci-gym build` wrote")
        options = LeaderboardOptions(
            dataset=dataset,
            out=out,
            envs=tuple(env or ()),
            runs=tuple(runs or ()),
            model=model,
            embeddings=embeddings,
            env_options=env_options,
            renderer_name=renderer,
            max_tokens=max_tokens,
            **shared,
        )
        with troubles_in_one_line(out), console.status("reading the dataset") as status:
            result = evaluate_all(options, encoder, status.update)
        _show(console, result, _write_leaderboard(result, out))

    stop_on_bad_input(act)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _show(console: Console, result: Leaderboard, paths: list[Path], probed: Sequence[Path] = ()) -> None:
    from ...evaluation.render.tables import leaderboard_tables, probe_tables

    console.print(leaderboard_tables(result))
    for name, layer in result.extras.items():
        console.print(f"- {name.replace('_', ' ')}: {_brief(layer)}", soft_wrap=True, markup=False)
    for path in probed:
        console.print("", *probe_tables(path.stem, json.loads(path.read_text())), sep="\n", soft_wrap=True)
    console.print("\nwritten to " + ", ".join(map(str, paths)), soft_wrap=True, markup=False)


def _brief(layer: dict) -> str:
    """A layer in one line: Inspect tasks, public benchmarks, or named values."""
    if "tasks" in layer:
        rows = ((task["task"], next(iter(task["metrics"].items())), task["samples"]) for task in layer["tasks"])
        return "; ".join(f"{task} {name} {value:.3f} (n = {n:,})" for task, (name, value), n in rows)
    if "benchmarks" in layer:
        return "; ".join(
            f"{name} not run: {result['problem']}"
            if result["problem"]
            else f"{name} {result['score']:.3f} (n = {result['n']:,})"
            for name, result in layer["benchmarks"].items()
        )
    return ", ".join(f"{name.rpartition('/')[2]} {value:.3f}" for name, value in layer.items())


def _write_leaderboard(result: Leaderboard, out: Path) -> list[Path]:
    """Write the leaderboard in every form, and return the files."""
    from ...evaluation.leaderboard import RESULT, write_results
    from ...evaluation.render.evaluation_page import write_page
    from ...evaluation.render.pictures import write_plot
    from ...evaluation.render.tables import leaderboard_markdown

    out.mkdir(parents=True, exist_ok=True)
    made = write_results(result, out / RESULT)["made"]
    text = out / "leaderboard.md"
    write_text_atomically(text, leaderboard_markdown(result, shlex.join(made["command"])))
    plots = write_plot(result.boards, out / "leaderboard")
    return [out / RESULT, text, *plots, write_page(result, out / "evaluation.html", made)]
