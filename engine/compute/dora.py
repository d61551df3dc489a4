"""Weight-decomposed low-rank adapters (Liu et al. 2024, "DoRA", arXiv:2402.09353).

Eq. 5: W' = m (W + s B A) / ||W + s B A||, with one trained magnitude m per output and the norm taken over its inputs. m
starts as ||W||, so that the adapter starts as the base model. As in section 4.3 of the paper, and in peft, the norm is
a constant for the gradient.
"""

import torch
from torch import Tensor, nn

from .lora import AdaptableLayer, LoraPair, dense_weight

ROWS_AT_ONCE = 8192
"""Outputs whose weights are made float32 at once: the vocabulary of a large model would fill the memory."""


class DoraPair(LoraPair):
    """A and B as in `LoraPair`, and the magnitude, float32 (out,)."""

    def __init__(
        self, layer: AdaptableLayer, a: Tensor, b: Tensor, scale: float, magnitude: Tensor | None = None
    ) -> None:
        super().__init__(layer, a, b, scale)
        self._norm: Tensor | None = None
        self.magnitude = nn.Parameter(self._present_norm() if magnitude is None else magnitude)

    def parameters(self) -> dict[str, nn.Parameter]:
        return {**super().parameters(), "lora_magnitude_vector": self.magnitude}

    @staticmethod
    def shapes(layer: AdaptableLayer, rank: int) -> dict[str, tuple[int, ...]]:
        return {**LoraPair.shapes(layer, rank), "lora_magnitude_vector": (layer.out_features,)}

    @classmethod
    def of(cls, layer: AdaptableLayer, tensors: dict[str, Tensor], scale: float) -> "DoraPair":
        return cls(layer, tensors["lora_A"], tensors["lora_B"], scale, tensors["lora_magnitude_vector"])

    def prepare(self) -> None:
        if self._norm is None or self.a.requires_grad:
            self._norm = self._present_norm()

    def apply_to(self, x: Tensor, y: Tensor) -> Tensor:
        assert self._norm is not None, "prepare() comes first"
        ratio = self.magnitude / self._norm
        bias = self.layer.module.bias
        plain = y.float()
        directed = plain - bias.float() if isinstance(bias, Tensor) else plain
        # Written as a difference, so that an untrained adapter (ratio 1, B 0) leaves the base model's bits alone.
        return (plain + (ratio - 1) * directed + ratio * self.low_rank_term(x)).to(y.dtype)

    def merged(self) -> Tensor:
        with torch.no_grad():
            return (self.magnitude / self._present_norm())[:, None] * super().merged()

    def _present_norm(self) -> Tensor:
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
