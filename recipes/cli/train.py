"""`scisci-gym train` and `scisci-gym engine init-model`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import chz
import typer

from ...datasets.dataset_folder import refuse_foreign, refuse_overlap
from ...datasets.errors import stop_on_bad_input
from ..kit.engines import Engine


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
) -> None:
    """Train a policy. Options of the recipe follow as name=value.

    This is the same as `python -m scisci_gym.recipes.RECIPE name=value ...`. The options dataset=, model_name= and
    log_path= must be given; `scisci-gym train rl --help-options` lists all options.
    """
    from ..experiments.runner import RECIPES

    chosen = RECIPES[recipe]
    arguments = list(context.args)
    if "--help-options" in arguments:
        arguments = ["--help"]
    if engine is not None:
        arguments.append(f"engine={engine}")
    stop_on_bad_input(lambda: chosen.main(chz.entrypoint(chosen.config, argv=arguments)))


def init_model(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write the model to, as Hugging Face files.")],
    corpus: Annotated[Path, typer.Option(help="Dataset that `scisci-gym build` wrote.")],
    works: Annotated[
        Path | None,
        typer.Option(help="Works that the dataset was built from; they have more unlabelled text than its papers."),
    ] = None,
    env: Annotated[str, typer.Option(help="Environment whose answers the model shall be able to give.")] = (
        "disruption-v0"
    ),
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
    each round and decides whether another round is needed. The exit status is 1 if the probe never reached its target.
    """
    from ...datasets.openalex.snapshot import read_works
    from ..kit.tiny_model import init_tiny_model, works_of

    def act() -> None:
        refuse_overlap(out, [corpus, *([] if works is None else [works])])
        refuse_foreign(out, "init_report.json")
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
        if not report.reached:
            raise typer.Exit(1)

    stop_on_bad_input(act)
