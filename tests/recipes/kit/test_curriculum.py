"""Which papers are easy, when a curriculum widens, and how it resumes."""

import json
from pathlib import Path

import numpy as np
import pytest

from scisci_gym import Paper
from scisci_gym.recipes.kit.order import PASS_RATES, CurriculumOrder, Widening, example_key, margins, stage_of


def paper(at: int, cd: float, **more) -> tuple[Paper]:
    return (Paper(openalex_id=f"W{at}", title="T", publication_year=2000, cd_index=cd, **more),)


def test_margin_is_the_distance_to_the_nearest_other_label() -> None:
    """CD 0.5 and 0.2 are disruptive, 0.05 is neutral, -0.3 consolidating."""
    found = margins("disruption-v0", [paper(1, 0.5), paper(2, 0.2), paper(3, 0.05), paper(4, -0.3)])
    np.testing.assert_allclose(found, [0.45, 0.15, 0.15, 0.35])


def test_labels_by_rank_are_compared_within_field_and_year() -> None:
    def ranked(at: int, cd: float, label: str, field: str) -> tuple[Paper]:
        return paper(at, cd, disruption_label=label, label_scheme="quantile", primary_field=field)

    examples = [
        ranked(1, 0.9, "disruptive", "physics"),
        ranked(2, 0.1, "neutral", "physics"),
        ranked(3, 0.3, "consolidating", "biology"),
        ranked(4, 0.35, "neutral", "biology"),
    ]
    np.testing.assert_allclose(margins("disruption-v0", examples), [0.8, 0.8, 0.05, 0.05])


def test_a_label_without_rivals_has_no_boundary() -> None:
    assert np.isinf(margins("disruption-v0", [paper(1, 0.5), paper(2, 0.4)])).all()


def test_a_pair_is_as_easy_as_its_scores_are_apart() -> None:
    pairs = [(paper(1, 0.5)[0], paper(2, -0.5)[0]), (paper(3, 0.2)[0], paper(4, 0.1)[0])]
    np.testing.assert_allclose(margins("disruption-pairwise-v0", pairs), [1.0, 0.1])


def test_a_paper_without_score_is_named() -> None:
    bare = Paper(openalex_id="W9", title="T", publication_year=2000, disruption_label="neutral")
    with pytest.raises(ValueError, match=r"cd_index.*W9"):
        margins("disruption-v0", [(bare,)])


def test_a_stage_ends_when_rewards_have_risen_a_tenth_of_their_range_or_after_its_patience() -> None:
    assert stage_of([0.0] * 24, reach=2.0) == 0
    assert stage_of([0.0] * 25, reach=2.0) == 1
    assert stage_of([0.0, 0.0, 0.0, 0.2, 0.2, 0.2], reach=2.0) == 1
    assert stage_of([0.0, 0.0, 0.0, 0.1, 0.1, 0.1], reach=2.0) == 0
    assert stage_of([0.0] * 1000, reach=2.0) == 3, "the last stage is all papers"


def test_the_pool_widens_from_a_third_to_all() -> None:
    rewards: list[float] = []
    order = Widening(range(30), 10, lambda before: rewards[:before], reach=2.0, seed=0)
    assert {order(position) for position in range(10)} == set(range(10)), "the easiest third, each once"
    rewards += [0.0] * 100
    late = Widening(range(30), 10, lambda before: rewards[:before], reach=2.0, seed=0)
    assert {late(position) for position in range(900, 930)} == set(range(30))


def test_a_batch_depends_on_what_was_logged_two_steps_before_it_and_on_nothing_later(tmp_path: Path) -> None:
    """So the batch after a resumption is the batch that there would have been."""
    rates = {example_key(paper(at, 0.5)): at / 10 for at in range(10)}
    (tmp_path / PASS_RATES).write_text(json.dumps(rates))
    examples = [paper(at, 0.5) for at in range(10)]
    maker = CurriculumOrder("pass_rate", "disruption-v0", 2, str(tmp_path))

    def log(rewards: list[float]) -> None:
        rows = [{"step": step, "env/all/reward/total": reward} for step, reward in enumerate(rewards)]
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def batch(number: int) -> list[int]:
        order = maker(examples, 0)
        return [order(2 * number), order(2 * number + 1)]

    log([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    widened = batch(7)
    log([0.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    assert batch(7) == widened
    assert set(batch(0)) <= {9, 8, 7, 6}, "the easiest third by pass rate"
