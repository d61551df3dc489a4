"""How many bytes a pass or a cache takes, estimated before it is made.

A system that has promised more memory than it has ends the whole process when the memory is used: what cannot fit is
refused before.
"""

import ctypes
from pathlib import Path

import torch

from ..errors import RequestError
from .model import BaseModel

PASS_BYTES = 1 << 30
"""Memory for what a pass keeps for its gradient; a single long sequence may take more, and then keeps less."""
FEWEST_TOKENS = 512
"""Tokens of a pass that even a large model reads together: fewer would not use the hardware."""
KEPT = 1.5
"""Numbers that are kept for the gradient, per input and output of a linear layer."""
WIDTHS_PER_LAYER = 8
"""Inputs and outputs of a layer's linear layers, in widths of the model: at least."""
LOGITS_COPIES = 5
"""Tables of logits in float32 at the same time: the logits, their logarithms and the gradients of both, and slack."""


def pass_tokens(base: BaseModel) -> int:
    """Tokens whose activations fit into `PASS_BYTES`."""
    return max(FEWEST_TOKENS, int(PASS_BYTES / _activation_bytes(base)))


def training_bytes(base: BaseModel, tokens: int, logits: int, *, checkpointed: bool) -> int:
    """Bytes that the forward and backward pass over `tokens` takes beyond the weights, with this many logits at once.

    With `checkpointed` every layer keeps its input only, and one layer at a time all the rest.
    """
    kept = _activation_bytes(base)
    if checkpointed:
        kept = kept / base.num_layers + base.num_layers * base.config.hidden_size * base.dtype.itemsize
    return int(tokens * kept) + LOGITS_COPIES * 4 * logits


def cache_bytes(base: BaseModel, tokens: int) -> int:
    """Bytes of the keys and values of `tokens`."""
    config = base.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * tokens * base.num_layers * heads * width * base.dtype.itemsize


def check_fits(base: BaseModel, needed: int, what: str) -> None:
    """Refuse what needs more bytes than there are."""
    free = free_bytes(base.device)
    if free is not None and needed > free:
        raise RequestError(
            f"{what} needs about {needed:,} bytes of memory, and {free:,} are free on {base.device}; shorten the "
            "sequences or take a smaller model"
        )


def free_bytes(device: torch.device) -> int | None:
    """Bytes that can still be allocated on a device; None where the system does not tell."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


def return_freed_memory() -> None:
    """Give what this process has freed back to the system, where its allocator (glibc's) keeps it for later."""
    if _TRIM is not None:
        _TRIM(ctypes.c_size_t(0))


def _activation_bytes(base: BaseModel) -> float:
    """Bytes per token."""
    widths = sum(layer.in_features + layer.out_features for layer in base.layers if layer.part != "unembed")
    # A state-space model has no layers of those names.
    return KEPT * max(widths, base.num_layers * WIDTHS_PER_LAYER * base.config.hidden_size) * base.dtype.itemsize
