"""Commands for people: `scisci-gym list`, `show`, and those parts of `play` and `check` that need no training."""

from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table

from ..datasets.errors import stop_on_bad_input
from .checking.check_env import EnvCheckError, check_env
from .integrations.cookbook_benchmarks import benchmark_name
from .integrations.papers import examples_of, options_of, papers_of
from .integrations.play import Rival, play_examples, print_messages
from .kit.cards import class_shares, markdown, summary
from .kit.episodes import run_sync
from .opponents.challengers import CHALLENGERS
from .opponents.judge import JUDGES
from .opponents.reader import REASONS
from .registry import make, spec, specs

EnvId = Annotated[str, typer.Argument(metavar="ID", help="The environment's id; `scisci-gym list` prints all of them.")]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="Folder that `scisci-gym build` wrote. Without it, the folder that the environment variable "
        "SCISCI_GYM_DATASET names; without that, nine made-up papers.",
        show_default=False,
    ),
]
Index = Annotated[int, typer.Option(help="Number of the first example, counted from 0.", min=0)]
Seed = Annotated[int, typer.Option(help="Seed with which pairs and challenges are drawn.")]
Examples = Annotated[int, typer.Option(help="Number of examples, one after the other.", min=1)]
Split = Annotated[str, typer.Option(help="Part of the dataset: train, validation or test.")]


def list_environments() -> None:
    """List the environments."""
    table = Table("id", "reward", "what it asks", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for env_class in specs():
        low, high = env_class.reward_range
        table.add_row(env_class.env_id, f"{low:g} to {high:g}", summary(env_class))
    Console().print(table)


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
    print_messages(console, run_sync(env.initial_observation()))
    console.print(Panel(env.gold_answer(), title="a perfect answer", title_align="left"), markup=False)


def play_from(
    env_id: str, dataset: str | None, split: str, index: int, seed: int, examples: int, rival: Rival | None = None
) -> None:
    """Play so many examples of a split, from the one of that index on, and from the first again after the last."""
    found = stop_on_bad_input(lambda: examples_of(env_id, dataset, split, seed))
    env_class = spec(env_id)
    options = stop_on_bad_input(lambda: options_of(env_id, dataset, drawn_by(env_id, seed)))
    chosen = [found[at % len(found)] for at in range(index, index + examples)]
    play_examples(Console(), env_id, chosen, options, class_shares(env_class, papers_of(dataset, split)), rival)


def drawn_by(env_id: str, seed: int) -> dict[str, int]:
    """The option that gives an environment its seed; none for one that draws nothing."""
    return {"seed": seed} if "seed" in spec(env_id).option_names() else {}


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
