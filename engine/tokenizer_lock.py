"""Making a Hugging Face tokenizer safe to share between threads.

The cookbook renders prompts in threads, and its Qwen renderers encode headers with special tokens and contents
without. A fast tokenizer switches between the two by a flag on itself, so two threads either crash ("Already
borrowed") or, worse, encode ``<|im_start|>`` as plain text now and then.
"""

import threading
from typing import Any

from transformers import PreTrainedTokenizerBase


def lock_tokenizer(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Let one thread at a time encode with `tokenizer`; changes it in place, once, and returns it.

    Apply it to what the cookbook's `get_tokenizer` returns: that object is cached, so renderers made later share
    the lock.
    """
    instance: Any = tokenizer
    encode = instance._encode_plus
    if getattr(encode, "is_locked", False):
        return tokenizer
    lock = threading.Lock()

    def locked(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return encode(*args, **kwargs)

    locked.is_locked = True  # pyright: ignore[reportFunctionMemberAccess]
    instance._encode_plus = locked
    return tokenizer
