"""What a check looks at, and the list in which each check enters itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ...datasets.paper import Paper
from ..kit.base import Example, SciSciEnv
from ..kit.episodes import Episode, play_episode, run_sync
from ..kit.samples import sample_papers


@dataclass(frozen=True)
class Subject:
    """What a check looks at: an environment class and examples for it."""

    env_class: type[SciSciEnv]

    @cached_property
    def papers(self) -> list[Paper]:
        """The built-in papers."""
        return sample_papers()

    @cached_property
    def examples(self) -> list[Example]:
        """Every benchmark example of the built-in papers."""
        return self.env_class.benchmark_examples(self.papers)

    @cached_property
    def balanced(self) -> list[Example]:
        """Examples with equally many of each gold label."""
        by_label: dict[str, list[Example]] = {}
        for example in self.examples:
            by_label.setdefault(self.env_class(*example).gold_label, []).append(example)
        size = min(map(len, by_label.values()))
        return [example for examples in by_label.values() for example in examples[:size]]

    @cached_property
    def answers(self) -> dict[str, str]:
        """For every label the text of a policy that is certain of it."""
        return {label: self.env_class.answer_for(label) for label in self.env_class.labels}

    def certain_answers(self, most: int | None = None) -> Iterator[tuple[Example, str, str]]:
        """(example, label, answer) for the first `most` examples (None: all) and every label."""
        return ((example, *answer) for example in self.examples[:most] for answer in self.answers.items())

    def play(self, example: Example, text: str) -> Episode:
        """An episode about an example in which the agent always writes the same."""
        return play(self.env_class(*example), text)

    def earned(self, example: Example, text: str) -> float:
        """The reward of such an episode."""
        return self.play(example, text).reward

    @property
    def floor(self) -> float:
        """The least an episode can earn."""
        return self.env_class.reward_range[0]

    @property
    def best(self) -> float:
        """The most an episode can earn."""
        return self.env_class.reward_range[1]


Check = Callable[[Subject], None]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """Decorator that adds a check. Its name says what must hold; it raises `AssertionError` where that does not."""
    CHECKS.append(function)
    return function


def play(env: SciSciEnv, text: str) -> Episode:
    """An episode in which the agent always writes the same."""
    return run_sync(play_episode(env, lambda messages: text))


def claim(holds: bool, found: str) -> None:
    """Raise `AssertionError` with what was found unless `holds`. ``python -O`` leaves out `assert` statements."""
    if not holds:
        raise AssertionError(found)
