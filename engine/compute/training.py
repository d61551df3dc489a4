"""Forward and backward passes of one adapter: equal sequences go through the model once, common prompts once, similar
lengths together.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..errors import RequestError
from .adapters import AdapterWeights
from .attention import SlotLayer
from .continuations import lay_out
from .losses import LOSSES, THRESHOLDS, check_loss, required_inputs
from .model import BaseModel

TOKENS_PER_PASS = 4096
"""Padded tokens that go through the model at once: activations stay in cache, memory stays bounded."""
LOGITS_PER_PASS = 1 << 26
"""Logits (positions times vocabulary) computed at once: 256 MB in float32."""
SHORTEST_SHARED = 16
"""Shared prompts shorter than this are not worth a pass of their own."""
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
        for batch in _plan_passes(sequences, base.vocab_size, share=base.window is None and not base.plain):
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


@dataclass(frozen=True)
class _Sequence:
    """A distinct model input."""

    tokens: np.ndarray  # int64 (T,).
    data: tuple[int, ...]  # Indices of the data that have this input.
    needed: np.ndarray  # int64, sorted: positions whose logits are wanted.
    prefix: int = 0  # How many of its first tokens are read once for all sequences of the pass that begin with them.

    @property
    def head(self) -> bytes:
        """The tokens of the prefix, as something that can be compared."""
        return self.tokens[: self.prefix].tobytes()


def _distinct(data: Sequence[TrainingDatum], loss_fn: str, *, everything: bool) -> list[_Sequence]:
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
        sequences.append(_Sequence(tokens, tuple(indices), np.flatnonzero(needed)))
    return sequences


def _plan_passes(sequences: Sequence[_Sequence], vocabulary: int, *, share: bool) -> Iterator[list[_Sequence]]:
    """Cut a batch into passes within the limits; sequences that need nothing are left out.

    Sequences that begin alike (the rollouts of one group) may `share` that beginning: everything before the first
    needed position. A pass has either only sequences with a prefix or only such without.
    """
    groups: dict[bytes, list[_Sequence]] = {}
    for sequence in sequences:
        if len(sequence.needed):
            first = int(sequence.needed[0])
            with_prefix = replace(sequence, prefix=first if share and first >= SHORTEST_SHARED else 0)
            groups.setdefault(with_prefix.head, []).append(with_prefix)
    alone = groups.pop(b"", [])
    shared: list[_Sequence] = []
    for members in sorted(groups.values(), key=lambda g: (g[0].prefix, len(g[0].tokens))):
        if len(members) == 1:
            alone.append(replace(members[0], prefix=0))
        else:
            shared += members
    yield from _cut(sorted(alone, key=lambda s: len(s.tokens)), vocabulary)
    yield from _cut(shared, vocabulary)


def _cut(sequences: list[_Sequence], vocabulary: int) -> Iterator[list[_Sequence]]:
    batch: list[_Sequence] = []
    heads: set[bytes] = set()
    widest = longest = positions = 0
    for s in sequences:
        heads.add(s.head)
        widest, longest = max(widest, s.prefix), max(longest, len(s.tokens) - s.prefix)
        positions += len(s.needed)
        tokens = len(heads) * widest + (len(batch) + 1) * longest
        if batch and (tokens > TOKENS_PER_PASS or positions * vocabulary > LOGITS_PER_PASS):
            yield batch
            batch, heads = [], {s.head}
            widest, longest, positions = s.prefix, len(s.tokens) - s.prefix, len(s.needed)
        batch.append(s)
    if batch:
        yield batch


def _pass_loss(
    base: BaseModel,
    batch: Sequence[_Sequence],
    data: Sequence[TrainingDatum],
    loss_fn: str,
    config: Mapping[str, float],
    logprobs: list[np.ndarray],
) -> Tensor:
    """Loss of the data of one pass; their log-probabilities are written into `logprobs`."""
    table = torch.log_softmax(_logits(base, batch), dim=-1)
    terms = []
    start = 0
    for sequence in batch:
        stop = start + len(sequence.needed)
        for i in sequence.data:
            inputs = {
                key: torch.from_numpy(np.ascontiguousarray(value[sequence.needed])).to(base.device)
                for key, value in data[i].inputs.items()
                if key in _KNOWN_INPUTS
            }
            targets = inputs.pop("target_tokens")
            chosen = table[start:stop].gather(1, targets.reshape(len(targets), -1)).reshape(targets.shape)
            logprobs[i][sequence.needed] = chosen.detach().cpu().numpy()
            terms.append(LOSSES[loss_fn](chosen, inputs, config))
        start = stop
    return torch.stack(terms).sum()


def _logits(base: BaseModel, batch: Sequence[_Sequence]) -> Tensor:
    """float32 (N, vocabulary): logits at the needed positions, sequence after sequence.

    Every prefix is read once, then all continuations against the keys and values of theirs; gradients flow through
    both.
    """
    lengths = [s.prefix for s in batch]
    continuations = [s.tokens[s.prefix :] for s in batch]
    if not max(lengths):
        # Padding is on the right, where a causal model cannot see it: no mask is needed.
        tokens = _padded(continuations)
        return base.logits(tokens.to(base.device), _places(batch, range(0, tokens.numel(), tokens.shape[1]), base))
    heads = {s.head: s.tokens[: s.prefix] for s in batch}
    prompts = _padded(list(heads.values()))
    cache = base.empty_cache()
    base.logits(prompts.to(base.device), torch.zeros(0, dtype=torch.int64, device=base.device), cache=cache)
    index = {head: i for i, head in enumerate(heads)}
    layout = lay_out(continuations, [index[s.head] for s in batch], list(map(len, heads.values())))
    rows = layout.prompts.to(base.device)
    past = []
    for layer in cache:
        keys, values = (part.index_select(0, rows) for part in layer.filled())
        past.append(_PastLayer.of(keys, values, layer.length))
    return base.logits(
        layout.tokens.to(base.device),
        _places(batch, layout.starts, base),
        positions=layout.positions.to(base.device),
        mask=layout.mask.to(base.device),
        cache=past,
    )


def _places(batch: Sequence[_Sequence], starts: Iterable[int], base: BaseModel) -> Tensor:
    """int64 (N,): the needed positions of sequences whose continuations begin at these flat places."""
    places = [start + s.needed - s.prefix for s, start in zip(batch, starts, strict=True)]
    return torch.from_numpy(np.concatenate(places)).to(base.device)


class _PastLayer(SlotLayer):
    """Keys and values that are read and not extended, so that gradients can flow back into them."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        keys, values = self.filled()
        return torch.cat([keys, key_states], dim=-2), torch.cat([values, value_states], dim=-2)


def _padded(rows: list[np.ndarray]) -> Tensor:
    """int64 (rows, longest), padded on the right."""
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, values in zip(tokens, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(tokens)
