"""Forward and backward passes of one adapter: equal sequences go through the model once, common prompts once, similar
lengths together.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import RequestError
from .adapters import AdapterWeights
from .attention import SlotCache, SlotLayer
from .compat import Cache
from .losses import LOSSES, OPTIONAL_INPUTS, REQUIRED_INPUTS, check_loss
from .model import BaseModel

TOKENS_PER_PASS = 4096
"""Padded tokens that go through the model at once: activations stay in cache, memory stays bounded."""
LOGITS_PER_PASS = 1 << 26
"""Logits (positions times vocabulary) computed at once: 256 MB in float32."""
SHORTEST_SHARED = 16
"""Shared prompts shorter than this are not worth a pass of their own."""
_KNOWN_INPUTS = {"target_tokens", "weights", "advantages", "logprobs", *OPTIONAL_INPUTS}


@dataclass(frozen=True)
class TrainingSequence:
    """A distinct model input.

    Parameters
    ----------
    tokens
        int64 (T,).
    data
        Indices of the data that have this input.
    needed
        int64, sorted: positions whose logits are wanted.
    """

    tokens: np.ndarray
    data: tuple[int, ...]
    needed: np.ndarray


@dataclass(frozen=True)
class Pass:
    """Sequences that go through the model together; if `shared`, in groups with a common beginning of `prefix`
    tokens each.
    """

    sequences: list[TrainingSequence]
    prefixes: list[int]

    def logits(self, base: BaseModel) -> Tensor:
        """float32 (N, vocabulary): logits at the needed positions, sequence after sequence."""
        if any(self.prefixes):
            return self._logits_shared(base)
        # Padding is on the right, where a causal model cannot see it: no mask is needed.
        tokens, select = _padded(self.sequences, self.prefixes)
        return base.logits(tokens.to(base.device), select.to(base.device))

    def _logits_shared(self, base: BaseModel) -> Tensor:
        """Read every prefix once, then all continuations against the keys and values of theirs; gradients flow
        through both.
        """
        heads: dict[bytes, int] = {}
        which = []
        for sequence, length in zip(self.sequences, self.prefixes, strict=True):
            which.append(heads.setdefault(sequence.tokens[:length].tobytes(), len(heads)))
        width = max(self.prefixes)
        prompts = torch.zeros((len(heads), width), dtype=torch.int64)
        for row, text in enumerate(heads):
            prompt = torch.from_numpy(np.frombuffer(text, np.int64).copy())
            prompts[row, : len(prompt)] = prompt
        cache = SlotCache.empty(base.num_layers)
        base.logits(prompts.to(base.device), torch.zeros(0, dtype=torch.int64, device=base.device), cache=cache)
        tokens, select = _padded(self.sequences, self.prefixes)
        lengths = torch.tensor(self.prefixes)
        steps = torch.arange(tokens.shape[1])
        seen = (torch.arange(width) < lengths[:, None])[:, None, None, :].expand(-1, 1, len(steps), -1)
        causal = (steps[None, :] <= steps[:, None]).expand(len(tokens), 1, -1, -1)
        return base.logits(
            tokens.to(base.device),
            select.to(base.device),
            positions=(lengths[:, None] + steps).to(base.device),
            mask=torch.cat([seen, causal], dim=-1).to(base.device),
            cache=_past(cache, torch.tensor(which, device=base.device)),
        )


class _PastLayer(SlotLayer):
    """Keys and values that are read and not extended, so that gradients can flow back into them."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        keys, values = self.filled()
        return torch.cat([keys, key_states], dim=-2), torch.cat([values, value_states], dim=-2)


def _past(cache: SlotCache, rows: Tensor) -> Cache:
    chosen = cache.select_rows(rows).slots
    return Cache(layers=[_PastLayer.of(*layer.filled(), layer.length) for layer in chosen])


def plan_passes(sequences: Sequence[TrainingSequence], vocabulary: int, *, share: bool) -> Iterable[Pass]:
    """Cut a batch into passes within the limits; sequences that need nothing are left out.

    Parameters
    ----------
    share
        Whether sequences that begin alike (the rollouts of one group) may share that beginning: everything before
        the first needed position.
    """
    groups: dict[bytes, list[TrainingSequence]] = {}
    alone: list[TrainingSequence] = []
    for sequence in sequences:
        if not len(sequence.needed):
            continue
        prefix = int(sequence.needed[0])
        if share and prefix >= SHORTEST_SHARED:
            groups.setdefault(sequence.tokens[:prefix].tobytes(), []).append(sequence)
        else:
            alone.append(sequence)
    shared: list[TrainingSequence] = []
    for members in sorted(groups.values(), key=lambda g: (int(g[0].needed[0]), len(g[0].tokens))):
        (alone if len(members) == 1 else shared).extend(members)
    yield from _cut(sorted(alone, key=lambda s: len(s.tokens)), vocabulary, shared=False)
    yield from _cut(shared, vocabulary, shared=True)


def _cut(sequences: list[TrainingSequence], vocabulary: int, *, shared: bool) -> Iterable[Pass]:
    batch: list[TrainingSequence] = []
    prompts: set[bytes] = set()
    longest = widest = positions = 0
    for sequence in sequences:
        prefix = int(sequence.needed[0]) if shared else 0
        prompt = sequence.tokens[:prefix].tobytes()
        longest = max(longest, len(sequence.tokens) - prefix)
        widest = max(widest, prefix)
        tokens = len(prompts | {prompt}) * widest + (len(batch) + 1) * longest
        too_much = tokens > TOKENS_PER_PASS or (positions + len(sequence.needed)) * vocabulary > LOGITS_PER_PASS
        if batch and too_much:
            yield Pass(batch, [int(s.needed[0]) if shared else 0 for s in batch])
            batch, prompts, positions = [], set(), 0
            longest, widest = len(sequence.tokens) - prefix, prefix
        batch.append(sequence)
        prompts.add(prompt)
        positions += len(sequence.needed)
    if batch:
        yield Pass(batch, [int(s.needed[0]) if shared else 0 for s in batch])


def _padded(sequences: Sequence[TrainingSequence], prefixes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What follows the prefixes, int64 (B, L) padded on the right, and the needed places in its flattened form."""
    width = max(len(s.tokens) - prefix for s, prefix in zip(sequences, prefixes, strict=True))
    tokens = np.zeros((len(sequences), width), np.int64)
    places = []
    for row, (sequence, prefix) in enumerate(zip(sequences, prefixes, strict=True)):
        tokens[row, : len(sequence.tokens) - prefix] = sequence.tokens[prefix:]
        places.append(row * width + sequence.needed - prefix)
    return torch.from_numpy(tokens), torch.from_numpy(np.concatenate(places))


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
    with all_or_nothing(adapter), base.using(adapter), torch.set_grad_enabled(backward):
        for batch in plan_passes(sequences, base.vocab_size, share=base.window is None and not base.plain):
            loss = _pass_loss(base, batch, data, loss_fn, config, logprobs)
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


def _pass_loss(
    base: BaseModel,
    batch: Pass,
    data: Sequence[TrainingDatum],
    loss_fn: str,
    config: Mapping[str, float],
    logprobs: list[np.ndarray],
) -> Tensor:
    """Loss of the data of one pass; their log-probabilities are written into `logprobs`."""
    table = torch.log_softmax(batch.logits(base), dim=-1)
    terms = []
    start = 0
    for sequence in batch.sequences:
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
