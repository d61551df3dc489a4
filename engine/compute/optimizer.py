"""The AdamW step of an adapter, and the state that it keeps between steps."""

import copy
import math
from typing import Annotated

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from ..errors import RequestError
from .adapters import AdapterWeights


@dataclass(frozen=True)
class AdamSettings:
    """Tinker's `AdamParams`, given anew at every step. A norm of 0 or less clips nothing."""

    learning_rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-4
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    eps: Annotated[float, Field(ge=0)] = 1e-12
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    grad_clip_norm: float = 0.0


def new_optimizer(adapter: AdapterWeights) -> torch.optim.AdamW:
    """AdamW on the adapter's tensors; every step brings its own settings."""
    return torch.optim.AdamW(list(adapter.parameters()), lr=0.0)


def optim_step(adapter: AdapterWeights, optimizer: torch.optim.AdamW, settings: AdamSettings) -> dict[str, float]:
    """One AdamW step on the accumulated gradients (zero where there are none), which are then cleared.

    It returns the gradient's norm before clipping, as ``grad_norm:mean``. A step that fails changes nothing: weights,
    optimiser state and gradients are those from before it. A norm that is not finite is refused; only then the
    gradients are cleared, as no repetition could succeed with them.
    """
    parameters = list(adapter.parameters())
    before = [(p.detach().clone(), None if p.grad is None else p.grad.clone()) for p in parameters]
    state = copy.deepcopy(optimizer.state_dict())
    try:
        norm = _step(parameters, optimizer, settings)
    except BaseException:
        for parameter, (weight, grad) in zip(parameters, before, strict=True):
            parameter.data.copy_(weight)
            parameter.grad = grad
        optimizer.load_state_dict(state)
        raise
    optimizer.zero_grad(set_to_none=True)
    if not math.isfinite(norm):
        raise RequestError(f"the gradient's norm is {norm}; the step was not taken and the gradient was dropped")
    return {"grad_norm:mean": norm}


def _step(parameters: list[torch.nn.Parameter], optimizer: torch.optim.AdamW, settings: AdamSettings) -> float:
    """Take the step if the gradient's norm is finite, and return the norm."""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    limit = settings.grad_clip_norm if settings.grad_clip_norm > 0 else math.inf
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit))
    if not math.isfinite(norm):
        return norm
    lr, betas = settings.learning_rate, (settings.beta1, settings.beta2)
    for group in optimizer.param_groups:
        group.update(lr=lr, betas=betas, eps=settings.eps, weight_decay=settings.weight_decay)
    optimizer.step()
    return norm


def optimizer_tensors(adapter: AdapterWeights, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """AdamW's state by parameter name: ``{layer}.lora_A.exp_avg`` and so on; empty before the first step."""
    return {
        f"{name}.{key}": value.detach().cpu().clone().contiguous()
        for name, parameter in adapter.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(adapter: AdapterWeights, optimizer: torch.optim.AdamW, tensors: dict[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    for name, parameter in adapter.named_parameters():
        prefix = f"{name}."
        state = {k.removeprefix(prefix): v.clone() for k, v in tensors.items() if k.startswith(prefix)}
        if state:
            # AdamW keeps its step count on the CPU, the moments next to the parameter.
            optimizer.state[parameter] = {k: v if k == "step" else v.to(parameter.device) for k, v in state.items()}
