"""Forward and backward passes of one adapter, and its AdamW step."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import RequestError
from .adapters import AdapterWeights
from .losses import LOSSES, OPTIONAL_INPUTS, REQUIRED_INPUTS, check_loss
from .model import BaseModel
from .passes import Pass, TrainingSequence, plan_passes

_KNOWN_INPUTS = {"target_tokens", "weights", "advantages", "logprobs", *OPTIONAL_INPUTS}


@dataclass(frozen=True)
class TrainingDatum:
    """One sequence and its loss inputs.

    Parameters
    ----------
    tokens
        int64 (T,), the model's input.
    inputs
        ``target_tokens`` int64 (T,) or (T, K), the others float32 of the same shape.
    """

    tokens: np.ndarray
    inputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ForwardBackwardResult:
    """`logprobs`: float32 arrays of each datum's target shape; `metrics`: named ``name:reduction``."""

    logprobs: list[np.ndarray]
    metrics: dict[str, float]


def forward_backward(
    base: BaseModel,
    adapter: AdapterWeights,
    data: Sequence[TrainingDatum],
    loss_fn: str,
    config: Mapping[str, float],
    *,
    backward: bool = True,
) -> ForwardBackwardResult:
    """Sum the loss over all tokens of all data; add its gradient to the adapter's unless `backward` is false.

    A pass that fails in any way adds nothing: the accumulated gradients are those from before it, and it can be
    repeated.

    Equal inputs go through the model once, and so does the prompt that the rollouts of a group have in common. With
    `backward`, logits are computed only at the positions where a weight, an advantage or a sampling log-probability
    is not zero; elsewhere the reported log-probability is 0. A forward pass alone reports all of them.

    Raises
    ------
    RequestError
        For an unknown loss, a missing or misshapen input, tokens the model does not have, or, with `backward`, a loss
        or a gradient that is not finite.
    """
    check_loss(loss_fn, config)
    for i, datum in enumerate(data):
        _check_datum(base, datum, i, loss_fn)
    logprobs = [np.zeros(d.inputs["target_tokens"].shape, np.float32) for d in data]
    sequences = _distinct(data, loss_fn, everything=not backward)
    total = 0.0
    with _all_or_nothing(adapter), base.using(adapter), torch.set_grad_enabled(backward):
        for one in plan_passes(sequences, base.vocab_size, share=base.window is None and not base.plain):
            loss = _pass_loss(base, one, data, loss_fn, config, logprobs)
            total += float(loss.detach())
            if backward:
                loss.backward()
        if backward:
            _check_finite(adapter, total)
    return ForwardBackwardResult(logprobs, {"loss:sum": total})


@contextmanager
def _all_or_nothing(adapter: AdapterWeights) -> Iterator[None]:
    """Gradients that the block computes are added to those from before it, unless it raises."""
    parameters = list(adapter.parameters())
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    except BaseException:
        for parameter, grad in zip(parameters, before, strict=True):
            parameter.grad = grad
        raise
    for parameter, grad in zip(parameters, before, strict=True):
        if parameter.grad is None:
            parameter.grad = grad
        elif grad is not None:
            parameter.grad += grad


def _check_finite(adapter: AdapterWeights, loss: float) -> None:
    if not math.isfinite(loss):
        raise RequestError(f"the loss is {loss}; nothing was added to the gradient")
    for name, parameter in adapter.named_parameters():
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            raise RequestError(f"the gradient of {name} is not finite (the loss is {loss}); nothing was added to it")


def _pass_loss(
    base: BaseModel,
    one: Pass,
    data: Sequence[TrainingDatum],
    loss_fn: str,
    config: Mapping[str, float],
    logprobs: list[np.ndarray],
) -> Tensor:
    """Loss of the data of one pass; their log-probabilities are written into `logprobs`."""
    table = torch.log_softmax(one.logits(base), dim=-1)
    terms = []
    start = 0
    for sequence in one.sequences:
        stop = start + len(sequence.needed)
        for i in sequence.data:
            inputs = {k: _to(base, v[sequence.needed]) for k, v in data[i].inputs.items() if k in _KNOWN_INPUTS}
            targets = inputs.pop("target_tokens")
            chosen = table[start:stop].gather(1, targets.reshape(len(targets), -1)).reshape(targets.shape)
            logprobs[i][sequence.needed] = chosen.detach().cpu().numpy()
            terms.append(LOSSES[loss_fn](chosen, inputs, config))
        start = stop
    return torch.stack(terms).sum()


def _distinct(data: Sequence[TrainingDatum], loss_fn: str, *, everything: bool) -> list[TrainingSequence]:
    """Equal inputs put together; they need whatever one of their data needs.

    They come in an order that follows from their contents: clients render in threads, so equal prompts of a group
    change places from run to run, and sums in another order would end in other bits.
    """
    members: dict[bytes, list[int]] = {}
    needed: dict[bytes, np.ndarray] = {}
    for i in sorted(range(len(data)), key=lambda i: _contents(data[i])):
        datum = data[i]
        key = datum.tokens.tobytes()
        mask = np.ones(len(datum.tokens), bool) if everything else _needed(datum, loss_fn)
        members.setdefault(key, []).append(i)
        needed[key] = needed[key] | mask if key in needed else mask
    return [
        TrainingSequence(data[indices[0]].tokens, tuple(indices), np.flatnonzero(needed[key]))
        for key, indices in members.items()
    ]


def _contents(datum: TrainingDatum) -> tuple[bytes, ...]:
    return (datum.tokens.tobytes(), *(datum.inputs[key].tobytes() for key in sorted(datum.inputs)))


def _needed(datum: TrainingDatum, loss_fn: str) -> np.ndarray:
    """Boolean (T,): positions that a loss or a metric of the client can depend on."""
    needed = np.zeros(len(datum.tokens), bool)
    for key in REQUIRED_INPUTS[loss_fn]:
        value = datum.inputs[key]
        needed |= (value != 0).reshape(len(value), -1).any(axis=1)
    return needed


def _check_datum(base: BaseModel, datum: TrainingDatum, i: int, loss_fn: str) -> None:
    base.check_tokens(datum.tokens.tolist(), f"datum[{i}].model_input")
    targets = datum.inputs.get("target_tokens")
    if targets is None:
        raise RequestError(f"datum[{i}] has no loss_fn_inputs['target_tokens'], which every loss needs")
    if targets.ndim not in (1, 2) or len(targets) != len(datum.tokens):
        raise RequestError(
            f"datum[{i}] target_tokens has shape {targets.shape}; expected one row per input token: "
            f"({len(datum.tokens)},) or ({len(datum.tokens)}, K)"
        )
    if targets.size and (targets.min() < 0 or targets.max() >= base.vocab_size):
        bad = int(targets.min() if targets.min() < 0 else targets.max())
        raise RequestError(
            f"datum[{i}] target_tokens holds id {bad}, outside the vocabulary (0 to {base.vocab_size - 1})"
        )
    for key in REQUIRED_INPUTS[loss_fn]:
        if key not in datum.inputs:
            raise RequestError(f"datum[{i}] has no loss_fn_inputs[{key!r}], which loss_fn {loss_fn!r} needs")
    for key in (*REQUIRED_INPUTS[loss_fn], *OPTIONAL_INPUTS):
        value = datum.inputs.get(key)
        if value is not None and value.shape != targets.shape:
            raise RequestError(
                f"datum[{i}] loss_fn_inputs[{key!r}] has shape {value.shape}, target_tokens {targets.shape}"
            )
        if value is not None and not np.isfinite(value).all():
            raise RequestError(f"datum[{i}] loss_fn_inputs[{key!r}] holds a value that is not finite")


def _to(base: BaseModel, array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(base.device)


@dataclass(frozen=True)
class AdamSettings:
    """Tinker's `AdamParams`, given anew at every step."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


def new_optimizer(adapter: AdapterWeights) -> torch.optim.AdamW:
    return torch.optim.AdamW(list(adapter.parameters()), lr=0.0)


def optim_step(adapter: AdapterWeights, optimizer: torch.optim.AdamW, settings: AdamSettings) -> dict[str, float]:
    """One AdamW step on the accumulated gradients (zero where there are none), which are then cleared.

    A step that fails changes nothing: weights, optimiser state and gradients are those from before it.

    Returns
    -------
    The gradient's norm before clipping, as ``grad_norm:mean``.

    Raises
    ------
    RequestError
        If the norm is not finite. Only then the gradients are cleared, as no repetition could succeed with them.
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
    for group in optimizer.param_groups:
        group.update(
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )
    optimizer.step()
    return norm
