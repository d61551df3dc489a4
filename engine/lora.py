"""Low-rank adapters on a frozen base model (Hu et al. 2021, arXiv:2106.09685): y = W x + (alpha / r) B A x.

The base model's modules stay as they are; a forward hook on each adapted layer adds the low-rank term of whichever
adapter is in use. Another parametrisation (DoRA, say) is another `AdapterWeights` with its own `apply`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .errors import RequestError

ALPHA = 32.0
"""Tinker's fixed LoRA alpha."""


@dataclass(frozen=True)
class LoraSpec:
    """What to adapt; the fields of Tinker's `LoraConfig`."""

    rank: int
    seed: int | None = None
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= 4096:
            raise RequestError(f"lora_config.rank must be between 1 and 4096, got {self.rank}")
        if not (self.train_attn or self.train_mlp or self.train_unembed):
            raise RequestError("lora_config trains nothing: set train_attn, train_mlp or train_unembed to true")

    def adapts(self, part: str) -> bool:
        return {"attn": self.train_attn, "mlp": self.train_mlp, "unembed": self.train_unembed}[part]


@dataclass(frozen=True)
class AdaptableLayer:
    """A linear layer that can carry an adapter; `part` is attn, mlp or unembed."""

    name: str
    part: str
    in_features: int
    out_features: int


class LoraPair(nn.Module):
    """A: float32 (r, in), B: float32 (out, r)."""

    def __init__(self, a: Tensor, b: Tensor, scale: float) -> None:
        super().__init__()
        self.a = nn.Parameter(a)
        self.b = nn.Parameter(b)
        self.scale = scale

    def apply_to(self, x: Tensor, y: Tensor) -> Tensor:
        """Add the low-rank term of input `x` (..., in) to the frozen layer's output `y` (..., out)."""
        low = (x.to(self.a.dtype) @ self.a.T) @ self.b.T
        return y + (low * self.scale).to(y.dtype)


@dataclass
class AdapterWeights:
    """One adapter: a `LoraPair` for every adapted layer, in the base model's order."""

    spec: LoraSpec
    pairs: dict[str, LoraPair] = field(default_factory=dict)

    def parameters(self) -> Iterator[nn.Parameter]:
        for pair in self.pairs.values():
            yield pair.a
            yield pair.b

    def named_tensors(self) -> dict[str, Tensor]:
        """`{layer}.lora_A` and `{layer}.lora_B`, detached, on the CPU."""
        out = {}
        for name, pair in self.pairs.items():
            out[f"{name}.lora_A"] = pair.a.detach().cpu().contiguous()
            out[f"{name}.lora_B"] = pair.b.detach().cpu().contiguous()
        return out

    def snapshot(self) -> "AdapterWeights":
        """A frozen copy for sampling, which later training steps do not touch."""
        copy = AdapterWeights(self.spec)
        for name, pair in self.pairs.items():
            copy.pairs[name] = LoraPair(pair.a.detach().clone(), pair.b.detach().clone(), pair.scale)
            copy.pairs[name].requires_grad_(False)
        return copy


def new_adapter(layers: list[AdaptableLayer], spec: LoraSpec, device: torch.device) -> AdapterWeights:
    """A fresh adapter: A uniform in +-1/sqrt(in) (what peft draws), B zero, so that it starts as the base model.

    The draw depends on `spec.seed` and the layers alone, not on the device.
    """
    generator = torch.Generator()
    if spec.seed is None:
        generator.seed()
    else:
        generator.manual_seed(spec.seed)
    adapter = AdapterWeights(spec)
    for layer in layers:
        if not spec.adapts(layer.part):
            continue
        a = (torch.rand(spec.rank, layer.in_features, generator=generator) * 2 - 1) / math.sqrt(layer.in_features)
        b = torch.zeros(layer.out_features, spec.rank)
        adapter.pairs[layer.name] = LoraPair(a.to(device), b.to(device), ALPHA / spec.rank)
    if not adapter.pairs:
        parts = sorted({layer.part for layer in layers})
        raise RequestError(f"the base model has no layers to adapt for {spec}; its adaptable parts are {parts}")
    return adapter


def adapter_from_tensors(
    layers: list[AdaptableLayer], spec: LoraSpec, tensors: dict[str, Tensor], device: torch.device
) -> AdapterWeights:
    """Rebuild an adapter from `AdapterWeights.named_tensors`; shapes are checked against the base model."""
    adapter = AdapterWeights(spec)
    for layer in layers:
        if not spec.adapts(layer.part):
            continue
        a, b = tensors.get(f"{layer.name}.lora_A"), tensors.get(f"{layer.name}.lora_B")
        want = ((spec.rank, layer.in_features), (layer.out_features, spec.rank))
        if a is None or b is None or (tuple(a.shape), tuple(b.shape)) != want:
            raise RequestError(
                f"the checkpoint does not fit the base model at layer {layer.name!r}: expected A, B of shapes {want}, "
                f"got {None if a is None else tuple(a.shape)}, {None if b is None else tuple(b.shape)}"
            )
        adapter.pairs[layer.name] = LoraPair(
            a.float().to(device).clone(), b.float().to(device).clone(), ALPHA / spec.rank
        )
    return adapter
