"""A tokenizer that several threads may use at once.

`EnvFromMessageEnv` renders every prompt in a thread of its own, and Hugging Face's fast tokenizers change a setting of
their Rust half whenever `split_special_tokens` differs from the call before, as it does between the pieces of one
prompt in the cookbook's Qwen3 renderers. Two threads that meet there fail with "Already borrowed".
"""

from __future__ import annotations

import copy
import threading
from typing import Any


class ThreadSafeTokenizer:
    """A copy of a tokenizer whose encoding and decoding take turns; everything else passes through."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = copy.deepcopy(tokenizer)
        self._turn = threading.Lock()

    def encode(self, *args: Any, **options: Any) -> Any:
        with self._turn:
            return self._tokenizer.encode(*args, **options)

    def decode(self, *args: Any, **options: Any) -> Any:
        with self._turn:
            return self._tokenizer.decode(*args, **options)

    def __call__(self, *args: Any, **options: Any) -> Any:
        with self._turn:
            return self._tokenizer(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_tokenizer", "_turn"):
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __reduce__(self) -> tuple[type[ThreadSafeTokenizer], tuple[Any]]:
        return ThreadSafeTokenizer, (self._tokenizer,)
