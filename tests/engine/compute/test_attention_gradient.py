"""The gradient of attention in 16 bits by matrix products: as near to the exact one as the fused kernel's is."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from scisci_gym.engine.compute.attention import QUERIES_AT_ONCE, AttentionByProducts, is_worthwhile

LENGTH, SCALING = 2 * QUERIES_AT_ONCE + 9, 0.3


def draw(heads: int, length: int, generator: torch.Generator) -> Tensor:
    return torch.randn(2, heads, length, 16, generator=generator).bfloat16().requires_grad_()


@pytest.mark.parametrize("queries", [LENGTH, 7])
def test_result_and_gradient(queries: int) -> None:
    """Six query heads share two key heads; the queries are all positions, or the last ones with one position hidden."""
    generator = torch.Generator().manual_seed(0)
    inputs = [draw(6, queries, generator), draw(2, LENGTH, generator), draw(2, LENGTH, generator)]
    mask = None
    if queries < LENGTH:
        mask = torch.ones(2, 1, queries, LENGTH, dtype=torch.bool).tril(LENGTH - queries)
        mask[1, :, :, 5] = False
    slope = torch.randn(inputs[0].shape, generator=generator)
    assert is_worthwhile(*inputs)
    out = AttentionByProducts.apply(*inputs, mask, SCALING)
    grads = torch.autograd.grad(out, inputs, slope.bfloat16())

    exact = [part.detach().float().requires_grad_() for part in inputs]
    keys, values = (part.repeat_interleave(3, dim=1) for part in exact[1:])
    causal = mask is None
    expected = scaled_dot_product_attention(exact[0], keys, values, mask, is_causal=causal, scale=SCALING)
    for got, wanted in zip((out, *grads), (expected, *torch.autograd.grad(expected, exact, slope)), strict=True):
        assert got.dtype == torch.bfloat16
        assert float((got - wanted).detach().abs().mean() / wanted.abs().mean()) < 0.01


def test_it_is_for_gradients_in_16_bits() -> None:
    part = torch.zeros(1, 1, 1, 1, dtype=torch.bfloat16, requires_grad=True)
    assert is_worthwhile(part, part, part)
    exact = part.detach().float().requires_grad_()
    assert not is_worthwhile(exact, exact, exact)
    with torch.no_grad():
        assert not is_worthwhile(part, part, part)
