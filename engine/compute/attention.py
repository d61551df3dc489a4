"""The attention of a decoding step, written out, and the cache of keys and values that it reads.

Torch's fused kernel may split the work of one query over threads by what else is in the batch, so a row's last bits
would depend on its neighbours; plain batched products of a fixed shape do not. They are also faster here: the query
heads that share a key head are one product, and so are the rows that share a prompt, whose keys and values are read
once for all of them. Everything else (reading prompts, training) is left to the fused kernel, unless the model caps its
scores, which that kernel cannot do.

In 16 bits on a CPU the fused kernel computes the result fast, but its gradient takes several times as long as the few
matrix products that it consists of. There the result is the kernel's, and the gradient follows from the definition, for
a few queries at a time, so that the scores of a long sequence never exist all at once.

The cache is allocated ahead and written in place, so a decoding step copies one token and not the whole past.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .compat import CacheLayerMixin, register_attention, sdpa_attention_forward

NAME = "scisci_gym"
UNIT_ROWS = 8
"""Rows with the same prompt that are one product. A lone row pays for eight, in a part of the work that is small."""
UNITS_AT_ONCE = 4
"""Units per batched product: fixed, so that no result depends on how many there are."""
GROWTH = 64
"""Slots added when a cache is full."""
QUERIES_AT_ONCE = 128
"""Queries whose gradient is computed at once."""


@dataclass(frozen=True)
class PromptUnits:
    """The prompts of a decoding block in one layer, in units of up to `UNIT_ROWS` rows that have the same one."""

    keys: Tensor  # Like values: (units, key heads, W, head_dim), units a multiple of UNITS_AT_ONCE.
    values: Tensor
    slots: Tensor  # int64 (rows,): unit * UNIT_ROWS + place of every row.

    def scores(self, query: Tensor) -> Tensor:
        """(rows, key heads, shared, W) of queries (rows, key heads, shared, head_dim)."""
        return self._product(query, self.keys.transpose(2, 3))

    def mix(self, weights: Tensor) -> Tensor:
        """(rows, key heads, shared, head_dim) of weights (rows, key heads, shared, W)."""
        return self._product(weights, self.values)

    def _product(self, rows: Tensor, matrices: Tensor) -> Tensor:
        units, heads, inner, outer = matrices.shape
        _, _, shared, _ = rows.shape
        placed = rows.new_zeros((units * UNIT_ROWS, heads, shared, inner)).index_copy_(0, self.slots, rows)
        together = placed.view(units, UNIT_ROWS, heads, shared, inner).transpose(1, 2)
        together = together.reshape(units, heads, UNIT_ROWS * shared, inner)
        parts = [
            torch.matmul(together[start : start + UNITS_AT_ONCE], matrices[start : start + UNITS_AT_ONCE])
            for start in range(0, units, UNITS_AT_ONCE)
        ]
        product = parts[0] if len(parts) == 1 else torch.cat(parts)
        apart = product.view(units, heads, UNIT_ROWS, shared, outer).transpose(1, 2)
        return apart.reshape(units * UNIT_ROWS, heads, shared, outer).index_select(0, self.slots)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention as Hugging Face models call it.

    Parameters
    ----------
    query
        (B, heads, L, head_dim).
    key, value
        (B, key heads, S, head_dim). While decoding the keys carry the `PromptUnits` that come before them as an
        attribute, ``prompts``.
    attention_mask
        Boolean (B, 1, L, S), True where a query may look, over prompt and keys; None is causal.
    softcap
        Scores are capped smoothly at this value; None leaves them.

    Returns
    -------
    (B, L, heads, head_dim), and None for the weights.
    """
    prompts: PromptUnits | None = getattr(key, "prompts", None)
    if prompts is None and softcap is None:
        if is_worthwhile(query, key, value):
            scale = query.shape[-1] ** -0.5 if scaling is None else scaling
            out = AttentionByProducts.apply(query, key, value, attention_mask, scale)
            return out.transpose(1, 2).contiguous(), None
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    rows, heads, length, dim = query.shape
    key_heads = key.shape[1]
    shared = query.reshape(rows, key_heads, heads // key_heads * length, dim)
    shared = shared * (dim**-0.5 if scaling is None else scaling)
    scores = torch.matmul(shared, key.transpose(2, 3))
    if prompts is not None:
        scores = torch.cat([prompts.scores(shared), scores], dim=-1)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    total = scores.shape[-1]
    by_head = scores.view(rows, heads, length, total)
    if attention_mask is None:
        attention_mask = torch.ones((length, total), dtype=torch.bool, device=query.device).tril(total - length)
    by_head = by_head.masked_fill(~attention_mask, float("-inf"))
    # Not `softmax(dtype=...)`, which converts number by number on a CPU.
    weights = by_head.float().softmax(dim=-1).to(value.dtype).view(scores.shape)
    before = total - key.shape[2]
    out = torch.matmul(weights[..., before:], value)
    if prompts is not None:
        out = prompts.mix(weights[..., :before]) + out
    return out.reshape(rows, heads, length, value.shape[-1]).transpose(1, 2), None


register_attention(NAME, attention)


def is_worthwhile(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether a gradient is wanted, and wanted where the kernel's is slow."""
    wanted = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    return wanted and query.device.type == "cpu" and query.dtype in (torch.bfloat16, torch.float16)


class AttentionByProducts(torch.autograd.Function):
    """`apply(query, key, value, mask, scaling)` is (B, heads, L, head_dim); arguments as in `attention`."""

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
            places = torch.arange(seen, device=query.device)
            visible = places <= places[some, None] if mask is None else mask[:, :, some]
            # Adding it costs no gradient.
            bias = query.new_zeros(visible.shape).masked_fill_(~visible, float("-inf"))
            with torch.enable_grad():
                out = _by_definition(inputs, bias, ctx.scaling)
            parts = torch.autograd.grad(out, inputs, grads[0][:, :, some])
            by_query.append(parts[0])
            by_key[:, :, :seen] += parts[1]
            by_value[:, :, :seen] += parts[2]
        return torch.cat(by_query, dim=2), by_key.to(key.dtype), by_value.to(value.dtype), None, None


def _by_definition(inputs: list[Tensor], bias: Tensor, scaling: float) -> Tensor:
    query, key, value = inputs
    rows, heads, length, dim = query.shape
    _, key_heads, seen, _ = key.shape
    # The query heads that share a key head are one product.
    together = (query * scaling).reshape(rows, key_heads, heads // key_heads * length, dim)
    scores = (together @ key.transpose(2, 3)).view(rows, heads, length, seen)
    weights = scores.add_(bias).softmax(dim=-1).view(rows, key_heads, -1, seen)
    return (weights @ value).view(rows, heads, length, value.shape[-1])


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer: (rows, heads, capacity, head_dim), of which the first `length` slots are filled.

    A new one is empty and takes over what is read first, the prompt, as it is.
    """

    is_sliding = False
    length = 0

    def fill(self, keys: Tensor, values: Tensor, length: int) -> Self:
        """Take over existing tensors, of which the first `length` slots are filled; returns the layer."""
        self.keys, self.values, self.length, self.is_initialized = keys, values, length, True
        return self

    def filled(self) -> tuple[Tensor, Tensor]:
        """Keys and values (rows, heads, capacity, head_dim); slots from `length` on are not filled yet."""
        assert self.keys is not None, "the cache is empty"
        assert self.values is not None, "the cache is empty"
        return self.keys, self.values

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "SlotLayer":
        """A layer whose keys and values went through `change`, which leaves the slots alone."""
        keys, values = self.filled()
        return SlotLayer().fill(change(keys), change(values), self.length)

    @staticmethod
    def stack(layers: Sequence["SlotLayer"]) -> "SlotLayer":
        """The rows of several layers of the same length, one after the other."""
        keys, values = (torch.cat(parts) for parts in zip(*(layer.filled() for layer in layers), strict=True))
        return SlotLayer().fill(keys, values, layers[0].length)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.fill(key_states[:, :, :0], value_states[:, :, :0], 0)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append keys and values; returns all that are filled."""
        if not self.is_initialized:
            self.fill(key_states, value_states, key_states.shape[-2])
            return key_states, value_states
        keys, values = self.filled()
        end = self.length + key_states.shape[-2]
        if (missing := end - keys.shape[-2]) > 0:
            keys, values = (nn.functional.pad(part, (0, 0, 0, max(GROWTH, missing))) for part in (keys, values))
        keys[:, :, self.length : end] = key_states
        values[:, :, self.length : end] = value_states
        self.fill(keys, values, end)
        return keys[:, :, :end], values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Positions that a query of this length sees, and the position of the first key."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_cache_shape(self) -> int:
        """-1: the cache grows without a limit."""
        return -1
