"""Adapters of a whole model: one pair (LoRA or DoRA) for every adapted layer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..errors import RequestError
from .dora import DoraPair
from .lora import ALPHA, AdaptableLayer, AdapterKind, LoraPair, LoraSpec

PAIRS: dict[AdapterKind, type[LoraPair]] = {"lora": LoraPair, "dora": DoraPair}


@dataclass
class AdapterWeights:
    """One adapter: a `LoraPair` (or `DoraPair`) for every adapted layer, in the base model's order."""

    spec: LoraSpec
    pairs: dict[str, LoraPair] = field(default_factory=dict)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """`{layer}.lora_A`, `{layer}.lora_B` and, for DoRA, `{layer}.lora_magnitude_vector`."""
        for name, pair in self.pairs.items():
            for key, parameter in pair.parameters().items():
                yield f"{name}.{key}", parameter

    def parameters(self) -> Iterator[nn.Parameter]:
        for _, parameter in self.named_parameters():
            yield parameter

    def named_tensors(self) -> dict[str, Tensor]:
        """`named_parameters`, detached, on the CPU."""
        return {name: parameter.detach().cpu().contiguous() for name, parameter in self.named_parameters()}

    def snapshot(self) -> "AdapterWeights":
        """A frozen copy for sampling, which later training steps do not touch."""
        copy = AdapterWeights(self.spec)
        for name, pair in self.pairs.items():
            tensors = {key: parameter.detach().clone() for key, parameter in pair.parameters().items()}
            copy.pairs[name] = type(pair).of(pair.layer, tensors, pair.scale)
        return copy.frozen()

    def frozen(self) -> "AdapterWeights":
        """The same adapter, marked as one that will not change any more."""
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        return self

    @property
    def is_frozen(self) -> bool:
        return not any(parameter.requires_grad for parameter in self.parameters())

    def prepare(self) -> None:
        """See `LoraPair.prepare`."""
        for pair in self.pairs.values():
            pair.prepare()


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
        adapter.pairs[layer.name] = PAIRS[spec.kind](layer, a.to(device), b.to(device), ALPHA / spec.rank)
    if not adapter.pairs:
        parts = sorted({layer.part for layer in layers})
        raise RequestError(f"the base model has no layers to adapt for {spec}; its adaptable parts are {parts}")
    return adapter


def adapter_from_tensors(
    layers: list[AdaptableLayer], spec: LoraSpec, tensors: dict[str, Tensor], device: torch.device
) -> AdapterWeights:
    """Rebuild an adapter from `AdapterWeights.named_tensors`; shapes are checked against the base model."""
    adapter = AdapterWeights(spec)
    kind = PAIRS[spec.kind]
    for layer in layers:
        if not spec.adapts(layer.part):
            continue
        want = kind.shapes(layer, spec.rank)
        found = {key: tensors.get(f"{layer.name}.{key}") for key in want}
        got = {key: None if tensor is None else tuple(tensor.shape) for key, tensor in found.items()}
        if got != want:
            raise RequestError(
                f"the checkpoint does not fit the base model at layer {layer.name!r}: expected {want}, got {got}"
            )
        parts = {key: tensor.float().to(device).clone() for key, tensor in found.items() if tensor is not None}
        adapter.pairs[layer.name] = kind.of(layer, parts, ALPHA / spec.rank)
    return adapter
