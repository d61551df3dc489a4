"""Memory is bounded: the head in parts, layers of long sequences computed twice, and what cannot fit is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from scisci_gym.engine.compute import memory, sampling, training
from scisci_gym.engine.compute.adapters import AdapterWeights
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.sampling import Sampler, SampleRequest
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.errors import RequestError


def data(base: BaseModel) -> list[TrainingDatum]:
    """Two continuations of one prompt, a long sequence and a short one; all targets count but those of the prompt."""
    rng = np.random.default_rng(0)
    prompt, *rest = (rng.integers(3, base.vocab_size, n) for n in (30, 10, 12, 90, 7))
    made = []
    for i, tokens in enumerate([np.append(prompt, rest[0]), np.append(prompt, rest[1]), rest[2], rest[3]]):
        weights = np.ones(len(tokens) - 1, np.float32)
        weights[: 29 if i < 2 else 0] = 0
        made.append(TrainingDatum(tokens[:-1], {"target_tokens": tokens[1:], "weights": weights}))
    return made


def result(base: BaseModel, adapter: AdapterWeights) -> list[torch.Tensor]:
    """Loss, log-probabilities and gradients."""
    out = forward_backward(base, adapter, data(base), "cross_entropy", {})
    parts = [torch.tensor(out.metrics["loss:sum"]), *map(torch.from_numpy, out.logprobs)]
    for parameter in adapter.parameters():
        assert parameter.grad is not None
        parts.append(parameter.grad)
        parameter.grad = None
    return parts


def test_the_head_in_parts(base: BaseModel, adapter: AdapterWeights, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven positions at a time, some of two sequences: the sum is the same, and the network runs as often."""
    passes, widths = [], []
    hooks = [
        base.net.model.layers[0].register_forward_hook(lambda *_: passes.append(1)),
        base.net.lm_head.register_forward_hook(lambda *args: widths.append(len(args[2]))),
    ]
    try:
        expected, before = result(base, adapter), len(passes)
        monkeypatch.setattr(training, "LOGITS_AT_ONCE", 11 * base.vocab_size)
        widths.clear()
        got = result(base, adapter)
    finally:
        for hook in hooks:
            hook.remove()
    assert len(passes) == 2 * before
    assert max(widths) == 11
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_tables_of_logits_are_as_many_for_six_sequences_as_for_two(base: BaseModel, adapter: AdapterWeights) -> None:
    """24 positions count, in a pass of two or six sequences: no sequence has a table of its own."""

    class Tables(TorchDispatchMode):
        """Counts results with a number for every position and token."""

        count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            self.count += isinstance(out, torch.Tensor) and out.shape == (24, base.vocab_size)
            return out

    tokens = np.random.default_rng(0).integers(3, base.vocab_size, (6, 21))
    counts = []
    for sequences in (2, 6):
        weights = np.zeros(20, np.float32)
        weights[-24 // sequences :] = 1
        some = [TrainingDatum(t[:-1], {"target_tokens": t[1:], "weights": weights}) for t in tokens[:sequences]]
        with Tables() as tables:
            forward_backward(base, adapter, some, "cross_entropy", {})
        counts.append(tables.count)
    assert counts[0] == counts[1]


def test_layers_of_a_long_sequence_keep_their_inputs_only(
    base: BaseModel, adapter: AdapterWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is computed twice: the gradient is the same, and a fraction of the numbers is kept for it."""
    monkeypatch.setattr(memory, "PASS_BYTES", 1)
    results, kept = [], []
    for fewest in (1000, 5):
        monkeypatch.setattr(memory, "FEWEST_TOKENS", fewest)
        sizes: list[int] = []

        def keep(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            results.append(result(base, adapter))
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 3
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert all("forward" not in vars(module) for module in base.net.modules())


def test_what_cannot_fit_is_refused_and_smaller_requests_are_served(
    base: BaseModel, adapter: AdapterWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: 123_456)
    long, short = data(base)[2:]
    with pytest.raises(RequestError, match=r"a sequence of 89 tokens needs about [\d,]+ bytes.* 123,456 are free"):
        forward_backward(base, adapter, [short, long], "cross_entropy", {})
    assert all(parameter.grad is None for parameter in adapter.parameters())
    forward_backward(base, adapter, [short], "cross_entropy", {})
    sampler, frozen = Sampler(base, 8, 256), adapter.snapshot()
    with pytest.raises(RequestError, match=r"decoding 9000 tokens after a prompt of 3 needs about [\d,]+ bytes"):
        sampler.sample(frozen, [SampleRequest((5, 6, 7), (b"a",), 9000)])
    assert len(sampler.sample(frozen, [SampleRequest((5, 6, 7), (b"a",), 3)])[0].sequences[0].tokens) == 3


def test_rows_wait_where_their_keys_and_values_do_not_fit_together(
    base: BaseModel, adapter: AdapterWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The samples are the same."""
    sampler, frozen = Sampler(base, 8, 256), adapter.snapshot()
    requests = [SampleRequest((5, i), tuple(f"{i}:{j}".encode() for j in range(5)), 6) for i in range(6)]
    expected = sampler.sample(frozen, requests)
    rounds, decode = [], sampler._decode
    monkeypatch.setattr(sampler, "_decode", lambda *args: (rounds.append(len(args[2])), decode(*args)))
    monkeypatch.setattr(sampling, "free_bytes", lambda _: 2 * memory.cache_bytes(base, 16 * 4 + 2 * 16 + 3 * 6))
    assert sampler.sample(frozen, requests) == expected
    assert rounds == [3, 2] * 6


@pytest.mark.skipif(memory._TRIM is None, reason="the allocator is not glibc's")
def test_freed_memory_goes_back_to_the_system():
    def own_bytes() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    # Small enough for the heap, which ends at its last block: as long as that is there, nothing before it is returned.
    blocks = [np.ones(60_000, np.uint8) for _ in range(4000)]
    held = own_bytes()
    last = blocks[-1]
    del blocks
    kept = own_bytes()
    memory.return_freed_memory()
    assert held - own_bytes() > 150e6
    assert kept - own_bytes() > 100e6
    assert last.sum() == 60_000
