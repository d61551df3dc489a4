"""Forward and backward passes of one adapter, and its AdamW step."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .errors import RequestError
from .lora import AdapterWeights
from .losses import LOSSES, OPTIONAL_INPUTS, REQUIRED_INPUTS, check_loss
from .model import BaseModel

TOKENS_PER_PASS = 4096
"""Padded tokens that go through the model at once: activations stay in cache, memory stays bounded."""
LOGITS_PER_PASS = 1 << 26
"""Logits (positions times vocabulary) computed at once: 256 MB in float32."""


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


@dataclass
class _Sequence:
    """A distinct model input and the data that share it."""

    tokens: np.ndarray
    data: list[int]
    needed: np.ndarray


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

    Equal inputs go through the model once. With `backward`, logits are computed only at the positions where a weight, an
    advantage or a sampling log-probability is not zero; elsewhere the reported log-probability is 0. A forward pass alone
    reports all of them.

    Raises
    ------
    RequestError
        For an unknown loss, a missing or misshapen input, or tokens the model does not have.
    """
    check_loss(loss_fn, config)
    for i, datum in enumerate(data):
        _check_datum(base, datum, i, loss_fn)
    logprobs = [np.zeros(d.inputs["target_tokens"].shape, np.float32) for d in data]
    total = 0.0
    with base.using(adapter), torch.set_grad_enabled(backward):
        for batch in _batches(_distinct(data, loss_fn, everything=not backward), base.vocab_size):
            loss = _batch_loss(base, batch, data, loss_fn, config, logprobs)
            if loss is None:
                continue
            total += float(loss.detach())
            if backward:
                loss.backward()
    return ForwardBackwardResult(logprobs, {"loss:sum": total})


def _batch_loss(
    base: BaseModel,
    batch: list[_Sequence],
    data: Sequence[TrainingDatum],
    loss_fn: str,
    config: Mapping[str, float],
    logprobs: list[np.ndarray],
) -> Tensor | None:
    """Loss of the data of one padded batch; their log-probabilities are written into `logprobs`."""
    width = max(len(s.tokens) for s in batch)
    tokens = np.zeros((len(batch), width), np.int64)
    for row, sequence in enumerate(batch):
        tokens[row, : len(sequence.tokens)] = sequence.tokens
    places = [row * width + s.needed for row, s in enumerate(batch)]
    select = np.concatenate(places)
    if not len(select):
        return None
    # Padding is on the right, where a causal model cannot see it: no mask is needed.
    logits = base.logits(_to(base, tokens), _to(base, select))
    table = torch.log_softmax(logits, dim=-1)
    loss: Tensor | None = None
    start = 0
    for sequence in batch:
        stop = start + len(sequence.needed)
        at = table[start:stop]
        start = stop
        for i in sequence.data:
            inputs = {k: _to(base, v[sequence.needed]) for k, v in data[i].inputs.items()}
            targets = inputs.pop("target_tokens")
            chosen = at.gather(1, targets.reshape(len(targets), -1)).reshape(targets.shape)
            logprobs[i][sequence.needed] = chosen.detach().cpu().numpy()
            term = LOSSES[loss_fn](chosen, inputs, config)
            loss = term if loss is None else loss + term
    return loss


def _distinct(data: Sequence[TrainingDatum], loss_fn: str, *, everything: bool) -> list[_Sequence]:
    by_tokens: dict[bytes, _Sequence] = {}
    for i, datum in enumerate(data):
        key = datum.tokens.tobytes()
        needed = np.ones(len(datum.tokens), bool) if everything else _needed(datum, loss_fn)
        if key in by_tokens:
            by_tokens[key].data.append(i)
            by_tokens[key].needed |= needed
        else:
            by_tokens[key] = _Sequence(datum.tokens, [i], needed)
    for sequence in by_tokens.values():
        sequence.needed = np.flatnonzero(sequence.needed)
    return list(by_tokens.values())


def _needed(datum: TrainingDatum, loss_fn: str) -> np.ndarray:
    """Boolean (T,): positions that a loss or a metric of the client can depend on."""
    needed = np.zeros(len(datum.tokens), bool)
    for key in REQUIRED_INPUTS[loss_fn]:
        value = datum.inputs[key]
        needed |= (value != 0).reshape(len(value), -1).any(axis=1)
    return needed


def _batches(sequences: list[_Sequence], vocabulary: int) -> Iterable[list[_Sequence]]:
    """Sequences of similar length together, within the limits on tokens and logits."""
    batch: list[_Sequence] = []
    positions = 0
    for sequence in sorted(sequences, key=lambda s: len(s.tokens)):
        tokens = (len(batch) + 1) * len(sequence.tokens)
        logits = (positions + len(sequence.needed)) * vocabulary
        if batch and (tokens > TOKENS_PER_PASS or logits > LOGITS_PER_PASS):
            yield batch
            batch, positions = [], 0
        batch.append(sequence)
        positions += len(sequence.needed)
    if batch:
        yield batch


def _check_datum(base: BaseModel, datum: TrainingDatum, i: int, loss_fn: str) -> None:
    base.check_tokens(datum.tokens.tolist(), f"datum[{i}].model_input")
    targets = datum.inputs.get("target_tokens")
    if targets is None:
        raise RequestError(f"datum[{i}] has no loss_fn_inputs['target_tokens'], which every loss needs")
    if targets.ndim not in (1, 2) or len(targets) != len(datum.tokens):
        raise RequestError(
            f"datum[{i}] target_tokens has shape {targets.shape}; expected ({len(datum.tokens)},) or ({len(datum.tokens)}, K), "
            "one row per input token"
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

    Returns
    -------
    The gradient's norm before clipping, as ``grad_norm:mean``.
    """
    parameters = list(adapter.parameters())
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    limit = settings.grad_clip_norm if settings.grad_clip_norm > 0 else math.inf
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit))
    if not math.isfinite(norm):
        optimizer.zero_grad(set_to_none=True)
        raise RequestError(f"the gradient's norm is {norm}; the step was not taken and the gradient was dropped")
    for group in optimizer.param_groups:
        group.update(
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {"grad_norm:mean": norm}
