"""The attention of a decoding step, written out.

Torch's fused kernel may split the work of one query over threads by what else is in the batch, so a row's last bits
would depend on its neighbours; plain batched products of a fixed shape do not. They are also faster here: the query
heads that share a key head are one product, and so are the rows that share a prompt, whose keys and values are read
once for all of them. Everything else (reading prompts, training) is left to the fused kernel, unless the model caps its
scores, which that kernel cannot do.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "scisci_gym"
UNIT_ROWS = 8
"""Rows with the same prompt that are one product. A lone row pays for eight, in a part of the work that is small."""
UNITS_AT_ONCE = 4
"""Units per batched product: fixed, so that no result depends on how many there are."""


@dataclass(frozen=True)
class PromptUnits:
    """The prompts of a decoding block in one layer.

    Parameters
    ----------
    keys, values
        (units, key heads, W, head_dim); units a multiple of `UNITS_AT_ONCE`, each up to `UNIT_ROWS` rows of one prompt.
    slots
        int64 (rows,): unit * UNIT_ROWS + place of every row.
    """

    keys: Tensor
    values: Tensor
    slots: Tensor

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

    Returns
    -------
    (B, L, heads, head_dim), and None for the weights.
    """
    softcap = kwargs.get("softcap")
    prompts: PromptUnits | None = getattr(key, "prompts", None)
    if prompts is None and softcap is None:
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
    weights = by_head.softmax(dim=-1, dtype=torch.float32).to(value.dtype).view(scores.shape)
    if prompts is None:
        out = torch.matmul(weights, value)
    else:
        before = total - key.shape[2]
        out = prompts.mix(weights[..., :before]) + torch.matmul(weights[..., before:], value)
    return out.reshape(rows, heads, length, value.shape[-1]).transpose(1, 2), None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
