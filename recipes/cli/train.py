"""`scisci-gym train` and `scisci-gym engine init-model`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ...datasets.dataset_folder import refuse_foreign, refuse_overlap
from ...datasets.errors import BadInput, stop_on_bad_input
from ..kit.compat import MISSING, options_of
from ..kit.engines import Engine
from ..monitoring.summary import RunSummary, comparison_sentence


class Recipe(StrEnum):
    """Names of the recipes."""

    rl = "rl"
    sft = "sft"
    dpo = "dpo"
    distill = "distill"


def train(
    context: typer.Context,
    recipe: Annotated[
        Recipe,
        typer.Argument(
            help="rl: GRPO on an environment. sft: imitate its gold answers. dpo: prefer right answers to wrong ones. "
            "distill: learn from a larger model."
        ),
    ],
    engine: Engine = None,
    help_options: Annotated[
        bool, typer.Option("--help-options", help="List the options of the recipe, with their defaults, and exit.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Print all that the cookbook prints; otherwise it goes to LOG_PATH/console.log."
        ),
    ] = False,
) -> None:
    """Train a policy. Options of the recipe follow as name=value.

    The options dataset=, model_name= and log_path= must be given; `scisci-gym train rl --help-options` lists all. The
    same command continues a run that was stopped. `python -m scisci_gym.recipes.RECIPE name=value ...` is the same with
    --verbose.
    """
    from ..experiments.runner import RECIPES, Runner, config_of

    if help_options:
        _list_options(recipe, RECIPES[recipe].config)
        return

    def act() -> None:
        cfg = config_of(recipe, {**_options(context.args), **({"engine": engine} if engine else {})})
        if verbose:
            RECIPES[recipe].main(cfg)
            return
        RECIPES[recipe].checked(cfg)
        # The standard output is for the result.
        with Runner(Console(stderr=True), announce=False) as runner:
            runner.train(recipe, cfg, f"{recipe}, {cfg.env}")
        try:
            typer.echo(_result(cfg.log_path))
            sys.stdout.flush()
        except BrokenPipeError:  # The reader has left, and the run is finished all the same.
            _drop_output()

    try:
        stop_on_bad_input(act)
    except (KeyboardInterrupt, BrokenPipeError) as stop:
        # Ctrl-C also ends the program that reads the output, such as tee: nobody is left to be told.
        try:
            typer.echo("stopped; the same command goes on from the last checkpoint", err=True)
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
        raise typer.Exit(130) from stop


def _drop_output() -> None:
    """Let what is still buffered go nowhere: it would fail once more at exit, with another status."""
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Options that were given as name=value."""
    for argument in arguments:
        if "=" not in argument or argument.startswith("-"):
            raise BadInput(f"{argument!r} is no option of a recipe; they are given as name=value")
    return dict(argument.split("=", 1) for argument in arguments)


def _list_options(recipe: str, config: type) -> None:
    console = Console()
    console.print(f"Options of {recipe}, given as name=value:", highlight=False)
    for name, (default, doc) in options_of(config).items():
        shown = " (required)" if default is MISSING else "" if default in (None, "") else str(default)
        console.print(f"\n{name}={shown}", markup=False, highlight=False, style="bold")
        console.print(Padding(Text(doc), (0, 0, 0, 4)))


def _result(log_path: str) -> str:
    """What came out of a run, and what can be done with it."""
    run = RunSummary.of(log_path)
    state = run.state
    lines = [
        f"{log_path}: {state.status}, {state.step} of {state.total or '?'} updates",
        comparison_sentence(run),
        *(f"{alarm.level}: {alarm.name}: {alarm.message}" for alarm in state.alarms),
        f"next: scisci-gym eval {log_path}; scisci-gym report {log_path}",
    ]
    return "\n".join(lines)


def init_model(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write the model to, as Hugging Face files.")],
    corpus: Annotated[Path, typer.Option(help="Dataset that `scisci-gym build` wrote.")],
    works: Annotated[
        Path | None,
        typer.Option(help="Works that the dataset was built from; they have more unlabelled text than its papers."),
    ] = None,
    env: Annotated[str, typer.Option(help="Environment whose answers the model learns to give.")] = ("disruption-v0"),
    prompt: Annotated[
        str, typer.Option(help="Prompt of the environment that the model is pre-trained on: short or full.")
    ] = "short",
    steps: Annotated[int, typer.Option(help="Steps of a round of pre-training; there are up to three rounds.")] = 700,
    vocab_size: Annotated[
        int, typer.Option(help="Size of the vocabulary: 1024 suits the synthetic corpus, 3000 real text.")
    ] = 1024,
    hidden_size: Annotated[int, typer.Option(help="Size of the hidden states.")] = 128,
    layers: Annotated[int, typer.Option(help="Number of layers.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the weights, the order of documents and the answers.")] = 0,
) -> None:
    """Make a tiny Qwen3-type model with its own tokenizer and pre-train it on a dataset's unlabelled prompts.

    It learns how the environment is answered, from answers that are drawn at random. It reads only works that were
    published before the test period, and no label. A linear probe of its hidden states predicts validation labels after
    each round and decides whether another round is needed, together with the chances of the answers, which have to be
    nearly equal. The exit status is 1 if the probe never reached its target.
    """
    from ...datasets.openalex.snapshot import read_works
    from ..kit.config import TINY_REPORT
    from ..kit.tiny_model import MAX_ANSWER_GAP, init_tiny_model, works_of

    def act() -> None:
        refuse_overlap(out, [corpus, *([] if works is None else [works])])
        refuse_foreign(out, TINY_REPORT)
        table = works_of(corpus) if works is None else read_works(works)[0]
        report = init_tiny_model(
            out,
            table,
            corpus,
            options={"prompt": prompt},
            env_id=env,
            seed=seed,
            progress=True,
            steps=steps,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=3 * hidden_size,
            layers=layers,
        )
        score = report.probe_scores[-1]
        verdict = "reached" if report.reached else "missed"
        typer.echo(
            f"{out}: {report.parameters:,} parameters, {report.vocab_size:,} tokens, loss {report.losses[-1][1]:.2f}, "
            f"linear probe {score:.3f} ({verdict} {report.probe_target:.3f})"
        )
        if report.answer_gaps[-1] > MAX_ANSWER_GAP:
            typer.echo(
                f"the model does not give all answers of {env} the same chance (gap {report.answer_gaps[-1]:.2f} nats, "
                f"limit {MAX_ANSWER_GAP}): RL will seldom sample some of them; give more --steps",
                err=True,
            )
        if not report.reached:
            raise typer.Exit(1)

    stop_on_bad_input(act)
