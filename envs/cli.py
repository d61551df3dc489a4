"""Commands for people: `scisci-gym list`, `show`, `play`, `check`."""

from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table
from tinker_cookbook.renderers import Message

from ..datasets.errors import stop_on_bad_input
from .checking.check_env import EnvCheckError, check_env
from .integrations.cookbook_benchmarks import benchmark_name
from .integrations.papers import examples_of, options_of, papers_of
from .kit.answers import CLOSE, format_answer
from .kit.base import SciSciEnv
from .kit.cards import class_shares, markdown, summary
from .kit.episodes import run_sync
from .opponents.challengers import CHALLENGERS
from .opponents.judge import JUDGES
from .opponents.reader import REASONS
from .registry import make, spec, specs

app = typer.Typer(no_args_is_help=True)

EnvId = Annotated[str, typer.Argument(metavar="ID", help="The environment's id; `scisci-gym list` prints all of them.")]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="Folder that `scisci-gym build` wrote. Without it, the folder that the environment variable "
        "SCISCI_GYM_DATASET names; without that, nine made-up papers.",
        show_default=False,
    ),
]
Split = Annotated[str, typer.Option(help="Part of the dataset: train, validation or test.")]


@app.command("list")
def list_environments() -> None:
    """List the environments."""
    table = Table("id", "reward", "what it asks", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for env_class in specs():
        low, high = env_class.reward_range
        table.add_row(env_class.env_id, f"{low:g} to {high:g}", summary(env_class))
    Console().print(table)


@app.command()
def show(env_id: EnvId, dataset: Dataset = None, split: Split = "train") -> None:
    """Show the card of an environment, how common its labels are, and an example."""
    examples = stop_on_bad_input(lambda: examples_of(env_id, dataset, split))
    env_class, console = spec(env_id), Console()
    console.rule(env_id)
    console.print(summary(env_class))
    for title, text in markdown(env_class).items():
        console.print(f"\n[bold]{title}[/bold]")
        console.print(Markdown(text))
    named = {"Challengers": ("challenger", CHALLENGERS), "Judges": ("judge", JUDGES), "Reasons": ("reasons", REASONS)}
    for title, (option, known) in named.items():
        if option in env_class.option_names():
            console.print(f"\n[bold]{title}[/bold] by name, as in env_options={option}=NAME")
            for name, about in known.listing().items():
                console.print(f"  {name:<16} {about}", markup=False, highlight=False)
    console.print(f"\n[bold]Labels[/bold] of {len(examples)} examples")
    for label, share in class_shares(env_class, papers_of(dataset, split)).items():
        console.print(f"  {label:<30} {share:6.1%} {'█' * round(40 * share)}", highlight=False)
    env = make(env_id, *examples[0], **stop_on_bad_input(lambda: options_of(env_id, dataset, {})))
    console.print(f"\n[bold]Benchmark[/bold]\n{benchmark_name(env_id)}")
    console.print("\n[bold]Example[/bold]")
    _print_messages(console, run_sync(env.initial_observation()))
    console.print(Panel(env.gold_answer(), title="a perfect answer", title_align="left"), markup=False)


@app.command()
def play(
    env_id: EnvId,
    dataset: Dataset = None,
    split: Split = "train",
    index: Annotated[int, typer.Option(help="Number of the example, counted from 0.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="Seed with which pairs and challenges are drawn.")] = 0,
) -> None:
    """Play an environment: answer in place of a model.

    An answer may have several lines; an empty line sends it. If you leave out the answer tags, they are put around
    the last line.
    """
    examples = stop_on_bad_input(lambda: examples_of(env_id, dataset, split, seed))
    env_class, console = spec(env_id), Console()
    drawn = {"seed": seed} if "seed" in env_class.option_names() else {}
    options = stop_on_bad_input(lambda: options_of(env_id, dataset, drawn))
    env = make(env_id, *examples[index % len(examples)], **options)
    messages, total = run_sync(env.initial_observation()), 0.0
    while True:
        _print_messages(console, messages[-1:])
        result = run_sync(env.step(Message(role="assistant", content=_read_answer())))
        total += result.reward
        if result.episode_done:
            break
        messages = result.next_messages
    _explain(console, env, total, result.metrics, result.logs)


@app.command()
def check(
    env_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The environment's id. Without it, all are checked.")
    ] = None,
) -> None:
    """Check that an environment is fit to train on."""
    console, failed = Console(), False
    chosen = [stop_on_bad_input(lambda: spec(env_id))] if env_id else specs()
    for name in (env_class.env_id for env_class in chosen):
        console.print(f"[bold]{name}[/bold]")
        try:
            check_env(name, lambda passed: console.print(f"  [green]✓[/green] {passed.replace('_', ' ')}"))
        except EnvCheckError as error:
            failed = True
            console.print("  [red]✗[/red]", end=" ")
            console.print(str(error), markup=False)
    if failed:
        raise typer.Exit(1)


def _read_answer() -> str:
    lines: list[str] = []
    while line := typer.prompt(">" if not lines else " ", default="", show_default=False, prompt_suffix=" "):
        lines.append(line)
    text = "\n".join(lines)
    if CLOSE in text.lower() or not lines:
        return text
    return "\n".join([*lines[:-1], format_answer(lines[-1].strip())])


def _print_messages(console: Console, messages: list[Message]) -> None:
    for message in messages:
        text = str(message["content"]).replace("[", "\\[")
        console.print(Panel(text, title=message["role"], title_align="left"))


def _explain(console: Console, env: SciSciEnv, total: float, metrics: dict[str, float], logs: dict) -> None:
    low, high = env.reward_range
    predicted = logs["predicted"] or "nothing that counts as an answer"
    console.print(f"\nYou said [bold]{predicted}[/bold]; right is [bold]{env.gold_label}[/bold].")
    for name, value in metrics.items():
        if name.startswith("reward_"):
            console.print(f"  {name.removeprefix('reward_'):<12} {value:+.2f}", highlight=False)
    console.print(f"Reward [bold]{total:+.3f}[/bold] (from {low:g} to {high:g}).")
    if not metrics["format_valid"]:
        console.print("An answer is exactly one pair of answer tags at the very end; see `scisci-gym show`.")
    for paper in env.papers:
        facts = {"CD index": paper.cd_index, "novelty": paper.novelty_score, "citations": paper.cited_by_count}
        known = ", ".join(f"{name} {value:.3g}" for name, value in facts.items() if value is not None)
        console.print(f"{paper.openalex_id}: {known}", markup=False)
