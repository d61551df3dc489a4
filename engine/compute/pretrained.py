"""Reading a Hugging Face causal language model from its folder, and what its architecture allows."""

import inspect
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedTokenizerBase,
)

from ..errors import RequestError
from . import attention
from .devices import Quantization

_ATTENTION = ("attn", "attention")
_MLP = ("mlp", "ffn", "feed_forward", "feedforward", "experts", "fc1", "fc2")
_ROUTERS = ("gate", "router")


class UnsupportedArchitecture(RequestError):
    """The model cannot decode with a cache of keys and values; it can be served plainly, see `BaseModel`."""


def read_pretrained(
    name: str, folder: Path, device: torch.device, dtype: torch.dtype, quantize: Quantization, *, plain: bool
) -> tuple[Any, Any, PreTrainedTokenizerBase]:
    """Network (frozen, on its device), configuration and tokenizer.

    Parameters
    ----------
    plain
        With the model's own written-out attention instead of the engine's.

    Raises
    ------
    RequestError
        If the folder holds no causal language model.
    UnsupportedArchitecture
        If the engine's attention does not fit the model.
    """
    config: Any = None
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        net: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            attn_implementation="eager" if plain else attention.NAME,
            **(_four_bits(device, dtype) if quantize == "4bit" else {}),
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        if config is not None and attention.NAME in str(error):
            raise UnsupportedArchitecture(f"{config.model_type} has an attention of its own") from error
        raise RequestError(f"base model {name!r} at {folder} cannot be loaded: {error}") from error
    if not plain and "position_ids" not in inspect.signature(net.forward).parameters:
        raise UnsupportedArchitecture(f"{type(net).__name__} takes no position_ids")
    if quantize == "4bit":
        for module in net.modules():
            # On some CPUs bitsandbytes repacks a weight at its first use, and it could not be made dense any more.
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = False
    else:
        # Quantised weights are put in their place while they are read.
        net = net.to(device)
    return net.eval().requires_grad_(False), config, tokenizer


def _four_bits(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": config, "device_map": {"": device}}


def part_of(name: str) -> str | None:
    """attn, mlp, or None for a layer that carries no adapter, by its name."""
    *path, leaf = name.split(".")
    if leaf in _ROUTERS:
        return None
    for component in (leaf, *reversed(path)):
        if any(word in component for word in _ATTENTION):
            return "attn"
        if any(word in component for word in _MLP):
            return "mlp"
    return None


def sliding_window(config: Any) -> int | None:
    """Tokens that a layer looks back at; None if all look at everything."""
    types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if types is not None:
        if unknown := set(types) - {"full_attention", "sliding_attention"}:
            raise UnsupportedArchitecture(f"it has {', '.join(sorted(unknown))} layers")
        return window if "sliding_attention" in types else None
    return window if getattr(config, "use_sliding_window", True) else None


def eos_ids(net: Any, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Tokens that end a text where the request names none."""
    generation = getattr(net, "generation_config", None)
    for source in (generation, net.config, tokenizer):
        eos = getattr(source, "eos_token_id", None)
        if eos is not None:
            return frozenset(eos if isinstance(eos, list) else [eos])
    return frozenset()
