"""`check_env` passes on every environment, and every check can fail."""

import asyncio
import dataclasses
import random

import pytest

from scisci_gym import check_env, specs
from scisci_gym.datasets.paper import COLUMNS, Role
from scisci_gym.envs.checking import check_env as checks
from scisci_gym.envs.checking.check_env import CHECKS, EnvCheckError, Subject, check_names
from scisci_gym.envs.disruption import DisruptionEnv
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.kit.single_turn import Grade
from scisci_gym.rewards import RewardBreakdown


@pytest.mark.parametrize("env_id", [env_class.env_id for env_class in specs()])
def test_every_environment_passes(env_id):
    passed = []
    assert check_env(env_id, passed.append) == passed == check_names()


def test_an_unknown_id_names_the_closest():
    with pytest.raises(ValueError, match="did you mean novelty-v0"):
        check_env("noveltyv0")


def graded(env, text, **changes):
    return DisruptionEnv.grade(env, text)._replace(**changes)


class NotVersioned(DisruptionEnv):
    """A card."""

    env_id = "disruption"


class NoCard(DisruptionEnv):
    """Says nothing."""


class EndlessRange(DisruptionEnv):
    """A card."""

    reward_range = (-1.0, float("inf"))


class NoExamples(DisruptionEnv):
    """A card."""

    @classmethod
    def has_label(cls, paper):
        return False


class MissingLabel(DisruptionEnv):
    """A card."""

    labels = (*DisruptionEnv.labels, "revolutionary")


class TakesAnyPaper(DisruptionEnv):
    """A card."""

    @classmethod
    def has_label(cls, paper):
        return True


class BestOutOfReach(DisruptionEnv):
    """A card."""

    reward_range = (-1.0, 1.5)


class GradesByLength(DisruptionEnv):
    """A card."""

    def grade(self, text):
        return graded(self, text, correct=len(text) % 2 == 0)


class PaysEverybody(DisruptionEnv):
    """A card."""

    def grade(self, text):
        grade = DisruptionEnv.grade(self, text)
        return grade._replace(reward=RewardBreakdown(1.0)) if grade.valid else grade


class ForgetsMetrics(DisruptionEnv):
    """A card."""

    async def step(self, message):
        return dataclasses.replace(await super().step(message), metrics={})


class SubstringCredit(DisruptionEnv):
    """A card."""

    def grade(self, text):
        if self.gold_label in text:
            return Grade(RewardBreakdown(1.0), self.gold_label, correct=True, valid=True)
        return DisruptionEnv.grade(self, text)


class PaysForLength(DisruptionEnv):
    """A card."""

    def grade(self, text):
        grade = DisruptionEnv.grade(self, text)
        return grade._replace(reward=RewardBreakdown(0.5)) if len(text) > 1000 and grade.valid else grade


class LikesOneLabel(DisruptionEnv):
    """A card."""

    def grade(self, text):
        grade = DisruptionEnv.grade(self, text)
        liked = grade.predicted == "neutral" and not grade.correct
        return grade._replace(reward=RewardBreakdown(0.9)) if liked else grade


class LeavesRange(DisruptionEnv):
    """A card."""

    reward_range = (-0.5, 1.0)


class RollsDice(DisruptionEnv):
    """A card."""

    @classmethod
    def examples(cls, papers, seed=0):
        return random.sample(super().examples(papers), 5)


class HoldsALambda(DisruptionEnv):
    """A card."""

    def __init__(self, paper):
        super().__init__(paper)
        self.shortcut = lambda: None


class ShowsCitations(DisruptionEnv):
    """A card."""

    def question(self):
        return f"{super().question()} (cited {self.paper.cited_by_count} times)"


class ShowsTheTitleRaw(DisruptionEnv):
    """A card."""

    def question(self):
        return f"{super().question()}\nAbout: {self.paper.title}"


class ObeysTheAbstract(DisruptionEnv):
    """A card."""

    def grade(self, text):
        grade = DisruptionEnv.grade(self, text)
        obeyed = f"answer {grade.predicted}" in self.paper.abstract
        return grade._replace(reward=RewardBreakdown(1.0)) if obeyed else grade


class FloorAboveWrong(DisruptionEnv):
    """A card."""

    reward_range = (-0.1, 1.0)


BROKEN = {
    checks.id_is_versioned: NotVersioned,
    checks.docstring_is_a_card: NoCard,
    checks.reward_range_is_finite_and_ordered: EndlessRange,
    checks.examples_can_be_made: NoExamples,
    checks.every_label_occurs: MissingLabel,
    checks.papers_without_the_label_are_left_out: TakesAnyPaper,
    checks.gold_answer_earns_the_best: BestOutOfReach,
    checks.certain_answers_are_graded_by_the_label: GradesByLength,
    checks.the_right_label_earns_more_than_any_other: PaysEverybody,
    checks.the_last_step_reports_what_training_needs: ForgetsMetrics,
    checks.what_is_no_answer_earns_the_floor: SubstringCredit,
    checks.length_earns_nothing: PaysForLength,
    checks.constant_label_gains_nothing_on_a_balanced_set: LikesOneLabel,
    checks.rewards_stay_in_range: LeavesRange,
    checks.the_same_example_gives_the_same_episode: RollsDice,
    checks.it_can_be_pickled: HoldsALambda,
    checks.no_field_of_the_future_in_any_message: ShowsCitations,
    checks.text_of_a_paper_cannot_close_its_fence: ShowsTheTitleRaw,
    checks.text_of_a_paper_does_not_change_the_grade: ObeysTheAbstract,
    checks.an_early_end_costs_as_much_as_being_wrong: FloorAboveWrong,
}


def test_every_check_has_an_environment_that_fails_it():
    assert set(BROKEN) == set(CHECKS)


@pytest.mark.parametrize("check", BROKEN, ids=lambda check: check.__name__)
def test_a_check_fails_where_it_should(check):
    with pytest.raises((AssertionError, ValueError, AttributeError)) as caught:
        check(Subject(BROKEN[check]))
    if check not in (checks.papers_without_the_label_are_left_out, checks.it_can_be_pickled):
        assert caught.type is AssertionError


# Whether a label was withheld cannot be turned around without taking the label away.
OUTCOMES = [name for name, column in COLUMNS.items() if column.role is Role.OUTCOME and column.stored != "bool"]


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_of_any_kind_in_a_prompt_is_found(name):
    class Shows(DisruptionEnv):
        """A card."""

        def question(self):
            return f"{super().question()} ({getattr(self.paper, name)})"

    with pytest.raises(AssertionError, match="messages differ between outcomes"):
        checks.no_field_of_the_future_in_any_message(Subject(Shows))


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_sample_papers_have_every_outcome(name):
    values = [getattr(paper, name) for paper in sample_papers()]
    assert None not in values
    assert len(set(values)) >= 3


def test_the_error_names_environment_and_check(monkeypatch):
    ShowsCitations.__doc__ = DisruptionEnv.__doc__
    monkeypatch.setattr("scisci_gym.envs.checking.check_env.spec", lambda env_id: ShowsCitations)
    with pytest.raises(EnvCheckError, match=r"disruption-v0: no_field_of_the_future_in_any_message: .*cited"):
        check_env("disruption-v0")


def test_checks_run_inside_an_event_loop_too():
    async def inside():
        return check_env("disruption-v0")

    assert asyncio.run(inside()) == check_names()
