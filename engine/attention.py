"""The attention of a decoding step, written out.

Torch's fused kernel may split the work of one query over threads by what else is in the batch, so a row's last bits
would depend on its neighbours; plain batched products do not. They are also faster here: the query heads that share
a key head are one product, and keys are not copied to match them. Everything else (reading prompts, training) is
left to the fused kernel.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "scisci_gym"


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
        (B, key heads, S, head_dim).
    attention_mask
        Boolean (B, 1, L, S), True where a query may look; None is causal.

    Returns
    -------
    (B, L, heads, head_dim), and None for the weights.
    """
    rows, heads, length, dim = query.shape
    if length > 1 or attention_mask is None or attention_mask.dtype != torch.bool or kwargs.get("softcap"):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    shared = query.view(rows, key.shape[1], heads // key.shape[1], dim) * (dim**-0.5 if scaling is None else scaling)
    scores = torch.matmul(shared, key.transpose(2, 3)).masked_fill(~attention_mask, float("-inf"))
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype)
    return torch.matmul(weights, value).reshape(rows, 1, heads, value.shape[-1]), None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
