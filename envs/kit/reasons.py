"""How the reasons of a final answer are paid, and the rule `quotes`: they are word for word in the paper."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...rewards import best_quotes, quote_credit
from .single_turn import LabelEnv


@dataclass(frozen=True)
class Reasons:
    """Pays quotes of 5 to 25 words that occur word for word; see `quote_credit`. Subclasses pay by another rule."""

    @property
    def request(self) -> str:
        """How the agent is asked for reasons."""
        return (
            "Quote the three passages of the title or abstract that decide it, word for word, each of 5 to 25 words "
            "between <quote> and </quote>."
        )

    def prepare(self, question: type[LabelEnv]) -> None:
        """Called before reasons for the labels of an environment are paid; raises `ValueError` if they cannot be."""
        del question

    def credit(self, text: str, shown: Sequence[str], question: type[LabelEnv], label: str) -> float:
        """Credit in [0, 0.3] for the reasons in `text`, which may be anything; never raises.

        `shown` are title and abstract as they were shown, `label` is the right one, which the answer names.
        """
        del question, label
        return quote_credit(text, shown)

    def best(self, shown: Sequence[str], question: type[LabelEnv], label: str) -> list[str]:
        """At most three passages that earn as much as this rule pays, or nearly."""
        del question, label
        return best_quotes(shown)
