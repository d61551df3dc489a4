"""Forward and backward passes of one adapter: equal sequences go through the model once, common prompts once, similar
lengths together.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import RequestError
from .adapters import AdapterWeights
from .compat import recomputing_layers
from .losses import LOSSES, THRESHOLDS, check_loss, required_inputs
from .memory import check_fits, pass_tokens, training_bytes
from .model import BaseModel
from .passes import PassSequence, pass_inputs, plan_passes

TOKENS_PER_PASS = 4096
"""Padded tokens that go through a small model at once: activations stay in cache. See `memory.pass_tokens`, too."""
LOGITS_AT_ONCE = 1 << 25
"""Logits (positions times vocabulary) computed at once: 128 MB in float32."""
_KNOWN_INPUTS = {"target_tokens", "weights", "advantages", "logprobs", *THRESHOLDS}


@dataclass(frozen=True)
class TrainingDatum:
    """One sequence and its loss inputs."""

    tokens: np.ndarray  # int64 (T,), the model's input.
    inputs: Mapping[str, np.ndarray]  # target_tokens int64 (T,) or (T, K), the others float32 of the same shape.


@dataclass(frozen=True)
class ForwardBackwardResult:
    """What a pass reports."""

    logprobs: list[np.ndarray]  # float32, of each datum's target shape.
    metrics: dict[str, float]  # Named name:reduction.


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

    A `RequestError` refuses an unknown loss, a missing or misshapen input, tokens the model does not have, a sequence
    whose pass does not fit into memory, and, with `backward`, a loss or a gradient that is not finite.
    """
    check_loss(loss_fn, config)
    for i, datum in enumerate(data):
        _check_datum(base, datum, i, loss_fn)
    logprobs = [np.zeros(d.inputs["target_tokens"].shape, np.float32) for d in data]
    request = _Request(data, loss_fn, config, logprobs)
    sequences = _distinct_sequences(data, loss_fn, everything=not backward)
    total = 0.0
    with all_or_nothing(adapter), base.using(adapter), torch.set_grad_enabled(backward):
        limit = min(TOKENS_PER_PASS, pass_tokens(base))
        for batch in plan_passes(sequences, limit, share=base.window is None and not base.plain):
            for loss in _losses(base, request, batch):
                total += float(loss.detach())
                if backward:
                    loss.backward()
        if backward:
            _check_finite(adapter, total)
    return ForwardBackwardResult(logprobs, {"loss:sum": total})


@contextmanager
def all_or_nothing(adapter: AdapterWeights) -> Iterator[None]:
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
    required = required_inputs(loss_fn)
    for key in (*required, *THRESHOLDS):
        value = datum.inputs.get(key)
        if value is None:
            if key in required:
                raise RequestError(f"datum[{i}] has no loss_fn_inputs[{key!r}], which loss_fn {loss_fn!r} needs")
        elif value.shape != targets.shape:
            raise RequestError(
                f"datum[{i}] loss_fn_inputs[{key!r}] has shape {value.shape}, target_tokens {targets.shape}"
            )
        elif not np.isfinite(value).all():
            raise RequestError(f"datum[{i}] loss_fn_inputs[{key!r}] holds a value that is not finite")


def _distinct_sequences(data: Sequence[TrainingDatum], loss_fn: str, *, everything: bool) -> list[PassSequence]:
    """Equal inputs put together; they need whatever one of their data needs.

    They come in an order that follows from their contents: clients render in threads, so equal prompts of a group
    change places from run to run, and sums in another order would end in other bits.
    """
    contents = [(d.tokens.tobytes(), *(d.inputs[key].tobytes() for key in sorted(d.inputs))) for d in data]
    members: dict[bytes, list[int]] = {}
    for i in sorted(range(len(data)), key=contents.__getitem__):
        members.setdefault(contents[i][0], []).append(i)
    sequences = []
    for indices in members.values():
        tokens = data[indices[0]].tokens
        needed = np.full(len(tokens), everything)
        for value in (data[i].inputs[key] for i in indices for key in required_inputs(loss_fn)):
            needed |= (value != 0).reshape(len(value), -1).any(axis=1)
        sequences.append(PassSequence(tokens, tuple(indices), np.flatnonzero(needed)))
    return sequences


@dataclass(frozen=True)
class _Request:
    """What every pass of a request needs; log-probabilities are written into `logprobs`."""

    data: Sequence[TrainingDatum]
    loss_fn: str
    config: Mapping[str, float]
    logprobs: list[np.ndarray]


def _losses(base: BaseModel, request: _Request, batch: Sequence[PassSequence]) -> Iterator[Tensor]:
    """Losses of the parts of a pass, of which each is to be differentiated before the next one. The layers of a
    sequence too long to keep what they computed are computed twice.
    """
    at_once = max(1, LOGITS_AT_ONCE // base.vocab_size)
    longest, fitting = max(len(s.tokens) for s in batch), pass_tokens(base)
    recomputing = torch.is_grad_enabled() and longest > fitting
    if torch.is_grad_enabled():
        tokens = max(longest, min(fitting, sum(len(s.tokens) for s in batch)))
        logits = min(sum(len(s.needed) for s in batch), at_once) * base.vocab_size
        needed = training_bytes(base, tokens, logits, checkpointed=recomputing)
        check_fits(base, needed, f"training on a sequence of {longest} tokens")
    with recomputing_layers(base.net) if recomputing else nullcontext():
        start = 0
        for logits in base.logits_in_parts(at_once, **pass_inputs(base, batch)):
            yield _part_loss(base, request, batch, start, torch.log_softmax(logits, dim=-1))
            start += len(logits)


def _part_loss(base: BaseModel, request: _Request, batch: Sequence[PassSequence], start: int, table: Tensor) -> Tensor:
    """Loss at some of the pass's needed positions: those from number `start` on, whose log-probabilities are `table`,
    float32 (N, vocabulary).
    """
    firsts = np.cumsum([0, *(len(sequence.needed) for sequence in batch)]) - start
    # One split: the gradient of every slice would be a table of its own.
    parts = table.split(np.diff(firsts.clip(0, len(table))).tolist())
    terms = []
    for sequence, first, rows in zip(batch, firsts[:-1], parts, strict=True):
        skipped = max(0, -first)
        needed = sequence.needed[skipped : skipped + len(rows)]
        for i in sequence.data if len(rows) else ():
            inputs = {
                key: torch.from_numpy(np.ascontiguousarray(value[needed])).to(base.device)
                for key, value in request.data[i].inputs.items()
                if key in _KNOWN_INPUTS
            }
            targets = inputs.pop("target_tokens")
            chosen = rows.gather(1, targets.reshape(len(targets), -1)).reshape(targets.shape)
            request.logprobs[i][needed] = chosen.detach().cpu().numpy()
            terms.append(LOSSES[request.loss_fn](chosen, inputs, request.config))
    return torch.stack(terms).sum()
