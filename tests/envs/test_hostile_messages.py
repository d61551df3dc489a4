"""Whatever a message is, an environment grades it: an answer by the rules, and all else with the floor."""

import asyncio
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scisci_gym import make, specs
from scisci_gym.envs.kit.answers import answer_text, message_text, parse_label, parse_number, parse_probabilities
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.opponents.challengers import CUES, ScriptedChallenger
from scisci_gym.envs.selfplay import ObjectorEnv, Table
from scisci_gym.rewards import best_quotes, quote_credit

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=20)
TEXTS = st.sampled_from(
    [*(f"<answer>{said}</answer>" for said in ("neutral", "first", "0")), "a", "\ud800", "<answer>"]
)
JSON = st.recursive(
    LEAVES | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
PARTS = st.fixed_dictionaries({}, optional={"type": st.just("text") | JSON, "text": TEXTS | JSON, "thinking": JSON})
CONTENTS = JSON | st.lists(PARTS | JSON, max_size=4)
FIELDS = {"role": st.just("assistant") | JSON, "content": CONTENTS, "tool_calls": JSON}
MESSAGES = JSON | st.fixed_dictionaries({}, optional=FIELDS)
ENVS = [(env_class, env_class.examples(sample_papers())[0]) for env_class in specs()]


def graded(env, messages):
    """The last step, the reward and the last message of an episode in which the agent sends these, the last again."""

    async def run():
        await env.initial_observation()
        results = []
        while not results or not results[-1].episode_done:
            results.append(await env.step(messages[min(len(results), len(messages) - 1)]))
        return results[-1], sum(result.reward for result in results), messages[min(len(results), len(messages)) - 1]

    return asyncio.run(run())


def check(env, messages):
    last, reward, sent = graded(env, messages)
    valid = last.metrics.get("format_valid", last.metrics.get("objector_format_valid"))
    assert valid in (0.0, 1.0)
    assert env.reward_range[0] <= reward <= env.reward_range[1]
    if "<answer>" not in message_text(sent):
        assert (reward, valid) == (env.reward_range[0], 0.0)
        assert last.logs["predicted"] == ""


@pytest.mark.parametrize(("env_class", "example"), ENVS, ids=lambda value: getattr(value, "env_id", ""))
@given(messages=st.lists(MESSAGES, min_size=1, max_size=2))
@settings(max_examples=2 * settings.default.max_examples)
def test_any_message_is_graded_and_only_an_answer_earns_more_than_the_floor(env_class, example, messages):
    check(env_class(*example), messages)


@given(message=MESSAGES)
@settings(max_examples=2 * settings.default.max_examples)
def test_so_is_the_other_side_of_self_play(message):
    table = Table()
    table.say("A", None)
    check(ObjectorEnv(sample_papers()[0], table), [message])


@pytest.mark.parametrize(
    "message",
    [
        *(None, 7, b"<answer>neutral</answer>", "<answer>neutral</answer>", [], {}, {"content": None}, {"content": 3}),
        {"content": b"<answer>neutral</answer>"},
        {"content": ["<answer>neutral</answer>"]},
        {"content": [{"text": "<answer>neutral</answer>"}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": None}]},
        {"content": [{"type": "text", "text": "<answer>neutral</answer>"}, 1]},
        {"content": [{"type": "text", "text": "<answer>neutral</answer>"}, {"type": None}]},
    ],
)
@pytest.mark.parametrize(("env_class", "example"), ENVS, ids=lambda value: getattr(value, "env_id", ""))
def test_what_is_no_message_earns_the_floor(env_class, example, message):
    last, reward, _ = graded(env_class(*example), [message])
    assert reward == env_class.reward_range[0]
    assert last.metrics["format_valid"] == last.metrics["correct"] == 0.0


def test_text_parts_are_joined_and_thinking_is_left_out():
    parts = [
        {"type": "thinking", "thinking": "<answer>novel</answer>"},
        {"type": "text", "text": "So: <answer>neu"},
        {"type": "text", "text": "tral</answer>"},
    ]
    assert message_text({"role": "assistant", "content": parts}) == "So: <answer>neutral</answer>"


def test_a_message_without_a_role_comes_back_as_the_assistants():
    env = make("disruption-adversarial-v0", sample_papers()[0])

    async def run():
        await env.initial_observation()
        return await env.step({"content": "<answer>neutral</answer>"})

    roles = [message["role"] for message in asyncio.run(run()).next_messages]
    assert roles == ["user", "assistant", "user"]


LABELS = ("disruptive", "consolidating", "neutral")


@pytest.mark.parametrize(
    ("shares", "total"),
    [
        *(((0.98, 0, 0), "0.98"), ((0.5, 0.48, 0), "0.98"), ((0.33, 0.33, 0.32), "0.98"), ((0.1, 0.2, 0.68), "0.98")),
        *(((1, 0.02, 0), "1.02"), ((0.34, 0.34, 0.34), "1.02"), ((0.7, 0.31, 0.01), "1.02"), ((0.51, 0.51, 0), "1.02")),
    ],
)
def test_sums_at_the_bounds_are_taken(shares, total):
    found = parse_probabilities(said(shares), LABELS)
    assert found == pytest.approx([share / float(total) for share in shares])


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3))
@settings(max_examples=7 * settings.default.max_examples)
def test_a_sum_is_judged_in_whole_thousandths(thousandths):
    found = parse_probabilities(said([f"{part // 1000}.{part % 1000:03}" for part in thousandths]), LABELS)
    assert (found is not None) == (980 <= sum(thousandths) <= 1020)


@pytest.mark.parametrize("sum_of", [("0.979999999", "0", "0"), ("1", "0.020000001", "0")])
def test_sums_beyond_the_bounds_are_not(sum_of):
    assert parse_probabilities(said(sum_of), LABELS) is None


def said(shares):
    return f"<answer>{', '.join(f'{label}: {share}' for label, share in zip(LABELS, shares, strict=True))}</answer>"


@pytest.mark.parametrize("text", ["<anſwer>neutral</answer>", "<answer>neutral</anſwer>", "<ANſWER>neutral</ANſWER>"])
def test_a_long_s_is_no_letter_of_a_tag(text):
    assert answer_text(text) is None


def test_nor_of_a_label():
    assert parse_label("<answer>con\u017folidating</answer>", LABELS) is None
    env = make("impact-v0", sample_papers()[0])
    assert not env.grade("<answer>di\u017fruptive, novel</answer>").valid


@pytest.mark.parametrize("digit", "٣३３𝟑³")
def test_digits_of_other_scripts_are_no_numbers(digit):
    assert parse_number(f"<answer>0.{digit}</answer>", -1, 1) is None
    assert parse_number(f"<answer>{digit}</answer>", -10, 10) is None
    assert parse_probabilities(said((f"0.{digit}", "0.7", "0")), LABELS) is None


SIZE = 5_000_000
LONG = {
    name: piece * (SIZE // len(piece))
    for name, piece in {
        "letters": "a",
        "spaces": " ",
        "openings": "<answer>",
        "brackets": "<",
        "quotes": "<quote>a",
        "pairs": "<quote>a b c d e</quote>",
        "points": ".",
        "numbers": "0.",
        "lines": "\n",
        "commas": "disruptive: 0, ",
    }.items()
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(("env_class", "example"), ENVS, ids=lambda value: getattr(value, "env_id", ""))
def test_five_megabytes_are_read_once(env_class, example, name):
    """What is quadratic takes hours on these, and so runs into the time limit of the suite."""
    long = LONG[name]
    for text in (long, f"{long}<answer>", f"<answer>{long}</answer>", f"<answer>a</answer>{long}b"):
        last, reward, _ = graded(env_class(*example), [{"role": "assistant", "content": text}])
        assert reward == env_class.reward_range[0], last.logs


@pytest.mark.parametrize("word", ["a ", "-aa", "a", "ab. ", "\x00", "a! "])
def test_a_paper_of_a_megabyte_can_be_quoted(word):
    """A repetitive source is the worst case of a search: each place, and each passage of it, occurs everywhere."""
    source = word * (1_000_000 // len(word))
    for passage in (word * 20_000, word * 20_000 + "a", word * 5, best_quotes([source])[0]):
        assert 0 <= quote_credit(f"<quote>{passage}</quote>", [source]) <= 0.3


def test_a_challenger_reads_it_once_too():
    paper = dataclasses.replace(sample_papers()[0], abstract="<" + " " * SIZE)
    last, _, _ = graded(
        make("disruption-adversarial-v0", paper, control_rate=0.0), [{"content": "<answer>neutral</answer>"}]
    )
    assert last.episode_done
    assert ScriptedChallenger(CUES).evidence("first " * (SIZE // 6), "disruptive")[0]
    assert ScriptedChallenger(CUES).evidence("." * SIZE, "disruptive") == ("", [])
