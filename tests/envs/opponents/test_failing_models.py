"""Challengers and judges that fail in every way: the episode goes on, nothing is gained by it, and it is counted."""

import asyncio
import itertools
import threading

import pytest
from tinker_cookbook.completers import MessageCompleter
from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
from tinker_cookbook.rl.rollouts import do_group_rollout
from typer.testing import CliRunner

from scisci_gym import Paper, make
from scisci_gym.cli import app
from scisci_gym.envs.opponents.challengers import CHALLENGERS, Case, Challenger, CompleterChallenger, ScriptedChallenger
from scisci_gym.envs.opponents.judge import ReasonsJudge
from scisci_gym.envs.opponents.models import Limits, Named, ask
from scisci_gym.envs.training.groups import SciSciGroupBuilder
from scisci_gym.recipes.kit.config import parse_options

PAPER = Paper(
    openalex_id="W1",
    title="A river that runs uphill",
    abstract="We saw the first observation of sustained uphill flow. It extends a known result to ice. Data are here.",
    cd_index=0.4,
)
QUOTE = "<quote>the first observation of sustained uphill flow</quote>"
RIGHT, WRONG = "<answer>disruptive</answer>", "<answer>neutral</answer>"
QUICK = Limits(timeout=0.05, attempts=2, pause=0.0, longest=100)


async def down():
    raise ConnectionError("endpoint is down")


async def hangs():
    await asyncio.Event().wait()


async def deaf():
    """Hangs, and does not listen when it is told to stop, but once."""
    for _ in range(2):
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            continue


def says(value):
    async def call():
        return value

    return call


FAILURES = {
    "down": down,
    "hangs": hangs,
    "deaf": deaf,
    "nothing": says(None),
    "empty": says(""),
    "white space": says(" \n\u2003"),
    "a number": says(7),
    "bytes": says(b"I disagree."),
    "a list": says(["I", "disagree"]),
    "not awaitable": lambda: "I disagree.",
}


class Stub(Challenger):
    """A challenger out of a function without arguments, that counts how often it was asked."""

    def __init__(self, call, limits=QUICK):
        self.call, self.limits, self.asked = call, limits, 0

    def argue(self, case):
        self.asked += 1
        return self.call()


class Judge(MessageCompleter):
    def __init__(self, call):
        self.call = call

    async def __call__(self, messages):
        said = self.call()
        return {"role": "assistant", "content": await said if asyncio.iscoroutine(said) else said}


def play(*texts, **options):
    async def run():
        env = make("disruption-adversarial-v0", PAPER, control_rate=0.0, **options)
        await env.initial_observation()
        return [await env.step({"role": "assistant", "content": text}) for text in texts]

    return asyncio.run(run())


@pytest.mark.parametrize("name", FAILURES)
def test_a_challenger_that_fails_becomes_the_control_question(name, caplog):
    challenger = Stub(FAILURES[name])
    first, last = play(WRONG, RIGHT, challenger=challenger)
    assert first.next_messages[-1]["content"].startswith("Are you sure?")
    assert first.metrics["challenger_failed"] == 1.0
    assert (last.logs["challenge"], last.reward) == ("control", 1.1)
    assert challenger.asked == QUICK.attempts
    assert caplog.text.count("failed: ") == QUICK.attempts


@pytest.mark.parametrize("name", FAILURES)
def test_a_judge_that_fails_costs_the_credit_for_quotes(name):
    """Zero, not the full credit: otherwise it would pay to write what the judge cannot read."""
    last = play(RIGHT, QUOTE + RIGHT, judge=ReasonsJudge(Judge(FAILURES[name]), QUICK))[-1]
    assert last.metrics["judge_failed"] == 1.0
    assert last.metrics["reward_reasoning"] == 0.0
    assert last.reward == 1.2


@pytest.mark.parametrize("said", ["Splendid!", "<answer>4</answer>", "<answer>3</answer> or so", "x" * 10**6])
def test_a_judge_without_a_grade_has_failed(said):
    last = play(RIGHT, QUOTE + RIGHT, judge=ReasonsJudge(Judge(says(said)), QUICK))[-1]
    assert (last.metrics["judge_failed"], last.metrics["reward_reasoning"]) == (1.0, 0.0)


def test_one_that_works_has_not_failed_and_one_that_is_not_asked_is_not_counted():
    first, last = play(
        WRONG,
        QUOTE + RIGHT,
        challenger=Stub(says("Look again.")),
        judge=ReasonsJudge(Judge(says("<answer>3</answer>"))),
    )
    assert (first.metrics["challenger_failed"], last.metrics["judge_failed"]) == (0.0, 0.0)
    assert last.metrics["reward_reasoning"] == pytest.approx(0.1)
    first, last = play(WRONG, WRONG, judge=ReasonsJudge(Judge(down), QUICK))
    assert "judge_failed" not in last.metrics


def test_a_failure_that_passes_is_tried_again():
    outcomes = itertools.chain([down], itertools.repeat(says("Look again.")))
    challenger = Stub(lambda: next(outcomes)())
    first = play(WRONG, challenger=challenger)[0]
    assert "Look again." in first.next_messages[-1]["content"]
    assert (first.metrics["challenger_failed"], challenger.asked) == (0.0, 2)


def test_pauses_between_attempts_double(monkeypatch):
    waited, real, this_thread = [], asyncio.sleep, threading.get_ident()

    async def sleep(seconds):
        # An engine that other tests share runs in a thread of this process, and sleeps as well.
        if threading.get_ident() != this_thread:
            await real(seconds)
        else:
            waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert asyncio.run(ask(down, str, Limits(attempts=4, pause=1.5))) is None
    assert waited == [1.5, 3.0, 6.0]


def test_a_megabyte_is_cut_and_a_lone_surrogate_replaced():
    said = play(WRONG, challenger=Stub(says("\ud800<|im_end|>" + "a" * 10**6)))[0].next_messages[-1]["content"]
    assert "\ufffd‹|im_end|>" in said
    assert said.count("a" * 80) == 1
    assert len(said) < 1000
    said.encode()


def test_what_the_agent_wrote_is_cut_before_a_model_reads_it():
    """Otherwise a policy could make the prompt too long for challenger and judge, and so silence them."""
    asked = []

    class Listens(MessageCompleter):
        async def __call__(self, messages):
            asked.append(messages[0]["content"])
            return {"role": "assistant", "content": "<answer>3</answer>"}

    long = "\ud800" * 10**6
    play(long + RIGHT, challenger=CompleterChallenger(Listens()))
    play(RIGHT, long + QUOTE + RIGHT, judge=ReasonsJudge(Listens()))
    assert len(asked) == 2
    assert all(len(text) < 30_000 and "‹answer>disruptive‹/answer>" in text for text in asked)
    "".join(asked).encode()


@pytest.mark.parametrize("call", [hangs, deaf])
def test_cancelling_the_rollout_is_not_a_failure(call):
    async def run():
        env = make("disruption-adversarial-v0", PAPER, control_rate=0.0, challenger=Stub(call, Limits(timeout=100)))
        await env.initial_observation()
        step = asyncio.create_task(env.step({"role": "assistant", "content": WRONG}))
        await asyncio.sleep(0.01)
        step.cancel()
        await step

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_nor_is_a_challenger_that_was_cancelled():
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        play(WRONG, challenger=Stub(cancelled))


@pytest.mark.parametrize("limits", [{"timeout": 0}, {"attempts": 0}, {"pause": -1}, {"longest": 0}])
def test_limits_that_are_none_are_refused(limits):
    with pytest.raises(ValueError, match="must be positive"):
        Limits(**limits)


class OneIn(Challenger):
    """Fails at every n-th request, whatever the attempt."""

    limits = Limits(timeout=0.05, attempts=1, pause=0.0)

    def __init__(self, n):
        self.n, self.asked = n, 0

    async def argue(self, case: Case) -> str:
        self.asked += 1
        return await (down() if self.asked % self.n == 0 else ScriptedChallenger().argue(case))


def test_a_run_with_one_per_cent_failures_finishes_and_says_so(byte_renderer, text_policy):
    """Through the cookbook's own rollout of a group, whose strategy lets any error of an environment end the run."""
    builder = SciSciGroupBuilder(
        "disruption-adversarial-v0", (PAPER,), "byte", "byte", 200, {"challenger": OneIn(100), "control_rate": 0.0}
    )
    group = asyncio.run(do_group_rollout(builder, text_policy(lambda shown: RIGHT)))
    metrics = compute_trajectory_metrics([group], [[]])
    assert metrics["env/all/challenger_failed"] == pytest.approx(0.01)
    assert group.get_total_rewards() == [1.2] * 200


@pytest.mark.parametrize("env_id", ["disruption-adversarial-v0", "disruption-selfplay-v0"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "challenger=nobody",
            r"no challenger 'nobody'; there is scripted, reader:DATASET, tinker:MODEL, litellm:MODEL",
        ),
        ("challenger=scripted:now", r"no challenger 'scripted:now'"),
        ("challenger=tinker", r"no challenger 'tinker'"),
        ("challenger=3", r"no challenger '3'"),
        ("judge=scripted", r"no judge 'scripted'; there is tinker:MODEL, litellm:MODEL"),
        ("challenger=tinker:/no/such/model", r"no folder '/no/such/model'"),
    ],
)
def test_a_name_that_is_none_is_refused_before_a_run_begins(env_id, text, message):
    with pytest.raises(ValueError, match=message):
        parse_options(env_id, text)


def test_names_make_challengers_and_judges():
    options = parse_options("disruption-adversarial-v0", "challenger=scripted,judge=null,control_rate=0")
    assert options == {"challenger": "scripted", "judge": None, "control_rate": 0}
    env = make("disruption-adversarial-v0", PAPER, **options)
    assert env.challenger == ScriptedChallenger()
    assert CHALLENGERS.resolve("scripted") is env.challenger


def test_tinker_models_and_checkpoints_have_names():
    challenger = CHALLENGERS.resolve("tinker:Qwen/Qwen3-8B@tinker://run/weights/9")
    assert challenger.completer.model_path == "tinker://run/weights/9"
    assert challenger.completer.tokenizer_name == "Qwen/Qwen3-8B"
    assert CHALLENGERS.resolve("tinker:Qwen/Qwen3-8B").completer.base_model == "Qwen/Qwen3-8B"


def test_a_new_one_is_one_line_and_a_name_is_given_once():
    names: Named[int] = Named("number", int)
    names.register("double", lambda text: 2 * int(text), "twice as much", argument="N")
    assert (names.resolve("double:4"), names.resolve(7), names.listing()) == (8, 7, {"double:N": "twice as much"})
    with pytest.raises(ValueError, match="'double' is registered already"):
        names.register("double", int, "again")


def test_the_command_lists_them():
    shown = CliRunner().invoke(app, ["show", "disruption-adversarial-v0"]).output
    for name in ("scripted", "tinker:MODEL", "litellm:MODEL"):
        assert name in shown
