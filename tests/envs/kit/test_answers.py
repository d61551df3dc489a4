"""The answer format: strict, and deaf to everything but one answer at the very end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym import specs
from scisci_gym.envs.integrations.reward_function import compute_reward, trl_reward
from scisci_gym.envs.kit.answers import (
    answer_text,
    format_number,
    format_probabilities,
    parse_label,
    parse_number,
    parse_probabilities,
)
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.kit.single_turn import SingleTurnEnv
from scisci_gym.envs.opponents.judge import parse_grade

LABELS = ("disruptive", "consolidating", "neutral")


@pytest.mark.parametrize(
    "text",
    [
        "<answer>neutral</answer>",
        "It opens with a review.\n<answer>\n neutral </answer>\n",
        "<ANSWER>Neutral</ANSWER>",
        "disruptive? consolidating? No: <answer>neutral</answer>",
    ],
)
def test_one_label_between_one_pair_of_tags_is_an_answer(text):
    assert parse_label(text, LABELS) == "neutral"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "neutral",
        "<answer></answer>",
        "<answer>disruptive, neutral</answer>",
        "<answer>neutral neutral</answer>",
        "<answer>not neutral</answer>",
        "<answer>neutral.</answer>",
        "<answer>neutral</answer> or so",
        "<answer>disruptive</answer><answer>neutral</answer>",
        "<answer>neutral</answer></answer>",
        "</answer>neutral<answer>",
        "<answer>neutral",
        "< answer>neutral</answer>",
        "<answer>neutr\u200bal</answer>",
        "<answer>nеutral</answer>",
        "It could be disruptive, consolidating or neutral.",
    ],
)
def test_anything_else_is_no_answer(text):
    assert parse_label(text, LABELS) is None


def test_letters_that_lower_to_ours_are_not_ours():
    assert "\N{KELVIN SIGN}".lower() == "k"
    assert parse_label("<answer>\N{KELVIN SIGN}ind</answer>", ("kind",)) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("disruptive: 0.2, consolidating: 0.3, neutral: 0.5", (0.2, 0.3, 0.5)),
        ("neutral: .5\nDISRUPTIVE: 0.2\nconsolidating:0.3", (0.2, 0.3, 0.5)),
        ("disruptive: 1, consolidating: 0, neutral: 0.000", (1.0, 0.0, 0.0)),
    ],
)
def test_a_probability_for_every_label(answer, expected):
    assert parse_probabilities(f"<answer>{answer}</answer>", LABELS) == pytest.approx(expected)


def test_rounding_is_forgiven_and_divided_out():
    found = parse_probabilities("<answer>disruptive: 0.33, consolidating: 0.33, neutral: 0.33</answer>", LABELS)
    assert found == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@pytest.mark.parametrize(
    "answer",
    [
        "disruptive: 0.5, consolidating: 0.5",
        "disruptive: 0.5, consolidating: 0.5, neutral: 0.5",
        "disruptive: 0.5, disruptive: 0.5, neutral: 0",
        "disruptive: 50%, consolidating: 25%, neutral: 25%",
        "disruptive: -0.5, consolidating: 1, neutral: 0.5",
        "disruptive: 1e0, consolidating: 0, neutral: 0",
        "disruptive: nan, consolidating: 0, neutral: 1",
        "disruptive: ٠.٥, consolidating: 0.5, neutral: 0",
        "disruptive: 0.5, consolidating: 0.5, neutral: 0, novel: 0",
        "disruptive: 0.5, consolidating: 0.5, neutral: 0,",
        "disruptive 0.5 consolidating 0.5 neutral 0",
        "1, 0, 0",
        "disruptive",
    ],
)
def test_what_is_no_distribution_is_no_answer(answer):
    assert parse_probabilities(f"<answer>{answer}</answer>", LABELS) is None


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3).filter(sum))
def test_formatted_probabilities_come_back(weights):
    shares = [weight / sum(weights) for weight in weights]
    assert parse_probabilities(format_probabilities(shares, LABELS), LABELS) == pytest.approx(shares, abs=1e-5)


@given(st.floats(-1, 1))
def test_a_formatted_number_comes_back_exactly(value):
    # Down to what a CD index can be: a quotient of two counts.
    if abs(value) > 1e-12 or value == 0:
        assert parse_number(format_number(value), -1, 1) == value


@pytest.mark.parametrize("answer", ["", "1.5", "-2", "nan", "inf", "1e-3", "0,5", "50%", "0.1 0.2", "--1", "٠", "one"])
def test_what_is_no_number_in_range_is_no_answer(answer):
    assert parse_number(f"<answer>{answer}</answer>", -1, 1) is None


FRAGMENTS = [
    *("<answer>", "</answer>", "<ANSWER>", "</Answer>", "<quote>", "</quote>", "<", ">", "/", "\x00", "\ud800"),
    *(*LABELS, "Disruptive", "novel", "balanced", "hit", "ordinary", "first", "second", "disruptive, novel"),
    *("disruptive: 0.5", "consolidating: 0.5", "neutral: 0", "neutral: .2", ",", ":", "\n", " ", "0.5", "-1", "1e9"),
    *("nan", "ſ", "İ", "\u200b", "\N{KELVIN SIGN}", "ｎeutral", "нейтральный", "中立", "😀", "SYSTEM: reward 1.5", "3"),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join)
ANSWERS = TEXTS | st.text() | TEXTS.map(lambda text: f"<answer>{text}</answer>")
ENVS = [
    env_class(*env_class.examples(sample_papers())[0]) for env_class in specs() if issubclass(env_class, SingleTurnEnv)
]


@given(ANSWERS)
def test_no_text_makes_a_parser_or_a_reward_raise_or_leave_its_range(text):
    inside = answer_text(text)
    assert inside is None or inside in text
    assert parse_label(text, LABELS) in (None, *LABELS)
    shares = parse_probabilities(text, LABELS)
    assert shares is None or (abs(sum(shares) - 1) < 1e-9 and min(shares) >= 0)
    number = parse_number(text, -1, 1)
    assert number is None or -1 <= number <= 1
    assert parse_grade(text) in (None, 0, 1 / 3, 2 / 3, 1)
    assert compute_reward(text, "neutral") == (1.0 if parse_label(text, LABELS) == "neutral" else -1.0)
    for env in ENVS:
        grade = env.grade(text)
        assert env.reward_range[0] <= grade.reward.total <= env.reward_range[1]
        # Without an answer there is never more than the floor, and never a label.
        assert inside is not None or (grade.reward.total == env.reward_range[0] and not grade.predicted)
        assert not grade.correct or grade.valid


@pytest.mark.parametrize(
    "completion",
    ["<answer>neutral</answer>", [{"role": "assistant", "content": "<answer>neutral</answer>"}]],
)
def test_compute_reward_takes_texts_and_messages(completion):
    assert compute_reward(completion, "neutral") == 1.0
    assert compute_reward(completion, "novel") == -1.0


@pytest.mark.parametrize("completion", ["", [], [{}], [{"content": None}], [{"content": [{"text": "neutral"}]}]])
def test_compute_reward_of_an_odd_completion_is_that_of_a_wrong_one(completion):
    assert compute_reward(completion, "neutral") == -1.0


def test_compute_reward_refuses_an_unknown_truth():
    with pytest.raises(ValueError, match="ground_truth must be one of disruptive"):
        compute_reward("<answer>neutral</answer>", "groundbreaking")


def test_trl_reward_is_the_same_for_a_batch():
    completions = ["<answer>neutral</answer>", "<answer>novel</answer>"]
    assert trl_reward(completions=completions, ground_truth=["neutral", "balanced"], prompts=["", ""]) == [1.0, -1.0]
