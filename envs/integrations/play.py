"""Playing an environment as a person: questions on the terminal, hints, and a model's answers beside one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text
from tinker_cookbook.renderers import Message

from ..kit.answers import CLOSE, format_answer
from ..kit.base import Example, SciSciEnv
from ..kit.episodes import Episode, play_episode, run_sync
from ..kit.single_turn import SingleTurnEnv
from ..kit.two_turn import TwoTurnEnv
from ..registry import make

HINT = "?"
"""What a player types for a hint."""


@dataclass(frozen=True)
class Rival:
    """A model whose answers are shown beside the player's: its name, and what it makes of an example."""

    name: str
    play: Callable[[Example], Episode]


class Hints:
    """What a player may ask for about an example: how common the labels are (`shares`), then labels that are wrong,
    half of those that are left at a time. The last wrong one is never told."""

    def __init__(self, env: SciSciEnv, shares: Mapping[str, float]):
        self.shares, self.taken = shares, 0
        self.wrong = [label for label in env.labels if label != env.gold_label]
        Random(env.example_id).shuffle(self.wrong)

    def take(self) -> str:
        if self.taken and len(self.wrong) < 2:
            return "There is no further hint."
        self.taken += 1
        if self.taken == 1:
            common = ", ".join(f"{share:.0%} {label}" for label, share in self.shares.items())
            return f"Labels of all examples here: {common}."
        told = [self.wrong.pop() for _ in range(len(self.wrong) // 2)]
        return f"It is not {', and not '.join(told)}."


def play_examples(
    console: Console,
    env_id: str,
    examples: Sequence[Example],
    options: Mapping[str, Any],
    shares: Mapping[str, float],
    rival: Rival | None = None,
) -> None:
    """Ask a person about one example after the other, explain what each answer earned, and add up.

    `options` are those of the player's environment, `shares` those of the labels among the examples, for hints. The
    answer of a `rival` is shown after the player's.
    """
    console.print(f"An empty line sends your answer; {HINT} gives a hint.", style="dim", highlight=False)
    own: list[Episode] = []
    others: list[Episode] = []
    for number, example in enumerate(examples, 1):
        if len(examples) > 1:
            console.rule(f"example {number} of {len(examples)}")
        env = make(env_id, *example, **options)
        hints = Hints(env, shares)
        own.append(run_sync(play_episode(env, partial(_answer, console, env, hints))))
        _explain(console, env, own[-1], hints)
        if rival is not None:
            others.append(rival.play(example))
            _show_rival(console, rival.name, others[-1])
    if len(examples) > 1:
        console.rule("all examples")
        for name, episodes in (("You", own), (rival.name if rival else "", others)):
            if episodes:
                reward = sum(episode.reward for episode in episodes) / len(episodes)
                right = sum(bool(episode.result.metrics["correct"]) for episode in episodes)
                console.print(f"{name}: {right} of {len(episodes)} right, mean reward {reward:+.3f}.", markup=False)


def print_messages(console: Console, messages: Sequence[Message]) -> None:
    """Print messages of a conversation, each in a frame with its role."""
    for message in messages:
        console.print(Panel(Text(str(message["content"])), title=message["role"], title_align="left"))


def _answer(console: Console, env: SciSciEnv, hints: Hints, shown: list[Message]) -> str:
    """What the player sends: a text that counts as an answer, or an empty one. Anything else is asked for again."""
    print_messages(console, shown[-1:])
    while True:
        text = _read_answer()
        if text == HINT:
            console.print(hints.take(), markup=False, highlight=False)
        elif not text or _counts(env, text):
            return text
        else:
            wanted = f"one of: {'; '.join(env.labels)}"
            if env.asks_for != "label":
                wanted = f"such as {env.honest_guess() or env.answer_for(env.labels[0])}"
            console.print(
                f"That is no answer; it has to be {wanted}. Write it again; an empty line gives up.",
                markup=False,
                highlight=False,
            )


def _read_answer() -> str:
    lines: list[str] = []
    while line := typer.prompt(">" if not lines else " ", default="", show_default=False, prompt_suffix=" "):
        if not lines and line.strip() == HINT:
            return HINT
        lines.append(line)
    text = "\n".join(lines)
    if CLOSE in text.lower() or not lines:
        return text
    return "\n".join([*lines[:-1], format_answer(lines[-1].strip())])


def _counts(env: SciSciEnv, text: str) -> bool:
    """Whether a text is an answer to the environment's question; True where it cannot be known before the step."""
    if isinstance(env, SingleTurnEnv):
        return env.grade(text).valid
    if isinstance(env, TwoTurnEnv):
        return env.question_env.parse(text) is not None
    return True


def _predicted(played: Episode) -> str:
    """The label that the last answer amounts to, for people."""
    return str(played.result.logs["predicted"]) or "nothing that counts as an answer"


def _explain(console: Console, env: SciSciEnv, played: Episode, hints: Hints) -> None:
    (low, high), metrics = env.reward_range, played.result.metrics
    console.print(f"\nYou said [bold]{_predicted(played)}[/bold]; right is [bold]{env.gold_label}[/bold].")
    for name, value in metrics.items():
        if name.startswith("reward_"):
            console.print(f"  {name.removeprefix('reward_'):<12} {value:+.2f}", highlight=False)
    aided = f", with {hints.taken} hint{'s' if hints.taken > 1 else ''}" if hints.taken else ""
    console.print(f"Reward [bold]{played.reward:+.3f}[/bold] (from {low:g} to {high:g}){aided}.")
    if not metrics["format_valid"]:
        console.print("An answer is exactly one pair of answer tags at the very end; see `scisci-gym show`.")
    for paper in env.papers:
        facts = {"CD index": paper.cd_index, "novelty": paper.novelty_score, "citations": paper.cited_by_count}
        known = ", ".join(f"{name} {value:.3g}" for name, value in facts.items() if value is not None)
        console.print(f"{paper.openalex_id}: {known}", markup=False)


def _show_rival(console: Console, name: str, played: Episode) -> None:
    said = f"{name} said {_predicted(played)}; reward {played.reward:+.3f}."
    console.print(said, markup=False, highlight=False)
    for text in played.answers:
        # More than the bare answer: its reasons.
        if len(text) > len(format_answer(_predicted(played))):
            console.print(Panel(Text(text), title=name, title_align="left"))
