"""How training sequences go through the model: equal ones once, common prompts once, similar lengths together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from .kv_cache import SlotCache, SlotLayer
from .model import BaseModel

TOKENS_PER_PASS = 4096
"""Padded tokens that go through the model at once: activations stay in cache, memory stays bounded."""
LOGITS_PER_PASS = 1 << 26
"""Logits (positions times vocabulary) computed at once: 256 MB in float32."""
SHORTEST_SHARED = 16
"""Shared prompts shorter than this are not worth a pass of their own."""


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
