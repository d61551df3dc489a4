"""Whether decoding with a cache gives what the model's own attention gives: tried on a short text when it is loaded.

A wrong mask, position or window is wrong in every number format, so the comparison is made in float32, where the
difference of two right computations is tiny. In 16 bits a model's own attention is noisy too: two right computations of
a real model differ by half a nat for tokens that it nearly rules out. There, decoding has to be about as near to the
model's own attention in float32 as that attention itself is in 16 bits, with every token weighted by its probability.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from .compat import eager_attention
from .decoding import DecodingBatch
from .model import BaseModel, UnsupportedArchitecture

TOLERANCE = 1e-3
"""Largest difference of a log-probability in float32."""
NOISE_FACTOR, NOISE_FLOOR = 3.0, 1e-3
"""In 16 bits decoding may differ by this many times the model's own noise, and by at least the floor (nats)."""
PROMPT, DECODED, PADDING, LONGEST_WINDOW = 24, 4, 4, 1024
"""Tokens that are read and decoded, and padding after the prompt, as the sampler pads it. The text is longer for a
model with a window, up to this window."""


@torch.no_grad()
def decoding_fault(base: BaseModel) -> str | None:
    """What is wrong with decoding with a cache, or None.

    A model that cannot be made to compute with its own attention is an `UnsupportedArchitecture`.
    """
    wanted = PROMPT + DECODED
    if base.window is not None and base.window <= LONGEST_WINDOW:
        wanted = max(wanted, base.window + 2 * DECODED)
    length = min(wanted, base.context_length)
    tokens = torch.arange(length, device=base.device)[None] * 7919 % base.vocab_size
    # Layers that keep their weights in 4 bits compute in 16 whatever they are given.
    exact = base.quantize == "none"
    in_float32 = nullcontext if base.dtype == torch.float32 else lambda: computing_in_float32(base.net)
    with in_float32():
        expected = _by_own_attention(base, tokens)
        difference = float((_by_decoding(base, tokens) - expected).abs().max()) if exact else 0.0
    # Written so that a difference that is no number is a fault.
    if not difference <= TOLERANCE:
        return f"decoding with a cache differs from its own attention by {difference:.3g} in a log-probability"
    if base.dtype == torch.float32:
        return None
    noise = _distance(_by_own_attention(base, tokens), expected)
    distance = _distance(_by_decoding(base, tokens), expected)
    if distance <= max(NOISE_FACTOR * noise, NOISE_FLOOR):
        return None
    return (
        f"decoding with a cache in {base.dtype} is {distance:.3g} nats away from its own attention in float32, "
        f"which is {noise:.3g} away in that format"
    )


def _distance(logprobs: Tensor, expected: Tensor) -> float:
    """Mean absolute difference of log-probabilities (positions, vocabulary), weighted by the expected probability."""
    return float((expected.exp() * (logprobs - expected).abs()).sum(-1).mean())


def _by_own_attention(base: BaseModel, tokens: Tensor) -> Tensor:
    """Log-probabilities (DECODED, vocabulary) after the prompt and all decoded tokens but the last."""
    length = tokens.shape[1]
    places = torch.arange(length - DECODED - 1, length - 1, device=base.device)
    try:
        with eager_attention(base.net):
            return base.logits(tokens, places).log_softmax(-1)
    except (ValueError, NotImplementedError, AttributeError) as error:
        raise UnsupportedArchitecture(f"{base.arch} cannot be checked against its own attention: {error}") from error


def _by_decoding(base: BaseModel, tokens: Tensor) -> Tensor:
    """The same, with the padded prompt read once and token after token decoded with its cache."""
    prompt = tokens.shape[1] - DECODED
    cache = base.empty_cache()
    last = torch.tensor([prompt - 1], device=base.device)
    padded = nn.functional.pad(tokens[:, :prompt], (0, min(PADDING, base.context_length - prompt)))
    got = [base.logits(padded, last, cache=cache)]
    which = torch.zeros(1, dtype=torch.int64, device=base.device)
    batch = DecodingBatch(base, 1, cache, which, which + prompt)
    for step in range(DECODED - 1):
        got.append(batch.step(tokens[0, prompt + step : prompt + step + 1].tolist(), step))
    return torch.cat(got).log_softmax(-1)


@contextmanager
def computing_in_float32(net: nn.Module) -> Iterator[None]:
    """Inside the block every module computes with its weights in float32, one module at a time: there is never a
    second copy of the whole model.
    """
    kept: dict[nn.Module, list[tuple[nn.Parameter, Tensor]]] = {}

    def widen(module: nn.Module, _args: object) -> None:
        own = [p for p in module.parameters(recurse=False) if p.is_floating_point() and p.dtype != torch.float32]
        kept[module] = [(parameter, parameter.data) for parameter in own]
        for parameter in own:
            parameter.data = parameter.data.float()

    def narrow(module: nn.Module, *_: object) -> None:
        for parameter, data in kept.pop(module, []):
            parameter.data = data

    hooks = []
    for module in net.modules():
        # Ahead of the module's own hooks; and once it is done, also if it fails.
        hooks.append(module.register_forward_pre_hook(widen, prepend=True))
        hooks.append(module.register_forward_hook(narrow, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for module in list(kept):
            narrow(module)
