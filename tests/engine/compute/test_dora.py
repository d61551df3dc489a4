"""DoRA against the formula by hand and against peft: logits, gradients, a training step, the files."""

import json
import math
from pathlib import Path

import numpy as np
import peft
import pytest
import tinker
import torch
from families import foreign_model
from toy_data import cpu_backend, random_tokens, supervised
from transformers import AutoModelForCausalLM

from scisci_gym.engine import local_engine
from scisci_gym.engine.compute.adapters import AdaptableLayer, AdapterWeights, DoraPair, LoraSpec, new_adapter
from scisci_gym.engine.compute.checkpoints import CheckpointPath
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.optimizer import AdamSettings, new_optimizer, optim_step
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.errors import RequestError

pytestmark = pytest.mark.filterwarnings("ignore")


def pair_on(
    weight: list[list[float]], a: list[list[float]], b: list[list[float]], bias: float | None = None
) -> DoraPair:
    linear = torch.nn.Linear(len(weight[0]), len(weight), bias=bias is not None)
    linear.weight.data = torch.tensor(weight)
    if bias is not None:
        linear.bias.data = torch.full((len(weight),), bias)
    layer = AdaptableLayer("x", "mlp", linear.in_features, linear.out_features, linear)
    pair = DoraPair(layer, {"lora_A": torch.tensor(a), "lora_B": torch.zeros(len(weight), len(a))}, scale=2.0)
    pair.b.data = torch.tensor(b)
    pair.prepare()
    return pair


def output(pair: DoraPair, x: list[float]) -> list[float]:
    row = torch.tensor([x])
    return pair.apply_to(row, pair.layer.module(row))[0].tolist()


def test_by_hand() -> None:
    """W = (3 4), so m = 5. 2 B A = (0 1): the direction is (3 5) / sqrt 34, and x = (1 1) gives 5 * 8 / sqrt 34."""
    assert output(pair_on([[3.0, 4.0]], [[0.0, 1.0]], [[0.5]]), [1.0, 1.0]) == pytest.approx([5 * 8 / math.sqrt(34)])


def test_the_bias_is_not_scaled() -> None:
    pair = pair_on([[3.0, 4.0]], [[0.0, 1.0]], [[0.5]], bias=7.0)
    assert output(pair, [1.0, 1.0]) == pytest.approx([5 * 8 / math.sqrt(34) + 7])


def test_a_row_of_zeros_stays_zero() -> None:
    """Not 0 / 0, neither in the output nor in the gradient."""
    pair = pair_on([[3.0, 4.0], [0.0, 0.0]], [[0.0, 1.0]], [[0.0], [0.0]])
    row = torch.tensor([[1.0, 1.0]])
    out = pair.apply_to(row, pair.layer.module(row).detach())
    assert out[0].tolist() == [7.0, 0.0]
    out.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in pair.parameters().values() if p.grad is not None)


def test_it_starts_as_the_base_model(base: BaseModel) -> None:
    """To the last bit."""
    adapter = new_adapter(base.layers, LoraSpec(rank=4, seed=1, kind="dora"), base.device)
    tokens, places = torch.tensor([random_tokens(20, 0)]), torch.arange(20)
    with torch.no_grad():
        plain = base.logits(tokens, places)
        with base.using(adapter):
            assert torch.equal(base.logits(tokens, places), plain)


def save(base: BaseModel, adapter: AdapterWeights, root: Path) -> Path:
    """The folder of a sampler checkpoint of `adapter`."""
    backend = cpu_backend(root, adapter=adapter.spec.kind)
    backend.create_model("s:train:0", str(base.folder), adapter.spec, {})
    backend.models["s:train:0"].adapter = adapter
    return backend.store.folder(CheckpointPath.parse(backend.save("s:train:0", "sampler_weights", "x", overwrite=True)))


@pytest.mark.parametrize("family", ["qwen3", "llama", "gpt2"])
def test_peft_agrees(family: str, tiny_model: Path, tmp_path: Path) -> None:
    """Logits, gradients and AdamW steps equal peft's, which starts from the saved folder."""
    folder = tiny_model if family == "qwen3" else foreign_model(family, tmp_path / family, tiny_model)
    base = BaseModel(family, folder, torch.device("cpu"), torch.float32)
    mine = new_adapter(base.layers, LoraSpec(rank=4, seed=1, kind="dora"), base.device)
    generator = torch.Generator().manual_seed(2)
    for pair in mine.pairs.values():
        pair.b.data = torch.randn(pair.b.shape, generator=generator) * 0.05
    files = save(base, mine, tmp_path / "ck")
    assert json.loads((files / "adapter_config.json").read_text())["use_dora"] is True
    plain = AutoModelForCausalLM.from_pretrained(folder)
    theirs = peft.PeftModel.from_pretrained(plain, str(files), is_trainable=True).eval()
    trained = {name: p for name, p in theirs.named_parameters() if p.requires_grad}
    assert len(trained) == len(list(mine.parameters())) == 3 * len(mine.pairs)

    tokens = np.asarray(random_tokens(30, 3))
    datum = TrainingDatum(tokens[:-1], {"target_tokens": tokens[1:], "weights": np.ones(29, np.float32)})
    optimizer, peer = (
        new_optimizer(mine),
        torch.optim.AdamW(trained.values(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0),
    )
    for _ in range(3):
        result = forward_backward(base, mine, [datum], "cross_entropy", {})
        loss = theirs(torch.from_numpy(tokens[None, :-1])).logits[0].log_softmax(-1).gather(
            1, torch.from_numpy(tokens[1:, None])
        ).sum().neg()  # fmt: skip
        loss.backward()
        assert result.metrics["loss:sum"] == pytest.approx(float(loss), rel=1e-5)
        for name, parameter in mine.named_parameters():
            other = next(p for n, p in trained.items() if n.startswith(f"base_model.model.{name}."))
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-3, atol=1e-4)
        optim_step(mine, optimizer, AdamSettings(learning_rate=1e-2, eps=1e-8))
        peer.step()
        peer.zero_grad()
    with torch.no_grad(), base.using(mine):
        logits = base.logits(torch.from_numpy(tokens[None]), torch.arange(30))
        torch.testing.assert_close(logits, theirs(torch.from_numpy(tokens[None])).logits[0], rtol=1e-3, atol=1e-3)


def test_an_engine_that_trains_dora(tiny_model: Path, tmp_path: Path) -> None:
    """Through the SDK: it learns, samples what it trained, and its checkpoints say what they are."""
    with local_engine(checkpoints=tmp_path, adapter="dora", process=False):
        trainer = (
            tinker.ServiceClient().create_lora_training_client(base_model=str(tiny_model), rank=4, seed=0).result()
        )
        data = [supervised(random_tokens(30, seed)) for seed in range(3)]
        losses = []
        for _ in range(6):
            losses.append(trainer.forward_backward(data, "cross_entropy").result().metrics["loss:sum"])
            trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result()
        assert losses[-1] < 0.9 * losses[0]
        path = trainer.save_state("x").result().path
        sampler = trainer.save_weights_and_get_sampling_client().result()
        prompt = random_tokens(12, 9)
        sample = sampler.sample(
            tinker.ModelInput.from_ints(prompt), 1, tinker.SamplingParams(max_tokens=8, seed=0, stop=[])
        ).result().sequences[0]  # fmt: skip
        scored = trainer.forward([supervised([*prompt, *sample.tokens])], "cross_entropy").result()
        np.testing.assert_allclose(sample.logprobs or [], scored.loss_fn_outputs[0]["logprobs"].data[11:], atol=1e-4)
        resumed = tinker.ServiceClient().create_training_client_from_state_with_optimizer(path).result()
        again = [c.forward_backward(data, "cross_entropy").result().metrics["loss:sum"] for c in (trainer, resumed)]
        assert again[0] == again[1]
    written = json.loads((next(tmp_path.glob("*/weights/x")) / "checkpoint.json").read_text())
    assert (written["lora"]["kind"], written["quantize"]) == ("dora", "none")


def test_another_kind_is_refused_for_training_and_served_for_sampling(base: BaseModel, tmp_path: Path) -> None:
    dora = cpu_backend(tmp_path, adapter="dora")
    dora.create_model("s:train:0", str(base.folder), dora.resolved(LoraSpec(rank=2), 0), {})
    path = dora.save("s:train:0", "weights", "x")
    lora = cpu_backend(tmp_path)
    with pytest.raises(RequestError, match="start the engine with --adapter dora --quantize none"):
        lora.load("t:train:0", path, with_optimizer=False)
    assert lora.sampler_from_path(path)


def test_checkpoints_from_before_dora_are_lora(base: BaseModel, tmp_path: Path) -> None:
    backend = cpu_backend(tmp_path)
    backend.create_model("s:train:0", str(base.folder), LoraSpec(rank=2), {})
    path = backend.save("s:train:0", "weights", "x")
    file = backend.store.folder(CheckpointPath.parse(path)) / "checkpoint.json"
    data = json.loads(file.read_text())
    del data["quantize"], data["lora"]["kind"]
    file.write_text(json.dumps(data))
    assert backend.load("t:train:0", path, with_optimizer=True).adapter.spec.kind == "lora"


@pytest.mark.parametrize(
    ("options", "message"), [({"adapter": "adalora"}, "lora, dora"), ({"quantize": "8bit"}, "none, 4bit")]
)
def test_unknown_kinds_are_refused(options: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message), local_engine(checkpoints=tmp_path, process=False, **options):
        pass


def test_four_bits_without_bitsandbytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install bitsandbytes"):
        local_engine(checkpoints=tmp_path, process=False, quantize="4bit").__enter__()


def test_qdora_agrees_with_peft(tiny_model: Path, tmp_path: Path) -> None:
    """4-bit base, on a CPU too (slowly): sampled log-probabilities are the trainer's, and logits are peft's."""
    pytest.importorskip("bitsandbytes", reason="4-bit base models need bitsandbytes (pip install bitsandbytes)")
    backend = cpu_backend(tmp_path, adapter="dora", quantize="4bit")
    model = backend.create_model("s:train:0", str(tiny_model), backend.resolved(LoraSpec(rank=4, seed=0), 0), {})
    tokens = np.asarray(random_tokens(30, 3))
    datum = TrainingDatum(tokens[:-1], {"target_tokens": tokens[1:], "weights": np.ones(29, np.float32)})
    losses = []
    for _ in range(5):
        losses.append(backend.model("s:train:0").forward_backward([datum], "cross_entropy", {}).metrics)
        backend.model("s:train:0").optim_step(AdamSettings(learning_rate=1e-2))
    assert losses[-1]["loss:sum"] < 0.9 * losses[0]["loss:sum"]
    files = backend.store.folder(CheckpointPath.parse(backend.save("s:train:0", "sampler_weights", "x")))
    net = BaseModel("tiny", tiny_model, torch.device("cpu"), torch.float32, "4bit").net
    theirs = peft.PeftModel.from_pretrained(net, str(files)).eval()
    with torch.no_grad():
        with model.base.using(model.adapter):
            logits = model.base.logits(torch.from_numpy(tokens[None]), torch.arange(30))
        torch.testing.assert_close(logits, theirs(torch.from_numpy(tokens[None])).logits[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(RequestError, match="--adapter dora --quantize 4bit"):
        cpu_backend(tmp_path, adapter="dora").load(
            "t:train:0", backend.save("s:train:0", "weights", "y"), with_optimizer=True
        )
