"""From random numbers and log-probabilities to a token.

The random numbers follow from a request alone, not from when or with what else it is served.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import RequestError

PART = 256
"""Tokens of the vocabulary whose probabilities are summed at once."""


@dataclass(frozen=True)
class ChoiceRule:
    """How to choose. `temperature` 0 takes the most probable token; `top_k` -1 or 0 and `top_p` 1 leave nothing out."""

    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise RequestError(f"sampling_params.temperature must be 0 or more, got {self.temperature}")
        if self.top_k < -1:
            raise RequestError(f"sampling_params.top_k must be -1 (no limit) or more, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise RequestError(f"sampling_params.top_p must be above 0 and at most 1, got {self.top_p}")


def choose_tokens(logprobs: Tensor, randoms: np.ndarray, rules: Sequence[ChoiceRule]) -> Tensor:
    """One token per row.

    Parameters
    ----------
    logprobs
        float32 (n, vocabulary), the untempered model.
    randoms
        float64 (n,) in [0, 1): row i takes the first token whose cumulative probability exceeds ``randoms[i]``.
    rules
        One per row.

    Returns
    -------
    int64 (n,). A row's token depends on that row alone.
    """
    tokens = torch.empty(len(rules), dtype=torch.int64, device=logprobs.device)
    by_rule: dict[ChoiceRule, list[int]] = {}
    for i, rule in enumerate(rules):
        by_rule.setdefault(rule, []).append(i)
    for rule, members in by_rule.items():
        rows = torch.tensor(members, device=logprobs.device)
        part = logprobs if len(members) == len(rules) else logprobs.index_select(0, rows)
        if rule.temperature == 0:
            tokens[rows] = part.argmax(dim=-1)
        else:
            u = torch.from_numpy(randoms[members]).to(logprobs.device)
            tokens[rows] = _invert(_probabilities(part, rule), u)
    return tokens


def _probabilities(logprobs: Tensor, rule: ChoiceRule) -> Tensor:
    """float64 (n, vocabulary), not normalised; float32 where nothing is sharpened or left out."""
    if rule == ChoiceRule():
        # Row by row, which an exponential of all rows at once would not be.
        return torch.softmax(logprobs, dim=-1)
    scaled = logprobs if rule.temperature == 1 else torch.log_softmax(logprobs.double() / rule.temperature, dim=-1)
    probabilities = scaled.double().exp()
    if 0 < rule.top_k < probabilities.shape[-1]:
        # Exactly k are kept: of equal ones the lower ids.
        order = torch.argsort(probabilities, dim=-1, descending=True, stable=True)
        probabilities = probabilities.scatter(1, order[:, rule.top_k :], 0.0)
    if rule.top_p < 1:
        ranked, order = torch.sort(probabilities, dim=-1, descending=True, stable=True)
        ranked = ranked / ranked.sum(dim=-1, keepdim=True)
        before = ranked.cumsum(dim=-1) - ranked
        dropped = torch.zeros_like(probabilities, dtype=torch.bool).scatter(1, order, before >= rule.top_p)
        probabilities = probabilities.masked_fill(dropped, 0.0)
    return probabilities


def _invert(probabilities: Tensor, randoms: Tensor) -> Tensor:
    """int64 (n,): found in parts of the vocabulary first and then in one part, since a running sum over all of a large
    vocabulary is slow.
    """
    parts = nn.functional.pad(probabilities, (0, -probabilities.shape[-1] % PART)).unflatten(1, (-1, PART))
    sums = parts.sum(dim=-1).double().cumsum(dim=-1)
    target = randoms[:, None] * sums[:, -1:]
    part = _first_above(sums, target)
    before = nn.functional.pad(sums, (1, 0)).gather(1, part)
    inside = parts[torch.arange(len(parts), device=parts.device), part[:, 0]].double().cumsum(dim=-1)
    return (part * PART + _first_above(inside, target - before))[:, 0]


def _first_above(cumulative: Tensor, target: Tensor) -> Tensor:
    """int64 (n, 1): the first place whose running sum exceeds the target. A target that rounds up to the total falls
    off the end: the last place that adds anything takes it.
    """
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(torch.searchsorted(cumulative, target, right=True), last)


def top_logprobs(logprobs: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k most probable tokens of one position: ids int32 (k,) and log-probabilities float32 (k,), best first."""
    values, ids = torch.topk(logprobs, min(k, logprobs.shape[-1]))
    pad = k - len(ids)
    return (
        np.pad(ids.cpu().numpy().astype(np.int32), (0, pad)),
        np.pad(values.float().cpu().numpy(), (0, pad), constant_values=-99999.0),
    )


def uniforms(key: bytes, count: int) -> np.ndarray:
    """`count` float64 numbers in [0, 1) that depend on `key` alone; a longer stream starts with the shorter one."""
    digest = hashlib.blake2b(key, digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little"))).random(count)


def seeded_key(seed: int, sample: int) -> bytes:
    """Key of sample number `sample` of a request that brought its own seed."""
    return f"seeded:{seed}:{sample}".encode()


class OccurrenceKeys:
    """Keys for requests without a seed, within one sampling session.

    A key is made of the run's seed (the server's for clients that name none), the version of the weights, the prompt,
    and how often this session has seen that prompt before. Eight equal requests therefore differ from each other, while
    a run that was killed and resumed from the same weights draws what the uninterrupted run drew.
    """

    def __init__(self, seed: int | None, version: str) -> None:
        self._seed = seed
        self._version = version
        self._seen: Counter[bytes] = Counter()

    def next(self, prompt: tuple[int, ...]) -> bytes:
        """Key of the next sample for `prompt`."""
        if self._seed is None:
            return np.random.default_rng().bytes(16)
        name = hashlib.blake2b(np.asarray(prompt, np.int64).tobytes(), digest_size=16).digest()
        occurrence = self._seen[name]
        self._seen[name] += 1
        return f"server:{self._seed}:{self._version}:{occurrence}:".encode() + name
