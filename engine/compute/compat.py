"""Everything that the engine uses of transformers and bitsandbytes beyond their documented interface.

`tests/engine/compute/test_compat.py` names what has moved when one of them changes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache as Cache
from transformers.cache_utils import CacheLayerMixin as CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.pytorch_utils import Conv1D
from transformers.utils.logging import disable_progress_bar as disable_progress_bar


def register_attention(name: str, function: Any) -> None:
    """Let models be loaded with ``attn_implementation=name``: boolean masks, and `function` as their attention."""
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, sdpa_mask)


def multiplies_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices in hardware (AMX, or AVX-512 with its bfloat16 extension)."""
    return any(
        getattr(torch.cpu, name, lambda: False)() for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    )


@contextmanager
def eager_attention(net: Any) -> Iterator[None]:
    """Inside the block the network computes with its own written-out attention."""
    before = net.config._attn_implementation
    try:
        net.set_attn_implementation("eager")
        yield
    finally:
        net.set_attn_implementation(before)


@contextmanager
def body_runs_once(net: Any, results: list[Any]) -> Iterator[None]:
    """Inside the block the network below the head takes its result from `results`, which its first call fills.

    If the result has a gradient, what the head sees is cut off from it, and `results` ends with what it was cut from.
    """
    body = net.base_model
    if body is net:  # There is no body that could be kept apart from the head.
        yield
        return

    def once(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not results:
            output = forward(*args, **kwargs)
            results.append(output)
            if (hidden := output.last_hidden_state).requires_grad:
                output.last_hidden_state = hidden.detach().requires_grad_()
                results.append(hidden)
        return results[0]

    with _forward_replaced([body], once):
        yield


@contextmanager
def recomputing_layers(net: nn.Module) -> Iterator[None]:
    """Inside the block a layer keeps its input only, and computes itself again when its gradient is wanted."""
    layers = [module for module in net.modules() if isinstance(module, GradientCheckpointingLayer)]
    with _forward_replaced(layers, partial(checkpoint, use_reentrant=False, preserve_rng_state=False)):
        yield


@contextmanager
def _forward_replaced(modules: Sequence[Any], call: Callable[..., Any]) -> Iterator[None]:
    """Inside the block `call` gets a module's own `forward`, and the arguments, instead of it."""
    own = [vars(module).get("forward") for module in modules]
    for module in modules:
        module.forward = partial(call, module.forward)
    try:
        yield
    finally:
        for module, forward in zip(modules, own, strict=True):
            if forward is not None:
                module.forward = forward
            else:
                del module.forward


def dense_weight(module: nn.Module) -> Tensor:
    """The weight of a linear layer as (out, in), dequantised if it is stored in 4 bits."""
    weight: Tensor = module.weight  # pyright: ignore[reportAssignmentType]
    if (state := getattr(weight, "quant_state", None)) is not None:
        from bitsandbytes.functional import dequantize_4bit  # pyright: ignore[reportMissingImports]

        return dequantize_4bit(weight.data, state)
    return weight.T if isinstance(module, Conv1D) else weight


def keep_four_bits_packed(net: nn.Module) -> None:
    """Keep bitsandbytes from repacking weights at their first use on some CPUs: `dense_weight` could not read them."""
    for module in net.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False  # pyright: ignore[reportArgumentType]


def set_weight(module: nn.Module, weight: Tensor) -> None:
    """Give a linear layer a weight (out, in). It is a new parameter: an embedding tied to the head keeps its own."""
    stored = weight.T.contiguous() if isinstance(module, Conv1D) else weight
    module.weight = nn.Parameter(stored, requires_grad=False)


def in_and_out_features(module: nn.Module) -> tuple[int, int] | None:
    """Widths of a linear layer's input and output; None for other modules."""
    if isinstance(module, Conv1D):
        inputs, outputs = module.weight.shape
        return inputs, outputs
    # The shape of a packed weight of 4 bits says nothing.
    return (module.in_features, module.out_features) if isinstance(module, nn.Linear) else None
