"""From a GGUF file (llama.cpp's format for quantised weights) to a Hugging Face folder.

transformers reads the weights and the configuration. It makes another tokenizer of a file with a byte-level BPE than
the model was trained with (it puts a first token before every text and adds five tokens outside the vocabulary), so
the tokenizer is made here.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..compute.compat import disable_progress_bar

_CONTROL_TOKEN = 3
"""GGUF's type of a token that marks structure and is no text."""


def _byte_level() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _digits_then_byte_level() -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _byte_level()])


_SPLITS: dict[str, Callable[[], Any]] = {"gpt-2": _byte_level, "smollm": _digits_then_byte_level}
"""How a text is split before BPE, by `tokenizer.ggml.pre`."""


def check_gguf_is_installed() -> None:
    """Raise `ModuleNotFoundError`, saying what to install, where the package `gguf` is missing."""
    if importlib.util.find_spec("gguf") is None:
        raise ModuleNotFoundError("GGUF files are read with the package gguf: pip install 'scisci-gym[gguf]'")


def write_from_gguf(file: Path, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write the model of a GGUF file, its weights dequantised to `dtype`, with its tokenizer into `folder`.

    Raises
    ------
    ModuleNotFoundError
        Without the package `gguf`.
    ValueError
        If the file's tokenizer is not a byte-level BPE of a kind that is known here.
    """
    check_gguf_is_installed()
    tokenizer = _tokenizer(file)
    disable_progress_bar()
    net: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=dtype)
    net.save_pretrained(folder)
    tokenizer.model_max_length = net.config.max_position_embeddings
    tokenizer.save_pretrained(folder)


def _tokenizer(file: Path) -> PreTrainedTokenizerBase:
    from gguf import GGUFReader  # pyright: ignore[reportMissingImports]

    fields = GGUFReader(file).fields

    def value(name: str) -> Any:
        return fields[f"tokenizer.{name}"].contents() if f"tokenizer.{name}" in fields else None

    kind, split = value("ggml.model"), value("ggml.pre") or "gpt-2"
    if kind != "gpt2" or split not in _SPLITS:
        raise ValueError(
            f"{file.name} has a tokenizer of kind {kind!r}, split by {split!r}; known are byte-level BPE (gpt2) "
            f"split by {', '.join(_SPLITS)}"
        )
    tokens: list[str] = value("ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in value("ggml.merges")]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer, bpe.decoder = _SPLITS[split](), decoders.ByteLevel()
    named = {
        f"{name}_token": tokens[place]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (place := value(f"ggml.{key}_token_id")) is not None
    }
    types = value("ggml.token_type") or []
    control = [token for token, kind in zip(tokens, types, strict=False) if kind == _CONTROL_TOKEN]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, additional_special_tokens=control, clean_up_tokenization_spaces=False, **named
    )
    tokenizer.chat_template = value("chat_template")
    return tokenizer
