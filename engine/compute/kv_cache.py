"""A preallocated key-value cache: slots are written in place, so a decoding step copies one token and not the whole
past.
"""

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

GROWTH = 64
"""Slots added when a cache is full."""


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer: (rows, heads, capacity, head_dim), of which the first `length` slots are filled."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    @classmethod
    def of(cls, keys: Tensor, values: Tensor, length: int) -> "SlotLayer":
        """A layer on existing tensors, of which the first `length` slots are filled."""
        layer = cls()
        layer.fill(keys, values, length)
        return layer

    def fill(self, keys: Tensor, values: Tensor, length: int) -> None:
        """Take over existing tensors, of which the first `length` slots are filled."""
        self.keys, self.values, self.length, self.is_initialized = keys, values, length, True

    def filled(self) -> tuple[Tensor, Tensor]:
        """Keys and values (rows, heads, capacity, head_dim); slots from `length` on are not filled yet."""
        assert self.keys is not None, "the cache is empty"
        assert self.values is not None, "the cache is empty"
        return self.keys, self.values

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Start empty; `update` allocates."""
        rows, heads, _, dim = key_states.shape
        self.keys = key_states.new_zeros((rows, heads, 0, dim))
        self.values = value_states.new_zeros((rows, heads, 0, value_states.shape[-1]))
        self.is_initialized = True

    def reserve(self, slots: int) -> None:
        """Make room for `slots` slots in all."""
        assert self.keys is not None
        assert self.values is not None
        missing = slots - self.keys.shape[-2]
        if missing > 0:
            rows, heads, _, dim = self.keys.shape
            self.keys = torch.cat([self.keys, self.keys.new_zeros((rows, heads, missing, dim))], dim=-2)
            value_dim = self.values.shape[-1]
            self.values = torch.cat([self.values, self.values.new_zeros((rows, heads, missing, value_dim))], dim=-2)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        if self.length == 0 and self.keys.shape[-2] == 0:
            self.keys, self.values, self.length = key_states, value_states, key_states.shape[-2]
            return self.keys, self.values
        end = self.length + key_states.shape[-2]
        if end > self.keys.shape[-2]:
            self.reserve(self.length + max(GROWTH, key_states.shape[-2]))
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_cache_shape(self) -> int:
        return -1


class SlotCache(Cache):
    """A `SlotLayer` for every layer of the model."""

    def __init__(self, layers: list[SlotLayer]) -> None:
        super().__init__(layers=[*layers])
        self.slots = layers

    @classmethod
    def empty(cls, num_layers: int) -> "SlotCache":
        return cls([SlotLayer() for _ in range(num_layers)])

    def select_rows(self, rows: Tensor) -> "SlotCache":
        """A cache of the rows at `rows` (int64, any number of repeats): a copy."""
        return SlotCache(
            [
                SlotLayer.of(keys.index_select(0, rows), values.index_select(0, rows), layer.length)
                for layer in self.slots
                for keys, values in [layer.filled()]
            ]
        )

    def rows(self, rows: slice) -> "SlotCache":
        """A view of some rows."""
        views = []
        for layer in self.slots:
            keys, values = layer.filled()
            views.append(SlotLayer.of(keys[rows], values[rows], layer.length))
        return SlotCache(views)

    @staticmethod
    def stack(caches: list["SlotCache"]) -> "SlotCache":
        """The rows of several caches of the same length, one after the other."""
        layers = []
        for parts in zip(*(cache.slots for cache in caches), strict=True):
            keys, values = (torch.cat(tensors) for tensors in zip(*(part.filled() for part in parts), strict=True))
            layers.append(SlotLayer.of(keys, values, parts[0].length))
        return SlotCache(layers)
