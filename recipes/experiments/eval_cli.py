"""`scisci-gym eval`: one run in three layers, or a leaderboard over all environments of a dataset."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from ...datasets.atomic_files import write_text_atomically
from ...datasets.errors import stop_on_bad_input
from ..kit.engines import ENGINE_HELP

if TYPE_CHECKING:
    from ...evaluation.leaderboard import Leaderboard

ONE, ALL = "One run", "Leaderboard (--all)"
Result = TypeVar("Result")


class ProbeName(StrEnum):
    """Further examinations of a run."""

    contamination = "contamination"
    flips = "flips"
    consistency = "consistency"


def evaluate(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="RUN", help="Folder of a training run (its log_path).", show_default=False),
    ] = None,
    all_envs: Annotated[
        bool, typer.Option("--all", help="A leaderboard: baselines, --model and --run on every environment.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="Folder that `scisci-gym build` wrote; for a run: another than its own.")
    ] = None,
    split: Annotated[str, typer.Option(help="test, validation or train.")] = "test",
    max_examples: Annotated[
        int | None, typer.Option(min=1, help="At most so many for each environment, spread over time.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of sampling, of baselines that draw, and of the bootstrap.")] = 0,
    label_probabilities: Annotated[
        bool,
        typer.Option(
            "--label-probabilities", help="Ask policies for their own probabilities of the labels: their calibration."
        ),
    ] = False,
    embeddings: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Also sentence embeddings of this model with gradient boosting.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help=ENGINE_HELP)] = None,
    public: Annotated[
        str, typer.Option(help="Public benchmarks of the cookbook, such as gsm8k,mmlu_pro.", rich_help_panel=ONE)
    ] = "",
    public_tokens: Annotated[int, typer.Option(help="Longest answer there.", rich_help_panel=ONE)] = 2048,
    inspect: Annotated[
        str,
        typer.Option(
            metavar="TASKS",
            help="Inspect tasks, such as inspect_evals/gpqa_diamond,scisci_gym/novelty.",
            rich_help_panel=ONE,
        ),
    ] = "",
    probe: Annotated[
        list[ProbeName] | None, typer.Option(help="Examine the policy further; may be repeated.", rich_help_panel=ONE)
    ] = None,
    cutoff: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="The model's knowledge cutoff, for --probe contamination: YYYY (to its end), YYYY-MM or YYYY-MM-DD.",
            rich_help_panel=ONE,
        ),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="Only this environment; may be repeated.", rich_help_panel=ALL)
    ] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--run", help="A training run to include; may be repeated.", rich_help_panel=ALL),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Base model to ask zero-shot: a folder or a name.", rich_help_panel=ALL)
    ] = None,
    renderer: Annotated[str | None, typer.Option(help="Renderer of --model.", rich_help_panel=ALL)] = None,
    env_options: Annotated[
        str, typer.Option(help="Options of the environments for --model, as in prompt=short.", rich_help_panel=ALL)
    ] = "",
    max_tokens: Annotated[int, typer.Option(help="Longest answer of --model.", rich_help_panel=ALL)] = 1024,
    out: Annotated[Path, typer.Option(help="Folder for what is found.", rich_help_panel=ALL)] = Path("runs/eval"),
) -> None:
    """Score a run's best checkpoint on papers it has not seen, or everything on all environments with --all.

    `eval RUN` measures the held-out NLL, the run's own environment with its baselines, and public benchmarks. `eval
    --all --dataset DIR` writes a leaderboard of baselines, a base model (--model) and runs (--run). Answers are kept: a
    second call asks only for what is missing.
    """
    console = Console(highlight=False)

    def act() -> None:
        from ...evaluation.learners import sentence_encoder

        # The cookbook still calls SDK methods that are on their way out; nothing a user could do about it.
        warnings.filterwarnings("ignore", category=FutureWarning, module="tinker")

        only_all = {"--env": env, "--run": runs, "--model": model, "--renderer": renderer, "--env-options": env_options}
        only_one = {"--public": public, "--inspect": inspect, "--probe": probe, "--cutoff": cutoff}
        if all_envs == (run is not None):
            raise ValueError("give either the folder of a run, or --all --dataset DIR for a leaderboard")
        wrong = [name for name, given in (only_one if all_envs else only_all).items() if given]
        if wrong:
            raise ValueError(f"{wrong[0]} goes with {'a single run' if all_envs else '--all'} only")
        encoder = sentence_encoder(embeddings) if embeddings else None
        folder = run
        if folder is not None:
            from ...evaluation.probes.contamination import cutoff_date
            from .eval_run import Probe, RunOptions, evaluate_run

            run_options = RunOptions(
                split=split,
                dataset=dataset,
                engine=engine,
                seed=seed,
                max_examples=max_examples,
                label_probabilities=label_probabilities,
                public=tuple(filter(None, (name.strip() for name in public.split(",")))),
                public_tokens=public_tokens,
                inspect=tuple(filter(None, (name.strip() for name in inspect.split(",")))),
                probes=tuple(Probe(name) for name in probe or ()),
                cutoff=cutoff_date(cutoff) if cutoff else None,
            )
            result = _reporting(console, lambda tell: evaluate_run(folder, run_options, encoder, tell))
            probed = [folder / f"{name}.json" for name in run_options.probes]
            written = [folder / f"eval_{split}.{kind}" for kind in ("json", "html")]
            _show(console, result, [*written, *probed], probed)
            return
        if dataset is None:
            raise ValueError("--all needs --dataset DIR, a folder that `scisci-gym build` wrote")
        from ...evaluation.leaderboard import LeaderboardOptions
        from .contestants import evaluate_all

        options = LeaderboardOptions(
            dataset=dataset,
            out=out,
            envs=tuple(env or ()),
            runs=tuple(runs or ()),
            model=model,
            split=split,
            max_examples=max_examples,
            seed=seed,
            embeddings=embeddings,
            env_options=env_options,
            renderer_name=renderer,
            max_tokens=max_tokens,
            label_probabilities=label_probabilities,
            engine=engine,
        )
        result = _reporting(console, lambda tell: evaluate_all(options, encoder, tell))
        _show(console, result, _written(result, out))

    stop_on_bad_input(act)


def _reporting(console: Console, work: Callable[[Callable[[str], None]], Result]) -> Result:
    """Run `work` with a line that says what it is at."""
    with console.status("reading the dataset") as status:
        return work(lambda what: status.update(what))


def _show(console: Console, result: Leaderboard, paths: list[Path], probed: Sequence[Path] = ()) -> None:
    from ...evaluation.render.leaderboard_text import leaderboard_tables
    from ...evaluation.render.probe_tables import probe_tables

    console.print(leaderboard_tables(result))
    for name, found in result.extras.items():
        console.print(f"- {name.replace('_', ' ')}: {_brief(found)}", soft_wrap=True, markup=False)
    for path in probed:
        console.print("", *probe_tables(path.stem, json.loads(path.read_text())), sep="\n", soft_wrap=True)
    console.print("\nwritten to " + ", ".join(map(str, paths)), soft_wrap=True, markup=False)


def _brief(found: dict) -> str:
    """A layer in one line."""
    if "tasks" in found:
        named = ((one["task"], next(iter(one["metrics"].items())), one["samples"]) for one in found["tasks"])
        return "; ".join(f"{task} {name} {value:.3f} (n = {n:,})" for task, (name, value), n in named)
    if "benchmarks" not in found:
        return ", ".join(f"{name.rpartition('/')[2]} {value:.3f}" for name, value in found.items())
    parts = []
    for name, one in found["benchmarks"].items():
        parts.append(
            f"{name} {one['score']:.3f} (n = {one['n']:,})"
            if not one["problem"]
            else f"{name} not run: {one['problem']}"
        )
    return "; ".join(parts)


def _written(result: Leaderboard, out: Path) -> list[Path]:
    import shlex

    from ...evaluation.leaderboard import RESULT, write_results
    from ...evaluation.render.evaluation_page import write_page
    from ...evaluation.render.leaderboard_plot import write_plot
    from ...evaluation.render.leaderboard_text import leaderboard_markdown

    out.mkdir(parents=True, exist_ok=True)
    made = write_results(result, out / RESULT)["made"]
    text = out / "leaderboard.md"
    write_text_atomically(text, leaderboard_markdown(result, shlex.join(made["command"])))
    plots = write_plot(result.boards, out / "leaderboard")
    return [out / RESULT, text, *plots, write_page(result, out / "evaluation.html", made)]
