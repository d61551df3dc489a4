"""Every alarm: on where it should be, and silent next to its threshold."""

import math

import pytest

from scisci_gym.recipes.monitoring.alarms import RECENT, Alarm, alarms, history

REWARD, CORRECT, ENTROPY = "env/all/reward/total", "env/all/correct", "optim/entropy"
KL, KL_V1, REFERENCE = "optim/kl_sample_train_v2", "optim/kl_sample_train_v1", "kl_policy_base"
UNIFORM, FLOOR, BEST = (f"env/all/reward_uniform_{part}_rate" for part in ("group", "floor", "best"))


def rows(**columns: list) -> list[dict]:
    """One row for each step; None leaves the metric out of that row."""
    length = max(map(len, columns.values()))
    names = {"r": REWARD, "c": CORRECT, "h": ENTROPY, "kl": KL, "kl1": KL_V1, "ref": REFERENCE}
    names |= {
        "uniform": UNIFORM,
        "floor": FLOOR,
        "best": BEST,
        "cut": "env/all/truncated",
        "thinking": "env/all/truncated_thinking",
    }
    names |= {
        "parsed": "env/all/format_valid",
        "nll": "train_mean_nll",
        "dpo": "dpo_loss",
        "answered": "validation/answered",
    }
    names |= {f"{kind}_{label}": f"env/all/{kind}/{label}" for kind in ("predicted", "expected") for label in "ab"}
    return [
        {"step": step, **{names[n]: c[step] for n, c in columns.items() if step < len(c) and c[step] is not None}}
        for step in range(length)
    ]


def names(found: list[Alarm]) -> list[tuple[str, str]]:
    return [(alarm.name, alarm.level) for alarm in found]


HEALTHY = rows(
    r=[-0.5 + 0.05 * step for step in range(20)],
    c=[0.3 + 0.02 * step for step in range(20)],
    h=[1.0 - 0.02 * step for step in range(20)],
    kl=[1e-4] * 20,
    kl1=[-1e-4] * 20,
    ref=[0.01 * step for step in range(20)],
    uniform=[0.3] * 20,
    floor=[0.1] * 20,
    best=[0.2] * 20,
    cut=[0.02] * 20,
    parsed=[0.98] * 20,
    predicted_a=[0.6] * 20,
    expected_a=[0.5] * 20,
)


def test_a_healthy_run_has_none() -> None:
    assert alarms(HEALTHY) == []
    assert history(HEALTHY) == []


@pytest.mark.parametrize("few", [[], HEALTHY[:1], [{"step": 0}], [{"step": 0, "text": "x", "flag": True}]])
def test_runs_that_have_hardly_begun_have_none(few: list[dict]) -> None:
    assert alarms(few) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_finite_is_an_error_for_good_and_names_the_metric(value: float) -> None:
    run = rows(r=[0.0, value, 0.1, 0.2])
    (alarm,) = alarms(run)
    assert (alarm.name, alarm.level, alarm.step) == ("not-finite", "error", 1)
    assert REWARD in alarm.message


def test_sampler_kl() -> None:
    assert names(alarms(rows(kl=[1e-4, 1e-4, 0.11]))) == [("kl-spike", "error")]
    assert names(alarms(rows(kl=[1e-4, 0.11, 1e-4]))) == [], "a spike that is over"
    assert names(alarms(rows(kl=[0.02] * 5))) == [("kl-high", "warning")]
    assert names(alarms(rows(kl=[0.02] * 4))) == [], "too few steps for a median"
    assert names(alarms(rows(kl=[0.009] * 5))) == []
    assert names(alarms(rows(kl=[0.02, 0.02, 0.001, 0.001, 0.001]))) == [], "the median, not the mean"
    assert names(alarms(rows(kl1=[-0.2]))) == [("kl-spike", "error")], "v1 may be negative"


def test_reference_kl_alarms_on_a_jump_and_not_on_learning() -> None:
    assert names(alarms(rows(ref=[0.1] * 10 + [0.5]))) == [("kl-spike", "warning")]
    assert names(alarms(rows(ref=[0.1] * 10 + [0.39]))) == []
    assert names(alarms(rows(ref=[0.001] * 10 + [0.2]))) == [], "below the floor, any factor is noise"
    assert names(alarms(rows(ref=[0.1] * 4 + [0.9]))) == [], "too few steps before"


def test_entropy_collapse_unless_the_policy_is_right() -> None:
    falling = [1.0] * RECENT + [0.05] * RECENT
    assert names(alarms(rows(h=falling, c=[0.4] * 10))) == [("entropy-collapse", "warning")]
    assert names(alarms(rows(h=falling))) == [("entropy-collapse", "warning")]
    assert names(alarms(rows(h=falling, c=[0.95] * 10))) == []
    assert names(alarms(rows(h=[1.0] * RECENT + [0.11] * RECENT))) == []


def test_label_collapse_is_measured_against_how_often_the_label_is_right() -> None:
    assert names(alarms(rows(predicted_a=[0.97] * 5, expected_a=[0.4] * 5))) == [("label-collapse", "warning")]
    assert names(alarms(rows(predicted_a=[0.97] * 5, expected_a=[0.9] * 5))) == [], "hits are rare: ordinary is right"
    assert names(alarms(rows(predicted_a=[0.94] * 5, expected_a=[0.4] * 5))) == []
    assert names(alarms(rows(predicted_a=[0.97] * 4, expected_a=[0.4] * 4))) == [], "four steps are not enough"
    (alarm,) = alarms(rows(predicted_a=[0.0] * 5, predicted_b=[1.0] * 5, expected_a=[0.5] * 5, expected_b=[0.5] * 5))
    assert "'b'" in alarm.message


def test_saturated_groups_say_which_way() -> None:
    (solved,) = alarms(rows(uniform=[0.95] * 5, best=[0.9] * 5, floor=[0.05] * 5))
    (hopeless,) = alarms(rows(uniform=[0.95] * 5, best=[0.0] * 5, floor=[0.95] * 5))
    assert solved.name == hopeless.name == "saturated-groups"
    assert "solved" in solved.message
    assert "too hard" in hopeless.message
    assert alarms(rows(uniform=[0.9] * 5, best=[0.9] * 5, floor=[0.0] * 5)) == []


def test_truncation_and_answers_that_do_not_parse() -> None:
    assert names(alarms(rows(cut=[0.12] * 5))) == [("truncation", "warning")]
    assert names(alarms(rows(cut=[0.1] * 5))) == []
    assert "thinking" not in alarms(rows(cut=[0.4] * 5, thinking=[0.1] * 5))[0].message
    assert "30% while still thinking; raise max_tokens" in alarms(rows(cut=[0.4] * 5, thinking=[0.3] * 5))[0].message
    assert names(alarms(rows(parsed=[0.4] * 5))) == [("unparsed", "warning")]
    assert names(alarms(rows(parsed=[0.5] * 5))) == []


@pytest.mark.parametrize("loss", ["nll", "dpo"])
def test_a_loss_that_rises(loss: str) -> None:
    assert names(alarms(rows(**{loss: [0.5] * 5 + [0.3] * 5 + [0.6] * 5}))) == [("loss-rise", "warning")]
    assert names(alarms(rows(**{loss: [0.5] * 5 + [0.3] * 5 + [0.44] * 5}))) == []
    assert names(alarms(rows(**{loss: [0.01] * 5 + [0.05] * 5}))) == [], "five times nothing is nothing"


def test_errors_come_first() -> None:
    run = rows(cut=[0.5] * 6, kl=[0.0, 0.0, 0.0, 0.0, 0.0, 0.5])
    assert names(alarms(run)) == [("kl-spike", "error"), ("truncation", "warning")]


def test_history_says_from_when_to_when() -> None:
    run = rows(cut=[0.0] * 10 + [0.5] * 5 + [0.0] * 10)
    ((alarm, first, last),) = history(run)
    # The mean of five steps passes 0.1 with the second bad one and falls to it with the fourth good one.
    assert (alarm.name, first, last) == ("truncation", 11, 17)
    assert history(run, points=5)[0][0].name == "truncation", "fewer looks, the same alarm"


@pytest.mark.parametrize("metric", ["parsed", "answered"])
def test_a_policy_that_does_not_know_the_format_is_an_error_from_its_first_step_until_it_learns_it(metric: str) -> None:
    untrained = ("untrained-format", "error")
    assert names(alarms(rows(**{metric: [0.0]}))) == [untrained]
    assert untrained in names(alarms(rows(**{metric: [0.01] * 5})))
    assert untrained not in names(alarms(rows(**{metric: [0.0, 0.5]})))
    # A format that is lost later is another matter.
    assert untrained not in names(alarms(rows(**{metric: [0.9, 0.0]})))
    assert alarms(rows(**{metric: [0.9]})) == []
