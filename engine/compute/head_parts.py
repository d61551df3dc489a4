"""Logits of many positions, some at a time: the head is by far the widest layer of a model."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from .compat import body_runs_once
from .model import BaseModel


def logits_in_parts(base: BaseModel, size: int, tokens: Tensor, select: Tensor, **given: Any) -> Iterator[Tensor]:
    """`BaseModel.logits` of the places `select`, `size` at a time: the network runs once, the head (and what follows
    it) once per part.

    Where a gradient is wanted, the caller takes that of every part before the next part. It stops below the head, and
    goes through the network once, after the last part.
    """
    results: list[Any] = []
    for start in range(0, len(select), size):
        with body_runs_once(base.net, results):
            part = base.logits(tokens, select[start : start + size], **given)
        yield part
    if len(results) == 2:
        output, hidden = results
        hidden.backward(output.last_hidden_state.grad)
