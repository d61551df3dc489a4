"""Low-rank adapters: one pair of matrices for every adapted linear layer, and the adapter of a whole model.

The base model's modules stay as they are; a forward hook on each adapted layer adds what the adapter in use has to add.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import get_args

import torch
from torch import Tensor, nn

from ..errors import RequestError
from ..options import AdapterKind
from .compat import dense_weight

ALPHA = 32.0
"""Tinker's fixed LoRA alpha."""
ROWS_AT_ONCE = 8192
"""Outputs whose weights are made float32 at once: the vocabulary of a large model would fill the memory."""


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
        if self.kind not in get_args(AdapterKind):
            choices = ", ".join(get_args(AdapterKind))
            raise RequestError(f"adapter kind {self.kind!r} is not known; this engine has {choices}")

    def adapts(self, part: str) -> bool:
        """Whether layers of this part (attn, mlp or unembed) carry an adapter."""
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
    """LoRA of one layer (Hu et al. 2021, arXiv:2106.09685): y = W x + s B A x, with `scale` s = alpha / r.

    `tensors` are named as in peft: ``lora_A`` float32 (r, in) and ``lora_B`` (out, r).
    """

    def __init__(self, layer: AdaptableLayer, tensors: dict[str, Tensor], scale: float) -> None:
        self.layer, self.scale = layer, scale
        self.a, self.b = nn.Parameter(tensors["lora_A"]), nn.Parameter(tensors["lora_B"])
        self._in_16_bits: tuple[Tensor, Tensor] | None = None

    def parameters(self) -> dict[str, nn.Parameter]:
        """The trained tensors under peft's names."""
        return {"lora_A": self.a, "lora_B": self.b}

    @staticmethod
    def shapes(layer: AdaptableLayer, rank: int) -> dict[str, tuple[int, ...]]:
        return {"lora_A": (rank, layer.in_features), "lora_B": (layer.out_features, rank)}

    def prepare(self) -> None:
        """Compute what depends on the weights alone; called before the passes of a request."""

    def apply_to(self, x: Tensor, y: Tensor) -> Tensor:
        """The adapted layer's output (..., out), from its input `x` (..., in) and the frozen layer's output `y`."""
        if x.dtype == self.a.dtype or y.dtype != x.dtype:
            return y + self._low_rank_term(x)
        # Product and sum in one step, rounded once.
        a, b = self._narrowed(x.dtype)
        return torch.addmm(y.flatten(0, -2), x.flatten(0, -2) @ a.T, b.T).view(y.shape)

    def _low_rank_term(self, x: Tensor) -> Tensor:
        """(..., out) in the number format of `x`: s B A x."""
        if x.dtype == self.a.dtype:
            return (x @ self.a.T) @ self.b.T * self.scale
        a, b = self._narrowed(x.dtype)
        return (x @ a.T) @ b.T

    def _narrowed(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """s A and B in 16 bits, which processors multiply many times as fast; trained are those in float32."""
        if self.a.requires_grad:
            return (self.scale * self.a).to(dtype), self.b.to(dtype)
        # A frozen adapter does not change any more, and a decoding step is short.
        if self._in_16_bits is None or self._in_16_bits[0].dtype != dtype:
            self._in_16_bits = (self.scale * self.a).to(dtype), self.b.to(dtype)
        return self._in_16_bits

    def merged(self) -> Tensor:
        """float32 (out, in): the weight of layer and adapter together, W + s B A; detached."""
        with torch.no_grad():
            return dense_weight(self.layer.module).float() + self.scale * (self.b @ self.a)


class DoraPair(LoraPair):
    """DoRA of one layer (Liu et al. 2024, arXiv:2402.09353), eq. 5: W' = m (W + s B A) / ||W + s B A||.

    The norm is taken over the inputs, and the trained magnitude m (``lora_magnitude_vector``, float32 (out,)) starts as
    ||W||, so that the adapter starts as the base model. As in section 4.3 of the paper, and in peft, the norm is a
    constant for the gradient.
    """

    def __init__(self, layer: AdaptableLayer, tensors: dict[str, Tensor], scale: float) -> None:
        super().__init__(layer, tensors, scale)
        self._norm: Tensor | None = None
        magnitude = tensors.get("lora_magnitude_vector")
        self.magnitude = nn.Parameter(self._row_norms() if magnitude is None else magnitude)

    def parameters(self) -> dict[str, nn.Parameter]:
        return {**super().parameters(), "lora_magnitude_vector": self.magnitude}

    @staticmethod
    def shapes(layer: AdaptableLayer, rank: int) -> dict[str, tuple[int, ...]]:
        return {**LoraPair.shapes(layer, rank), "lora_magnitude_vector": (layer.out_features,)}

    def prepare(self) -> None:
        if self._norm is None or self.a.requires_grad:
            self._norm = self._row_norms()

    def apply_to(self, x: Tensor, y: Tensor) -> Tensor:
        assert self._norm is not None, "prepare() comes first"
        ratio = self.magnitude / self._norm
        bias = self.layer.module.bias
        plain = y.float()
        directed = plain - bias.float() if isinstance(bias, Tensor) else plain
        # Written as a difference, so that an untrained adapter (ratio 1, B 0) leaves the base model's bits alone.
        return (plain + (ratio - 1) * directed + ratio * self._low_rank_term(x)).to(y.dtype)

    def merged(self) -> Tensor:
        with torch.no_grad():
            return (self.magnitude / self._row_norms())[:, None] * super().merged()

    def _row_norms(self) -> Tensor:
        """float32 (out,): norms of the rows of W + s B A.

        A row that is zero (some models keep one for padding) has magnitude 0 as well; its norm is given as the
        smallest positive number, so that its output stays 0 instead of becoming 0 / 0.
        """
        # Sampling computes in inference mode, whose tensors cannot take part in training later.
        with torch.inference_mode(False), torch.no_grad():
            weight = dense_weight(self.layer.module)
            parts = []
            for start in range(0, self.layer.out_features, ROWS_AT_ONCE):
                rows = slice(start, start + ROWS_AT_ONCE)
                adapted = weight[rows].float() + self.scale * (self.b[rows] @ self.a)
                parts.append(torch.linalg.vector_norm(adapted, dim=1))
            return torch.cat(parts).clamp_min(torch.finfo(torch.float32).tiny)


_PAIRS: dict[AdapterKind, type[LoraPair]] = {"lora": LoraPair, "dora": DoraPair}


@dataclass
class AdapterWeights:
    """The adapter of a model: a `LoraPair` (or `DoraPair`) for every adapted layer, in the base model's order."""

    spec: LoraSpec
    pairs: dict[str, LoraPair]

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """`{layer}.lora_A`, `{layer}.lora_B` and, for DoRA, `{layer}.lora_magnitude_vector`."""
        for name, pair in self.pairs.items():
            for key, parameter in pair.parameters().items():
                yield f"{name}.{key}", parameter

    def parameters(self) -> Iterator[nn.Parameter]:
        return (parameter for _, parameter in self.named_parameters())

    def named_tensors(self) -> dict[str, Tensor]:
        """`named_parameters`, detached, on the CPU."""
        return {name: parameter.detach().cpu().contiguous() for name, parameter in self.named_parameters()}

    def snapshot(self) -> "AdapterWeights":
        """A frozen copy for sampling, which later training steps do not touch."""
        copies = {}
        for name, pair in self.pairs.items():
            tensors = {key: parameter.detach().clone() for key, parameter in pair.parameters().items()}
            copies[name] = type(pair)(pair.layer, tensors, pair.scale)
        return AdapterWeights(self.spec, copies).frozen()

    def frozen(self) -> "AdapterWeights":
        """The same adapter, marked as one that will not change any more."""
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        return self

    @property
    def is_frozen(self) -> bool:
        return not any(parameter.requires_grad for parameter in self.parameters())

    def prepare(self) -> None:
        for pair in self.pairs.values():
            pair.prepare()


def new_adapter(layers: list[AdaptableLayer], spec: LoraSpec, device: torch.device) -> AdapterWeights:
    """A fresh adapter: A uniform in +-1/sqrt(in) (what peft draws), B zero, so that it starts as the base model.

    The draw depends on `spec.seed` and the layers alone, not on the device. A model without a layer of the parts that
    `spec` adapts is refused.
    """
    generator = torch.Generator()
    if spec.seed is None:
        generator.seed()
    else:
        generator.manual_seed(spec.seed)
    pairs = {}
    for layer in layers:
        if spec.adapts(layer.part):
            a = (torch.rand(spec.rank, layer.in_features, generator=generator) * 2 - 1) / math.sqrt(layer.in_features)
            tensors = {"lora_A": a.to(device), "lora_B": torch.zeros(layer.out_features, spec.rank, device=device)}
            pairs[layer.name] = _PAIRS[spec.kind](layer, tensors, ALPHA / spec.rank)
    if not pairs:
        parts = sorted({layer.part for layer in layers})
        raise RequestError(f"the base model has no layers to adapt for {spec}; its adaptable parts are {parts}")
    return AdapterWeights(spec, pairs)


def adapter_from_tensors(
    layers: list[AdaptableLayer], spec: LoraSpec, tensors: dict[str, Tensor], device: torch.device
) -> AdapterWeights:
    """Rebuild an adapter from `AdapterWeights.named_tensors`, whose shapes must be those of the base model's layers."""
    kind, pairs = _PAIRS[spec.kind], {}
    for layer in layers:
        if not spec.adapts(layer.part):
            continue
        expected = kind.shapes(layer, spec.rank)
        saved = {key: tensors[f"{layer.name}.{key}"] for key in expected if f"{layer.name}.{key}" in tensors}
        shapes = {key: tuple(tensor.shape) for key, tensor in saved.items()}
        if shapes != expected:
            raise RequestError(
                f"the checkpoint does not fit the base model at layer {layer.name!r}: expected {expected}, got {shapes}"
            )
        parts = {key: tensor.float().to(device).clone() for key, tensor in saved.items()}
        pairs[layer.name] = kind(layer, parts, ALPHA / spec.rank)
    return AdapterWeights(spec, pairs)
