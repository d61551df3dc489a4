"""A small byte-level BPE tokenizer with Qwen's chat tokens, and prompts and answers in its chat frame."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '\\n' if not loop.first else '' }}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>"
    "{% endfor %}{% if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif %}"
)
"""What the cookbook's `qwen3_instruct` renderer writes."""
Prompt = str | Sequence[Mapping[str, str]]
"""One user message, or a list of ``{"role": ..., "content": ...}``."""


def train_tokenizer(texts: Iterable[str], vocab_size: int, whole_words: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """Train a tokenizer in which every word of `whole_words` is one token, with and without a space before it.

    There are `vocab_size` tokens in all: 256 bytes, 3 special tokens, the whole words, and as many merges as are left.
    A `ValueError` says that it is too small, or that a word is split before BPE sees it ("a-b", "two words").
    """
    forms = list(dict.fromkeys(form for word in whole_words for form in (word, f" {word}")))
    smallest = 256 + 3 + 8 * len(forms)
    if vocab_size < smallest:
        raise ValueError(
            f"vocab_size {vocab_size} is too small for 256 bytes and {len(forms)} whole words; use {smallest} or more"
        )
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for form in forms:
        if len(pieces := byte_level.pre_tokenize_str(form)) != 1:
            raise ValueError(f"{form.strip()!r} cannot be one token: it splits into {[piece for piece, _ in pieces]}")
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = byte_level
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 8 * len(forms),
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe = _with_whole_words(bpe, forms)
    bpe.pre_tokenizer, bpe.decoder = byte_level, decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[TURN_START],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _with_whole_words(bpe: Tokenizer, forms: Sequence[str]) -> Tokenizer:
    """Add merges that join the pieces of each form.

    They come last, so they rank below all learned merges: a word falls into the pieces it always did, and those are
    then joined from the left. Words that contain a form ("nonneutral") may now end in its token, which changes
    nothing for the form.
    """
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for form in forms:
        while len(pieces := bpe.encode(form, add_special_tokens=False).tokens) > 1:
            state = json.loads(bpe.to_str())
            model = state["model"]
            joined = pieces[0] + pieces[1]
            model["vocab"].setdefault(joined, len(model["vocab"]))
            model["merges"].append([pieces[0], pieces[1]])
            bpe = Tokenizer.from_str(json.dumps(state))
            bpe.pre_tokenizer = byte_level
    return bpe


def messages(prompt: Prompt) -> list[tuple[str, str]]:
    """(role, content) of every message."""
    if isinstance(prompt, str):
        return [("user", prompt)]
    return [(message["role"], message["content"]) for message in prompt]


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Prompts up to and with the assistant's header, token by token as the `qwen3_instruct` renderer makes them.

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
