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
    clipped = torch.clamp(ratio, *_thresholds(inputs, config, ratio))
    return -torch.minimum(ratio * inputs["advantages"], clipped * inputs["advantages"]).sum()


def cispo(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sum stop_gradient(clip(r)) A log p: a clipped token still has a gradient."""
    ratio = torch.exp(logprobs - inputs["logprobs"]).detach()
    clipped = torch.clamp(ratio, *_thresholds(inputs, config, ratio))
    return -(clipped * inputs["advantages"] * logprobs).sum()


def dro(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sum (A log p - beta/2 (log p - log q)^2)."""
    drift = logprobs - inputs["logprobs"]
    return -(logprobs * inputs["advantages"] - 0.5 * config.get("beta", 0.05) * drift**2).sum()


def _thresholds(inputs: Inputs, config: Config, like: Tensor) -> tuple[Tensor, Tensor]:
    """Clipping bounds of the ratio: per token if the datum brings them, else from the config (0.8 and 1.2)."""
    low = inputs.get("clip_low_threshold")
    high = inputs.get("clip_high_threshold")
    if low is None:
        low = torch.full_like(like, config.get("clip_low_threshold", 0.8))
    if high is None:
        high = torch.full_like(like, config.get("clip_high_threshold", 1.2))
    return low, high


LossFn = Callable[[Tensor, Inputs, Config], Tensor]

LOSSES: dict[str, LossFn] = {
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
    "ppo": ppo,
    "cispo": cispo,
    "dro": dro,
}

_POLICY_INPUTS = ("advantages", "logprobs")
REQUIRED_INPUTS: dict[str, tuple[str, ...]] = {
    "cross_entropy": ("weights",),
    "importance_sampling": _POLICY_INPUTS,
    "ppo": _POLICY_INPUTS,
    "cispo": _POLICY_INPUTS,
    "dro": _POLICY_INPUTS,
}
OPTIONAL_INPUTS = ("clip_low_threshold", "clip_high_threshold")
CONFIG_KEYS: dict[str, tuple[str, ...]] = {
    "ppo": ("clip_low_threshold", "clip_high_threshold"),
    "cispo": ("clip_low_threshold", "clip_high_threshold"),
    "dro": ("beta",),
}


def check_loss(name: str, config: Config) -> None:
    """Refuse a loss or a configuration key that the engine does not know.

    `stable_reinforce` and `gspo` are among the refused: Tinker runs them on its servers and publishes neither formula.
    """
    if name not in LOSSES:
        raise RequestError(f"loss_fn {name!r} is not available on the local engine; choose one of {', '.join(LOSSES)}")
    known = CONFIG_KEYS.get(name, ())
    if unknown := sorted(set(config) - set(known)):
        raise RequestError(
            f"loss_fn_config of {name!r} has unknown keys {unknown}; it takes {list(known) if known else 'none'}"
        )
