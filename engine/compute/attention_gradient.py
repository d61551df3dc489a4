"""Attention in 16 bits on a CPU whose gradient is computed by matrix products.

Torch's fused kernel computes the result fast, but its gradient takes several times as long as the few matrix products
that it consists of. Here the result is the kernel's, and the gradient follows from the definition, for a few queries at
a time, so that the scores of a long sequence never exist all at once.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

QUERIES_AT_ONCE = 128


def is_worthwhile(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether a gradient is wanted, and wanted where the kernel's is slow."""
    wanted = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    return wanted and query.device.type == "cpu" and query.dtype in (torch.bfloat16, torch.float16)


class AttentionByProducts(torch.autograd.Function):
    """`apply(query, key, value, mask, scaling)` is (B, heads, L, head_dim); arguments as in `attention.attention`."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
        ctx.save_for_backward(query, key, value, mask)
        ctx.scaling = scaling
        keys, values = (part.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for part in (key, value))
        causal = mask is None
        return scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=causal, scale=scaling)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask = ctx.saved_tensors
        length = query.shape[2]
        by_query = []
        by_key, by_value = (torch.zeros(part.shape, device=part.device) for part in (key, value))
        for start in range(0, length, QUERIES_AT_ONCE):
            some = slice(start, min(start + QUERIES_AT_ONCE, length))
            # Without a mask no query looks beyond itself.
            seen = some.stop if mask is None else key.shape[2]
            inputs = [
                part.detach().requires_grad_() for part in (query[:, :, some], key[:, :, :seen], value[:, :, :seen])
            ]
            bias = _bias(mask[:, :, some] if mask is not None else _causal(some, query.device), query.dtype)
            with torch.enable_grad():
                out = _by_definition(inputs, bias, ctx.scaling)
            parts = torch.autograd.grad(out, inputs, grads[0][:, :, some])
            by_query.append(parts[0])
            by_key[:, :, :seen] += parts[1]
            by_value[:, :, :seen] += parts[2]
        return torch.cat(by_query, dim=2), by_key.to(key.dtype), by_value.to(value.dtype), None, None


def _causal(queries: slice, device: torch.device) -> Tensor:
    """Boolean (queries, positions up to the last query)."""
    places = torch.arange(queries.stop, device=device)
    return places <= places[queries, None]


def _bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may look and minus infinity elsewhere: adding it costs no gradient."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf"))


def _by_definition(inputs: list[Tensor], bias: Tensor, scaling: float) -> Tensor:
    query, key, value = inputs
    rows, heads, length, dim = query.shape
    _, key_heads, seen, _ = key.shape
    # The query heads that share a key head are one product.
    together = (query * scaling).reshape(rows, key_heads, heads // key_heads * length, dim)
    scores = (together @ key.transpose(2, 3)).view(rows, heads, length, seen)
    weights = scores.add_(bias).softmax(dim=-1).view(rows, key_heads, -1, seen)
    return (weights @ value).view(rows, heads, length, value.shape[-1])
