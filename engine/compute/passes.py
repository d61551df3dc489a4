"""The passes of a training request: similar lengths together, a prompt that sequences have in common read once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .attention import SlotLayer
from .model import BaseModel

SHORTEST_SHARED = 16
"""Shared prompts shorter than this are not worth a pass of their own."""


@dataclass(frozen=True)
class PassSequence:
    """A distinct model input."""

    tokens: np.ndarray  # int64 (T,).
    data: tuple[int, ...]  # Indices of the data that have this input.
    needed: np.ndarray  # int64, sorted: positions whose logits are wanted.
    prefix: int = 0  # How many of its first tokens are read once for all sequences of the pass that begin with them.

    @property
    def head(self) -> bytes:
        """The tokens of the prefix, as something that can be compared."""
        return self.tokens[: self.prefix].tobytes()


def plan_passes(sequences: Sequence[PassSequence], limit: int, *, share: bool) -> Iterator[list[PassSequence]]:
    """Cut a batch into passes of up to `limit` padded tokens; only a single sequence may be longer. Sequences that need
    nothing are left out.

    Sequences that begin alike (the rollouts of one group) may `share` that beginning: everything before the first
    needed position. A pass has either only sequences with a prefix or only such without.
    """
    groups: dict[bytes, list[PassSequence]] = {}
    for sequence in sequences:
        if len(sequence.needed):
            first = int(sequence.needed[0])
            sharing = share and first >= SHORTEST_SHARED and len(sequence.tokens) <= limit
            with_prefix = replace(sequence, prefix=first if sharing else 0)
            groups.setdefault(with_prefix.head, []).append(with_prefix)
    alone = groups.pop(b"", [])
    shared: list[list[PassSequence]] = []
    for members in sorted(groups.values(), key=lambda g: (g[0].prefix, len(g[0].tokens))):
        if len(members) == 1:
            alone.append(replace(members[0], prefix=0))
        else:
            shared.append(members)
    yield from _cut(([s] for s in sorted(alone, key=lambda s: len(s.tokens))), limit)
    yield from _cut(shared, limit)


def _cut(groups: Iterable[list[PassSequence]], limit: int) -> Iterator[list[PassSequence]]:
    """Put whole groups, each with one prefix, into passes: the prefix of a group in two passes would be read twice.
    Only a group that is too large for a pass is divided.
    """
    batch: list[PassSequence] = []
    prefixes = widest = longest = 0
    for group in groups:
        prefix = group[0].prefix
        length = max(len(s.tokens) for s in group) - prefix
        size = max(1, (limit - prefix) // length)
        for members in (group[start : start + size] for start in range(0, len(group), size)):
            rows = len(batch) + len(members)
            if batch and (prefixes + 1) * max(widest, prefix) + rows * max(longest, length) > limit:
                yield batch
                batch = []
                prefixes = widest = longest = 0
            batch += members
            prefixes, widest, longest = prefixes + 1, max(widest, prefix), max(longest, length)
    if batch:
        yield batch


@dataclass(frozen=True)
class Layout:
    """Continuations of common prompts in rows of one width, padded on the right, each row with those of one prompt.

    The keys and values of a prompt are then read once for all of them, and a row of eight short continuations is one
    product where eight rows would be eight. A mask keeps the continuations apart.
    """

    tokens: Tensor  # int64 (rows, width).
    positions: Tensor  # int64 (rows, width): places in their sequences; 0 for padding.
    mask: Tensor  # Boolean (rows, 1, width, longest prompt + width): the prompt, and what precedes in a continuation.
    prompts: Tensor  # int64 (rows,): index of every row's prompt.
    starts: list[int]  # Place of every continuation's first token in the flattened tokens.


def lay_out(continuations: Sequence[np.ndarray], prompts: Sequence[int], lengths: Sequence[int]) -> Layout:
    """Put continuations into rows: int64 (T,) each, T at least 1, those of one prompt next to each other.

    `prompts` has the index of each one's prompt, `lengths` the lengths of the prompts.
    """
    # As wide as the longest one, or as all of a prompt where prompts have about equally many: wider rows would hold
    # more padding.
    sizes = list(map(len, continuations))
    width = max(max(sizes), -(-sum(sizes) // len(set(prompts))))
    rows: list[int] = []
    starts: list[int] = []
    filled = 0
    for continuation, prompt in zip(continuations, prompts, strict=True):
        if not rows or rows[-1] != prompt or filled + len(continuation) > width:
            rows.append(prompt)
            filled = 0
        starts.append((len(rows) - 1) * width + filled)
        filled += len(continuation)
    # Padding counts as one more continuation, whose places see each other only.
    table, position, owner = (np.full(len(rows) * width, value) for value in (0, 0, -1))
    for i, (start, continuation, prompt) in enumerate(zip(starts, continuations, prompts, strict=True)):
        part, steps = slice(start, start + len(continuation)), np.arange(len(continuation))
        table[part], position[part], owner[part] = continuation, lengths[prompt] + steps, i
    owner = owner.reshape(-1, width)
    before = np.arange(max(lengths)) < np.asarray(lengths)[rows][:, None]
    own = np.tril(owner[:, :, None] == owner[:, None, :])
    mask = np.concatenate([np.broadcast_to(before[:, None, :], (len(rows), width, before.shape[1])), own], axis=2)
    tokens, positions = (torch.from_numpy(part.reshape(-1, width)) for part in (table, position))
    return Layout(tokens, positions, torch.from_numpy(mask[:, None]), torch.tensor(rows), starts)


def pass_inputs(base: BaseModel, batch: Sequence[PassSequence]) -> dict[str, Any]:
    """Arguments of `BaseModel.logits` for the needed positions, sequence after sequence.

    Every prefix is read here, once, and the continuations are to be read against the keys and values of theirs;
    gradients flow through both.
    """
    lengths = [s.prefix for s in batch]
    continuations = [s.tokens[s.prefix :] for s in batch]
    if not max(lengths):
        # Padding is on the right, where a causal model cannot see it: no mask is needed.
        tokens = _padded(continuations).to(base.device)
        select = _places(batch, range(0, tokens.numel(), tokens.shape[1]), base)
        return {"tokens": tokens, "select": select}
    heads = {s.head: s.tokens[: s.prefix] for s in batch}
    prompts = _padded(heads.values()).to(base.device)
    cache = base.empty_cache()
    base.logits(prompts, torch.zeros(0, dtype=torch.int64, device=base.device), cache=cache)
    index = {head: i for i, head in enumerate(heads)}
    layout = lay_out(continuations, [index[s.head] for s in batch], list(map(len, heads.values())))
    rows = layout.prompts.to(base.device)
    past = []
    for layer in cache:
        keys, values = (part.index_select(0, rows) for part in layer.filled())
        past.append(_PastLayer().fill(keys, values, layer.length))
    return {
        "tokens": layout.tokens.to(base.device),
        "select": _places(batch, layout.starts, base),
        "positions": layout.positions.to(base.device),
        "mask": layout.mask.to(base.device),
        "cache": past,
    }


def _places(batch: Sequence[PassSequence], starts: Iterable[int], base: BaseModel) -> Tensor:
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


def _padded(rows: Iterable[np.ndarray]) -> Tensor:
    """int64 (rows, longest), padded with zeros on the right."""
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True)
