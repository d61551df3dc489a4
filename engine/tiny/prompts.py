"""Prompts and answers in the chat frame, as token ids."""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from .chat_tokenizer import TURN_END, TURN_START

Prompt = str | Sequence[Mapping[str, str]]
"""One user message, or a list of ``{"role": ..., "content": ...}``."""


def messages(prompt: Prompt) -> list[tuple[str, str]]:
    """(role, content) of every message."""
    if isinstance(prompt, str):
        return [("user", prompt)]
    return [(message["role"], message["content"]) for message in prompt]


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: Prompt) -> list[int]:
    """The prompt up to and with the assistant's header, token by token as the `qwen3_instruct` renderer makes it."""
    return all_prompt_ids(tokenizer, [prompt])[0]


def all_prompt_ids(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> list[list[int]]:
    """`prompt_ids` of many prompts, several times faster.

    Header, content and end are encoded apart, and special tokens inside a content are plain text.
    """
    contents = [content for prompt in prompts for _, content in messages(prompt)]
    batch: Any = tokenizer(contents, add_special_tokens=False, split_special_tokens=True)
    encoded = iter(batch["input_ids"])
    pieces: dict[str, list[int]] = {}

    def piece(text: str) -> list[int]:
        if text not in pieces:
            pieces[text] = _encode(tokenizer, text)
        return pieces[text]

    out = []
    for prompt in prompts:
        ids: list[int] = []
        for i, (role, _) in enumerate(messages(prompt)):
            ids += piece(f"{chr(10) if i else ''}{TURN_START}{role}\n")
            ids += next(encoded)
            ids += piece(TURN_END)
        out.append(ids + piece(f"\n{TURN_START}assistant\n"))
    return out


def answer_ids(tokenizer: PreTrainedTokenizerBase, answer: str) -> list[int]:
    """The assistant's answer and the end of its turn."""
    content = tokenizer.encode(answer, add_special_tokens=False, split_special_tokens=True)
    return content + _encode(tokenizer, TURN_END)


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)
