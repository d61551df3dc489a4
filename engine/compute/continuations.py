"""Continuations of common prompts, laid out so that several of one prompt stand in one row.

The keys and values of a prompt are then read once for all of them, and a row of eight short continuations is one
product where eight rows would be eight. A mask keeps the continuations apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Rows of one width, each with continuations of one prompt, padded on the right."""

    tokens: Tensor  # int64 (rows, width).
    positions: Tensor  # int64 (rows, width): places in their sequences; 0 for padding.
    mask: Tensor  # Boolean (rows, 1, width, longest prompt + width): the prompt, and what precedes in a continuation.
    prompts: Tensor  # int64 (rows,): index of every row's prompt.
    starts: list[int]  # Place of every continuation's first token in the flattened tokens.


def lay_out(continuations: Sequence[np.ndarray], prompts: Sequence[int], lengths: Sequence[int]) -> Layout:
    """Put continuations into rows.

    Parameters
    ----------
    continuations
        int64 (T,) each, T at least 1; those of one prompt next to each other.
    prompts
        Index of each one's prompt.
    lengths
        Lengths of the prompts.
    """
    width = _width(continuations, len(set(prompts)))
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


def _width(continuations: Sequence[np.ndarray], prompts: int) -> int:
    """As wide as the longest continuation, or as all of a prompt where prompts have about equally many: wider rows
    would hold more padding.
    """
    return max(max(map(len, continuations)), -(-sum(map(len, continuations)) // prompts))
