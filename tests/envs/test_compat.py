"""Each internal of the cookbook that the environments lean on is still where it was, and does what it did."""

import asyncio
import pickle
from typing import Any

import pytest
from tinker_cookbook.renderers import Message
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from transformers import PreTrainedTokenizerFast

from scisci_gym.envs.compat import CUT_OFF_METRICS, EARLY_END_METRICS, RenderedInPlace, ThreadSafeTokenizer
from scisci_gym.envs.training.groups import SciSciTokenEnv


class Asks(MessageEnv):
    """Asks for ever; ends nothing by itself."""

    async def initial_observation(self):
        return [Message(role="user", content="Well?")]

    async def step(self, message):
        shown = [Message(role="user", content="And then?")]
        return MessageStepResult(reward=0.0, episode_done=False, next_messages=shown)


class Counting:
    """A tokenizer that counts how often it is asked."""

    calls = 0

    def encode(self, text, **options):
        self.calls += 1
        return [len(text), *options.values()]


class NeverAsked(Asks):
    """Fails if its `step` is called."""

    async def step(self, message):
        raise AssertionError("step was called")


def test_the_cookbook_still_renders_where_we_override_it():
    """`_render_in_thread` is private: if the cookbook renames it, threads would race on the tokenizer again."""
    assert "_render_in_thread" in vars(EnvFromMessageEnv)
    assert "_render_in_thread" in vars(RenderedInPlace)
    assert issubclass(SciSciTokenEnv, RenderedInPlace)


@pytest.mark.parametrize(("text", "reason"), [("cut", "length"), ("broken\x00", "stop")])
def test_an_early_end_does_not_reach_the_environment_and_is_named(byte_renderer, text, reason):
    env = EnvFromMessageEnv(byte_renderer, NeverAsked(), failed_parse_reward=-3.0, context_overflow_reward=-3.0)
    result = asyncio.run(env.step(list(text.encode()), extra={"stop_reason": reason}))
    assert (result.reward, result.episode_done) == (-3.0, True)
    assert set(result.metrics) <= set(EARLY_END_METRICS)
    assert bool(set(result.metrics) & set(CUT_OFF_METRICS)) == (reason == "length")


def test_a_conversation_that_outgrows_the_context_is_named(byte_renderer):
    env = EnvFromMessageEnv(byte_renderer, Asks(), context_overflow_reward=-3.0, max_trajectory_tokens=8)
    result = asyncio.run(env.step(list(b"So.")))
    assert (result.reward, result.episode_done) == (-3.0, True)
    assert set(result.metrics) == {"context_overflow", "stop/context_overflow"} <= set(EARLY_END_METRICS)


def test_a_tokenizer_has_the_methods_that_take_turns():
    for name in ("encode", "decode", "__call__"):
        assert callable(getattr(PreTrainedTokenizerFast, name))
        assert name in vars(ThreadSafeTokenizer)


def test_a_text_is_encoded_once_for_all_rollouts_of_a_group():
    tokenizer: Any = ThreadSafeTokenizer(Counting())
    first = tokenizer.encode("prompt", add_special_tokens=False)
    first.append(9)
    assert tokenizer.encode("prompt", add_special_tokens=False) == [6, False]
    assert tokenizer.encode("prompt", add_special_tokens=True) == [6, True]
    assert tokenizer.calls == 2
    assert [tokenizer.encode("prompt", return_tensors="pt")[1] for _ in range(2)] == ["pt", "pt"]
    assert (tokenizer.calls, pickle.loads(pickle.dumps(tokenizer)).encode("")) == (4, [0])
