"""Tinker's losses as functions of target log-probabilities; every one is a sum over tokens.

References
----------
Definitions follow Tinker's documentation (tinker-docs.thinkingmachines.ai/tinker/losses). PPO: Schulman et al. 2017,
arXiv:1707.06347, eq. 7. CISPO: MiniMax-M1, arXiv:2506.13585, eq. 4. DRO: Richemond et al. 2024, arXiv:2405.19107.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..errors import RequestError

Inputs = Mapping[str, Tensor]
Config = Mapping[str, float]


def cross_entropy(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sum w log p."""
    return -(logprobs * inputs["weights"]).sum()


def importance_sampling(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sum A p / q, with q the sampling policy."""
    return -(torch.exp(logprobs - inputs["logprobs"]) * inputs["advantages"]).sum()


def ppo(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sum min(A r, A clip(r)), r = p / q."""
    ratio = torch.exp(logprobs - inputs["logprobs"])
    clipped = _clipped(ratio, inputs, config)
    return -torch.minimum(ratio * inputs["advantages"], clipped * inputs["advantages"]).sum()


def cispo(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sum stop_gradient(clip(r)) A log p: a clipped token still has a gradient."""
    ratio = torch.exp(logprobs - inputs["logprobs"]).detach()
    return -(_clipped(ratio, inputs, config) * inputs["advantages"] * logprobs).sum()


def dro(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sum (A log p - beta/2 (log p - log q)^2)."""
    drift = logprobs - inputs["logprobs"]
    return -(logprobs * inputs["advantages"] - 0.5 * config.get("beta", 0.05) * drift**2).sum()


THRESHOLDS = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
"""Clipping bounds of the ratio where neither the datum (per token) nor the configuration names them."""


def _clipped(ratio: Tensor, inputs: Inputs, config: Config) -> Tensor:
    low, high = (
        inputs[name] if name in inputs else torch.full_like(ratio, config.get(name, default))
        for name, default in THRESHOLDS.items()
    )
    return torch.clamp(ratio, low, high)


LOSSES: dict[str, Callable[[Tensor, Inputs, Config], Tensor]] = {
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
    "ppo": ppo,
    "cispo": cispo,
    "dro": dro,
}
CONFIG_KEYS: dict[str, list[str]] = {"ppo": [*THRESHOLDS], "cispo": [*THRESHOLDS], "dro": ["beta"]}


def required_inputs(name: str) -> tuple[str, ...]:
    """The inputs, besides the target tokens, that a loss cannot do without."""
    return ("weights",) if name == "cross_entropy" else ("advantages", "logprobs")


def check_loss(name: str, config: Config) -> None:
    """Refuse a loss or a configuration key that the engine does not know.

    `stable_reinforce` and `gspo` are among the refused: Tinker runs them on its servers and publishes neither formula.
    """
    if name not in LOSSES:
        raise RequestError(f"loss_fn {name!r} is not available on the local engine; choose one of {', '.join(LOSSES)}")
    keys = CONFIG_KEYS.get(name, [])
    if unknown := sorted(set(config) - set(keys)):
        raise RequestError(f"loss_fn_config of {name!r} has unknown keys {unknown}; it takes {keys or 'none'}")
