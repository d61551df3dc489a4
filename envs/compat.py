"""Internals of the cookbook and of transformers that the environments use; `tests/envs/test_compat.py` tests each.

- `EnvFromMessageEnv` renders every prompt in a thread of its own, by a private method. Hugging Face's fast tokenizers
  change a setting of their Rust half whenever `split_special_tokens` differs from the call before, as it does between
  the pieces of one prompt in the cookbook's Qwen3 renderers. Two threads that meet there fail with "Already borrowed"
  or, worse, encode `<|im_start|>` as plain text now and then.
- `EnvFromMessageEnv.step` ends an episode that was cut off, or that cannot be parsed, without calling
  `MessageEnv.step`, and only says so by metrics that other episodes do not have.
"""

from __future__ import annotations

import copy
import functools
import threading
from typing import Any

import tinker
from tinker_cookbook.renderers import Message
from tinker_cookbook.renderers.base import ParseTermination as ParseTermination
from tinker_cookbook.rl.message_env import EnvFromMessageEnv

CUT_OFF_METRICS = ("max_tokens_reached", "context_overflow")
"""Metrics of an episode that a token limit ended."""

EARLY_END_METRICS = (
    *CUT_OFF_METRICS,
    "parse_error",
    "stop/max_tokens",
    "stop/context_overflow",
    "stop/parse_error",
)
"""All metrics of an episode that ended early; absent where it did not, so that an average of them alone would be 1."""

REMEMBERED_TEXTS = 256
TO_LISTS = {"add_special_tokens", "split_special_tokens"}
"""Options of `encode` with which it returns a list of numbers and nothing else."""


class RenderedInPlace(EnvFromMessageEnv):
    """The cookbook's adapter, rendering where it is called. A prompt about a paper or two takes a millisecond."""

    async def _render_in_thread(self, messages: list[Message], **kwargs: Any) -> tinker.ModelInput:
        return self.renderer.build_generation_prompt(messages, **kwargs)


class ThreadSafeTokenizer:
    """A copy of a tokenizer whose encoding and decoding take turns; everything else passes through.

    It remembers the texts that it encoded last: all rollouts of a group begin with the same prompt.
    """

    def __init__(self, tokenizer: Any):
        self._tokenizer = copy.deepcopy(tokenizer)
        self._turn = threading.Lock()
        self._encoded = functools.lru_cache(maxsize=REMEMBERED_TEXTS)(self._tokenizer.encode)

    def encode(self, text: Any, *args: Any, **options: Any) -> Any:
        """The tokenizer's `encode`, by one thread at a time."""
        with self._turn:
            if isinstance(text, str) and not args and options.keys() <= TO_LISTS:
                return list(self._encoded(text, **options))
            return self._tokenizer.encode(text, *args, **options)

    def decode(self, *args: Any, **options: Any) -> Any:
        """The tokenizer's `decode`, by one thread at a time."""
        with self._turn:
            return self._tokenizer.decode(*args, **options)

    def __call__(self, *args: Any, **options: Any) -> Any:
        with self._turn:
            return self._tokenizer(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_tokenizer", "_turn", "_encoded"):
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __reduce__(self) -> tuple[type[ThreadSafeTokenizer], tuple[Any]]:
        return ThreadSafeTokenizer, (self._tokenizer,)
