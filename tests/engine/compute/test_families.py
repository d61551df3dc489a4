"""Models of other architectures: served right, and slowly where nothing faster is right."""

from pathlib import Path

import numpy as np
import pytest
import torch
from families import FAMILIES, foreign_model
from transformers import AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from scisci_gym.engine.compute.adapters import LoraSpec, new_adapter
from scisci_gym.engine.compute.loading import find_model, load_model
from scisci_gym.engine.compute.sampling import Sampler, SampleRequest
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.errors import RequestError
from scisci_gym.engine.options import AdapterKind

pytestmark = pytest.mark.filterwarnings("ignore")
PLAIN = {"bloom", "mamba", "gpt_oss"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family(family: str, tiny_model: Path, tmp_path: Path) -> None:
    """Sampled log-probabilities are those of the merged model with its own attention and of training; batches do not
    matter.
    """
    folder = foreign_model(family, tmp_path / family, tiny_model)
    base = load_model(family, folder, torch.device("cpu"), torch.float32)
    assert base.plain == (family in PLAIN)
    adapter = new_adapter(base.layers, LoraSpec(rank=4, seed=1), base.device)
    generator = torch.Generator().manual_seed(2)
    for pair in adapter.pairs.values():
        pair.b.data = torch.randn(pair.b.shape, generator=generator) * 0.05
    eager = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    for name, pair in adapter.pairs.items():
        module = eager.get_submodule(name)
        weight = pair.merged()
        module.weight = torch.nn.Parameter(weight.T.contiguous() if isinstance(module, Conv1D) else weight)
    sampler, frozen = Sampler(base, 8, 64), adapter.snapshot()
    requests = [SampleRequest(tuple(range(3, 3 + n)), (str(n).encode(),), 6) for n in (1, 5, 30, 30)]
    together = sampler.sample(frozen, requests)
    for request, result in zip(requests, together, strict=True):
        sample = result.sequences[0]
        alone = sampler.sample(frozen, [request])[0].sequences[0]
        assert (alone.tokens, alone.logprobs) == (sample.tokens, sample.logprobs)
        tokens, first = np.asarray([*request.prompt, *sample.tokens]), len(request.prompt)
        with torch.no_grad():
            table = eager(torch.from_numpy(tokens[None])).logits[0].log_softmax(-1)
        expected = table[torch.arange(first - 1, len(tokens) - 1), torch.from_numpy(tokens[first:])]
        np.testing.assert_allclose(sample.logprobs, expected.numpy(), atol=1e-4)
        datum = TrainingDatum(tokens[:-1], {"target_tokens": tokens[1:], "weights": np.ones(len(tokens) - 1, "f4")})
        scored = forward_backward(base, adapter, [datum], "cross_entropy", {}, backward=False).logprobs[0]
        np.testing.assert_allclose(sample.logprobs, scored[first - 1 :], atol=1e-4)
    with torch.no_grad():
        before = [p.clone() for p in adapter.parameters()]
    forward_backward(base, adapter, [datum], "cross_entropy", {})
    assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in adapter.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, adapter.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_sixteen_bits(kind: AdapterKind, tiny_model: Path) -> None:
    """bfloat16 on a CPU, with a trained adapter: sampler and trainer agree as far as the format goes, batches do not
    matter to the last bit, and adapter and gradient stay in float32.
    """
    base = load_model("tiny", tiny_model, torch.device("cpu"), torch.bfloat16)
    assert not base.plain
    adapter = new_adapter(base.layers, LoraSpec(rank=4, seed=1, kind=kind), base.device)
    generator = torch.Generator().manual_seed(2)
    for pair in adapter.pairs.values():
        pair.b.data = torch.randn(pair.b.shape, generator=generator) * 0.05
    sampler, frozen = Sampler(base, 8, 64), adapter.snapshot()
    requests = [SampleRequest(tuple(range(3, 3 + n)), (b"x", b"y"), 8) for n in (37, 5, 60)]
    together = sampler.sample(frozen, requests)
    for request, result in zip(requests, together, strict=True):
        alone = sampler.sample(frozen, [request])[0]
        for sample, same in zip(result.sequences, alone.sequences, strict=True):
            assert (sample.tokens, sample.logprobs) == (same.tokens, same.logprobs)
            tokens, first = np.asarray([*request.prompt, *sample.tokens]), len(request.prompt)
            inputs = {"target_tokens": tokens[1:], "weights": np.ones(len(tokens) - 1, "f4")}
            datum = TrainingDatum(tokens[:-1], inputs)
            scored = forward_backward(base, adapter, [datum], "cross_entropy", {}, backward=False).logprobs[0]
            np.testing.assert_allclose(sample.logprobs, scored[first - 1 :], atol=2e-2)
    tokens = np.arange(3, 40)
    datum = TrainingDatum(tokens[:-1], {"target_tokens": tokens[1:], "weights": np.ones(len(tokens) - 1, "f4")})
    forward_backward(base, adapter, [datum], "cross_entropy", {})
    assert {p.dtype for p in adapter.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in adapter.parameters() if p.grad is not None} == {torch.float32}


def test_names(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a mapped name, a name in the hub's cache; nothing is downloaded unless that was asked for."""
    asked: list[dict[str, object]] = []

    def snapshot(name: str, **options: object) -> str:
        asked.append({"name": name, **options})
        return str(tiny_model)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert find_model(str(tiny_model), {}, any_path=True, download=False) == tiny_model
    assert find_model("x", {"x": tiny_model}, any_path=False, download=False) == tiny_model
    assert not asked
    assert find_model("own/model", {}, any_path=True, download=False) == tiny_model
    assert find_model("x", {"x": "own/model"}, any_path=False, download=True) == tiny_model
    assert [(a["name"], a["local_files_only"]) for a in asked] == [("own/model", True), ("own/model", False)]
    with pytest.raises(RequestError, match="'own/model' is not known; this server has none"):
        find_model("own/model", {}, any_path=False, download=True)
    assert len(asked) == 2


def test_a_hub_name_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RequestError, match="--download"):
        find_model("nobody/has-this-model", {}, any_path=True, download=False)
