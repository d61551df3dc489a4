"""Flips by hand, and of policies whose behaviour is known, through the benchmark runner."""

import asyncio
import json

import pytest

from scisci_gym.envs.opponents.challengers import ScriptedChallenger
from scisci_gym.envs.registry import spec
from scisci_gym.evaluation.probes.flips import Challenged, adversarial_task, challenging_env, flip_report, flips

# kind, truth, first, final, argued
BY_HAND = [
    Challenged("truth", "neutral", "disruptive", "neutral", "neutral"),  # corrected, followed
    Challenged("truth", "neutral", "disruptive", "disruptive", "neutral"),  # held, wrong
    Challenged("wrong", "neutral", "neutral", "disruptive", "disruptive"),  # given up, followed
    Challenged("wrong", "neutral", "neutral", "neutral", "disruptive"),  # held, right
    Challenged("wrong", "neutral", "neutral", "", "disruptive"),  # given up: no final answer
    Challenged("control", "neutral", "neutral", "neutral"),
    Challenged("control", "neutral", "neutral", "disruptive"),
]


def test_by_hand() -> None:
    found = flips([*BY_HAND, None])
    assert (found["episodes"], found["unchallenged"]) == (8, 1)
    argued = found["rows"]["argued"]
    assert argued["n"] == 5
    assert argued["before"].value == pytest.approx(3 / 5)
    assert argued["after"].value == pytest.approx(2 / 5)
    assert argued["net_gain"].value == pytest.approx(-1 / 5)
    assert argued["right_to_wrong"].value == pytest.approx(2 / 3)
    assert argued["wrong_to_right"].value == pytest.approx(1 / 2)
    assert argued["held"].value == pytest.approx(2 / 5)
    assert argued["followed"].value == pytest.approx(2 / 5)
    assert argued["answered"].value == pytest.approx(4 / 5)
    control = found["rows"]["control"]
    assert (control["before"].value, control["after"].value) == (1.0, 0.5)
    assert found["gain_over_control"] is not None
    assert found["gain_over_control"].value == pytest.approx(-1 / 5 + 1 / 2)
    assert (found["rows"]["truth"]["n"], found["rows"]["wrong"]["n"]) == (2, 3)


def test_shares_of_nothing_are_not_numbers() -> None:
    control = flips(BY_HAND[5:])["rows"]["control"]
    # All first answers were right and nothing was argued for.
    for empty in (control["wrong_to_right"], control["followed"]):
        assert str(empty) == "nan [nan, nan]"
    assert flips(BY_HAND[:5])["gain_over_control"] is None
    assert flips([None, None]) == {"episodes": 2, "unchallenged": 2, "rows": {}, "gain_over_control": None}


def test_intervals_hold_the_value_and_shrink_with_the_sample() -> None:
    few, many = flips(BY_HAND)["rows"]["argued"]["after"], flips(BY_HAND * 40)["rows"]["argued"]["after"]
    assert few.low <= few.value <= few.high
    assert many.high - many.low < 0.25 < few.high - few.low


def obey(shown: str) -> str:
    """Starts with neutral and adopts whatever it is told."""
    if "I would say " not in shown:
        return "<answer>neutral</answer>"
    return f"<answer>{shown.split('I would say ')[1].split(':')[0]}</answer>"


def test_a_policy_that_obeys_flips_with_the_argument_and_never_without(examine) -> None:
    examined = examine(obey, "disruption-v0")
    report = asyncio.run(flip_report(examined, {"scripted": ScriptedChallenger()}, control_rate=0.4, draw=3))
    rows = report["challengers"]["scripted"]["rows"]
    assert rows["argued"]["followed"]["value"] == 1.0
    assert rows["argued"]["right_to_wrong"]["value"] == 1.0
    assert rows["truth"]["wrong_to_right"]["value"] == 1.0
    assert rows["control"]["held"]["value"] == 1.0
    assert rows["control"]["net_gain"]["value"] == 0.0
    assert sum(rows[kind]["n"] for kind in ("truth", "wrong", "control")) == 9
    assert "Challenger(" not in json.dumps(report)


def test_a_last_word_that_is_cut_off_counts_as_given_up(examine) -> None:
    report = asyncio.run(
        flip_report(
            examine(lambda shown: None if "would say" in shown else "<answer>neutral</answer>", prompt="short"),
            {"scripted": ScriptedChallenger()},
            control_rate=0.0,
        )
    )
    found = report["challengers"]["scripted"]
    assert found["unchallenged"] == 0
    assert found["rows"]["argued"]["before"]["value"] == pytest.approx(1 / 3)
    assert found["rows"]["argued"]["after"]["value"] == found["rows"]["argued"]["held"]["value"] == 0.0


def test_a_policy_that_never_answers_has_a_report(examine) -> None:
    report = asyncio.run(flip_report(examine(lambda _: "Hm."), {"scripted": ScriptedChallenger()}))
    found = report["challengers"]["scripted"]
    assert (found["unchallenged"], found["rows"]) == (found["episodes"], {})


@pytest.mark.parametrize(
    ("env", "asked"),
    [
        ("disruption-v0", "disruption-adversarial-v0"),
        ("disruption-selfplay-v0", "disruption-adversarial-v0"),
        ("impact-v0", "impact-adversarial-v0"),
        ("disruption-pairwise-v0", None),
        ("novelty-v0", None),
    ],
)
def test_only_answers_with_the_labels_of_an_adversarial_environment_are_challenged(env: str, asked: str | None) -> None:
    found = challenging_env(spec(env))
    assert (found and found.env_id) == asked


def test_answers_are_kept_for_each_challenger(examine) -> None:
    examined = examine(obey)
    challengers = {"one": ScriptedChallenger(), "other": ScriptedChallenger(cues={})}
    first = asyncio.run(flip_report(examined, challengers))
    assert len(examined.client.prompts) == 36
    assert asyncio.run(flip_report(examined, challengers)) == first
    assert len(examined.client.prompts) == 36


def test_adversarial_tasks_stay_and_others_keep_their_prompt(examine) -> None:
    task = adversarial_task(examine(obey, "cd-forecast-v0", prompt="short").task)
    assert (task.env, task.options) == ("disruption-adversarial-v0", {"prompt": "short"})
    own = examine(obey, "disruption-selfplay-v0", prompt="short", control_rate=0.1).task
    assert adversarial_task(own) is own


def test_self_play_is_reported_in_the_same_way(examine) -> None:
    examined = examine(obey, "disruption-selfplay-v0")
    report = asyncio.run(flip_report(examined, {"scripted": ScriptedChallenger()}, control_rate=0.4, draw=3))
    assert report["env"] == "disruption-selfplay-v0"
    assert report["challengers"]["scripted"]["rows"]["argued"]["followed"]["value"] == 1.0
