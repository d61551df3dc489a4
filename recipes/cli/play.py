"""`scisci-gym play`: a person answers, and the policy of a run beside them."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...datasets.errors import stop_on_bad_input
from ...envs.cli import Dataset, EnvId, Examples, Index, Seed, Split, play_from
from ..kit.engines import Engine

if TYPE_CHECKING:
    from tinker_cookbook.renderers import Message

    from ...envs.integrations.play import Rival
    from ...envs.kit.base import Example
    from ...envs.kit.episodes import Episode
    from ..experiments.evaluate import Contestant


def play(
    env_id: EnvId,
    dataset: Dataset = None,
    split: Split = "train",
    index: Index = 0,
    seed: Seed = 0,
    examples: Examples = 1,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Training run whose best checkpoint answers beside you; --dataset is by default the one of the run.",
            show_default=False,
        ),
    ] = None,
    engine: Engine = None,
) -> None:
    """Play an environment: answer in place of a model.

    An answer may have several lines; an empty line sends it. If you leave out the answer tags, they are put around
    the last line. What is no answer is asked for again, and a question mark gives a hint.
    """
    if run is None:
        play_from(env_id, dataset, split, index, seed, examples)
        return
    with ExitStack() as opened:
        rival, dataset = stop_on_bad_input(lambda: _rival(run, env_id, dataset, seed, engine, opened))
        play_from(env_id, dataset, split, index, seed, examples, rival)


def _rival(
    run: Path, env_id: str, dataset: str | None, seed: int, engine: str | None, opened: ExitStack
) -> tuple[Rival, str]:
    """The policy of a run as a `Rival`, on an engine that `opened` closes, and the dataset that is played."""
    from ...envs.integrations.play import Rival
    from ..experiments.evaluate import run_contestant
    from ..kit.compat import ignore_deprecated_calls
    from ..kit.engines import open_engine

    ignore_deprecated_calls()
    contestant = run_contestant(run, dataset, engine)
    if contestant.task.env != env_id:
        raise ValueError(f"{run} was trained on {contestant.task.env}; play that, or leave --run out")
    opened.enter_context(open_engine(contestant.engine, contestant.checkpoints, seed))
    rival = Rival(contestant.policy.name, lambda example: asyncio.run(_played(contestant, example, seed)))
    return rival, contestant.task.dataset


async def _played(contestant: Contestant, example: Example, seed: int) -> Episode:
    """The greedy episode of a policy about an example, which it sees as in its training."""
    from tinker_cookbook.completers import TinkerMessageCompleter

    from ...envs.cli import drawn_by
    from ...envs.integrations.papers import options_of
    from ...envs.kit.answers import message_text
    from ...envs.kit.episodes import play_episode
    from ...envs.kit.renderers import renderer_of
    from ...envs.registry import make

    task = contestant.task
    env = make(task.env, *example, **options_of(task.env, task.dataset, {**drawn_by(task.env, seed), **task.options}))
    renderer = renderer_of(task.renderer_name, task.model_name)
    completer = TinkerMessageCompleter(await contestant.policy.client(task), renderer, task.max_tokens, temperature=0.0)

    async def policy(shown: list[Message]) -> str:
        return message_text(await completer(shown))

    return await play_episode(env, policy)
