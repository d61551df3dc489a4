"""Low-rank adapters of one linear layer (Hu et al. 2021, arXiv:2106.09685): y = W x + (alpha / r) B A x.

The base model's modules stay as they are; a forward hook on each adapted layer adds what the adapter in use has to add.
"""

from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ..errors import RequestError

ALPHA = 32.0
"""Tinker's fixed LoRA alpha."""

AdapterKind = Literal["lora", "dora"]
KINDS: tuple[AdapterKind, ...] = get_args(AdapterKind)


@dataclass(frozen=True)
class LoraSpec:
    """What to adapt, and how: the fields of Tinker's `LoraConfig`, and `kind`, which the server decides."""

    rank: int
    seed: int | None = None
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = True
    kind: AdapterKind = "lora"

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= 4096:
            raise RequestError(f"lora_config.rank must be between 1 and 4096, got {self.rank}")
        if not (self.train_attn or self.train_mlp or self.train_unembed):
            raise RequestError("lora_config trains nothing: set train_attn, train_mlp or train_unembed to true")
        if self.kind not in KINDS:
            raise RequestError(f"adapter kind {self.kind!r} is not known; this engine has {', '.join(KINDS)}")

    def adapts(self, part: str) -> bool:
        return {"attn": self.train_attn, "mlp": self.train_mlp, "unembed": self.train_unembed}[part]


@dataclass(frozen=True)
class AdaptableLayer:
    """A linear layer that can carry an adapter; `part` is attn, mlp or unembed."""

    name: str
    part: str
    in_features: int
    out_features: int
    module: nn.Module = field(repr=False, compare=False)


class LoraPair:
    """A: float32 (r, in), B: float32 (out, r)."""

    def __init__(self, layer: AdaptableLayer, a: Tensor, b: Tensor, scale: float) -> None:
        self.layer = layer
        self.a = nn.Parameter(a)
        self.b = nn.Parameter(b)
        self.scale = scale

    def parameters(self) -> dict[str, nn.Parameter]:
        """The trained tensors under peft's names."""
        return {"lora_A": self.a, "lora_B": self.b}

    @staticmethod
    def shapes(layer: AdaptableLayer, rank: int) -> dict[str, tuple[int, ...]]:
        """Shapes of `parameters` for a layer."""
        return {"lora_A": (rank, layer.in_features), "lora_B": (layer.out_features, rank)}

    @classmethod
    def of(cls, layer: AdaptableLayer, tensors: dict[str, Tensor], scale: float) -> "LoraPair":
        """The inverse of `parameters`."""
        return cls(layer, tensors["lora_A"], tensors["lora_B"], scale)

    def prepare(self) -> None:
        """Compute what depends on the weights alone; called before the passes of a request."""

    def apply_to(self, x: Tensor, y: Tensor) -> Tensor:
        """The adapted layer's output (..., out), from its input `x` (..., in) and the frozen layer's output `y`."""
        return y + self.low_rank_term(x).to(y.dtype)

    def merged(self) -> Tensor:
        """float32 (out, in): the weight of layer and adapter together, W + (alpha / r) B A; detached."""
        with torch.no_grad():
            return dense_weight(self.layer.module).float() + self.scale * (self.b @ self.a)

    def low_rank_term(self, x: Tensor) -> Tensor:
        """float32 (..., out): (alpha / r) B A x."""
        return (x.to(self.a.dtype) @ self.a.T) @ self.b.T * self.scale


def dense_weight(module: nn.Module) -> Tensor:
    """The weight of a linear layer as (out, in), dequantised if it is stored in 4 bits."""
    weight: Tensor = module.weight  # pyright: ignore[reportAssignmentType]
    if (state := getattr(weight, "quant_state", None)) is not None:
        from bitsandbytes.functional import dequantize_4bit  # pyright: ignore[reportMissingImports]

        return dequantize_4bit(weight.data, state)
    return weight.T if isinstance(module, Conv1D) else weight
