"""Rows being decoded, in blocks of a fixed number of rows: prompts are kept once, what was decoded row by row."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .attention import UNIT_ROWS, UNITS_AT_ONCE, PromptUnits, SlotLayer
from .model import BaseModel


class DecodedLayer(SlotLayer):
    """Keys and values of the tokens decoded so far, which know the prompts before them."""

    def __init__(self, prompts: PromptUnits, decoded: SlotLayer | None) -> None:
        super().__init__()
        self.prompts = prompts
        if decoded is not None:
            self.fill(*decoded.filled(), decoded.length)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        keys, values = super().update(key_states, value_states)
        # An attribute of the tensor, since models hand nothing else from the cache to the attention.
        keys.prompts = self.prompts  # pyright: ignore[reportAttributeAccessIssue]
        return keys, values


class DecodingBlock:
    """Rows that take every step together.

    Row i continues prompt ``which[i]`` of length ``lengths[i]`` (both int64 (rows,), equal prompts next to each other).
    In every layer `prompts` has the keys and values of all distinct prompts, padded on the right to the same width, and
    `decoded` those of tokens that the rows have decoded already; None for fresh rows.
    """

    def __init__(
        self,
        base: BaseModel,
        prompts: Sequence[SlotLayer],
        which: Tensor,
        lengths: Tensor,
        decoded: Sequence[SlotLayer] | None,
    ) -> None:
        self.base, self.which, self.lengths = base, which, lengths
        self.width = prompts[0].filled()[0].shape[2]
        units, slots = (torch.tensor(part, device=base.device) for part in _units(which.tolist()))
        self.layers: list[DecodedLayer] = []
        for i, prompt in enumerate(prompts):
            keys, values = (part.index_select(0, units) for part in prompt.filled())
            own = None if decoded is None else decoded[i]
            self.layers.append(DecodedLayer(PromptUnits(keys, values, slots), own))
        self._select = torch.arange(len(which), device=base.device)

    def step(self, tokens: Tensor, step: int) -> Tensor:
        """Logits, float32 (rows, vocabulary), after one more token (int64 (rows,)) in every row; `step` were decoded
        before.
        """
        slots = torch.arange(self.width + step + 1, device=self.base.device)
        decoded = slots >= self.width
        # Prompt slots keep their index, padding has none, and decoded slot s holds position length + (s - width).
        positions = torch.where(decoded, self.lengths[:, None] + slots - self.width, slots)
        positions = torch.where(decoded | (slots < self.lengths[:, None]), positions, -1)
        query = self.lengths + step
        mask = self.base.decoding_mask(positions, query)
        return self.base.logits(tokens[:, None], self._select, positions=query[:, None], mask=mask, cache=self.layers)


class DecodingBatch:
    """All rows with prompts of one width. Finished rows keep their place until a whole block can be given up."""

    def __init__(
        self, base: BaseModel, block_rows: int, prompts: Sequence[SlotLayer], which: Tensor, lengths: Tensor
    ) -> None:
        self._base, self._block_rows, self._prompts = base, block_rows, prompts
        rows = self._filled(torch.arange(len(which), device=base.device))
        self._arrange(which[rows], lengths[rows], None)

    def keep(self, rows: Tensor) -> bool:
        """Go on with the rows at `rows` only, if that saves a block; whether it was done."""
        if -(-len(rows) // self._block_rows) == len(self._blocks):
            return False
        rows = self._filled(rows)
        decoded = []
        for layers in zip(*(block.layers for block in self._blocks), strict=True):
            decoded.append(SlotLayer.stack(layers).mapped(lambda part: part.index_select(0, rows)))
        which, lengths = (torch.cat(parts) for parts in zip(*((b.which, b.lengths) for b in self._blocks), strict=True))
        self._arrange(which[rows], lengths[rows], decoded)
        return True

    def step(self, tokens: list[int], step: int) -> Tensor:
        """Logits (rows, vocabulary) after one more token in every row."""
        size = self._block_rows
        padded = torch.tensor(tokens + tokens[-1:] * (len(self._blocks) * size - len(tokens)), device=self._base.device)
        out = [block.step(padded[i * size : (i + 1) * size], step) for i, block in enumerate(self._blocks)]
        return torch.cat(out)[: len(tokens)]

    def _arrange(self, which: Tensor, lengths: Tensor, decoded: list[SlotLayer] | None) -> None:
        self._blocks: list[DecodingBlock] = []
        for start in range(0, len(which), self._block_rows):
            part = slice(start, start + self._block_rows)
            mine = None
            if decoded is not None:
                mine = [layer.mapped(lambda rows, part=part: rows[part].clone()) for layer in decoded]
            self._blocks.append(DecodingBlock(self._base, self._prompts, which[part], lengths[part], mine))

    def _filled(self, rows: Tensor) -> Tensor:
        """`rows` continued with copies of its last entry up to a whole number of blocks."""
        return torch.cat([rows, rows[-1:].expand(-len(rows) % self._block_rows)])


def _units(which: list[int]) -> tuple[list[int], list[int]]:
    """The prompt of every unit, and the slot of every row; the number of units is filled up with copies of the last.

    Examples
    --------
    >>> _units([7, 7, 3])
    ([7, 3, 3, 3], [0, 1, 8])
    """
    units: list[int] = []
    slots: list[int] = []
    used = UNIT_ROWS
    for prompt in which:
        if used == UNIT_ROWS or units[-1] != prompt:
            units.append(prompt)
            used = 0
        slots.append((len(units) - 1) * UNIT_ROWS + used)
        used += 1
    units += units[-1:] * (-len(units) % UNITS_AT_ONCE)
    return units, slots
