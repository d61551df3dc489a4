"""Killed at any system call, or failed at any pass: what was there before is still there, and the next try succeeds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kill_points import kill_points
from safetensors.torch import load_file
from toy_data import cpu_backend
from transformers import AutoModelForCausalLM, AutoTokenizer

from scisci_gym.engine import folders
from scisci_gym.engine.compute import training
from scisci_gym.engine.compute.adapters import AdapterWeights, LoraSpec
from scisci_gym.engine.compute.checkpoints import CheckpointPath, CheckpointStore
from scisci_gym.engine.compute.export import export_adapter
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.optimizer import AdamSettings, new_optimizer, optim_step
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.errors import RequestError
from scisci_gym.engine.folders import OwnFolder, new_folder
from scisci_gym.engine.serve.backend import Backend
from scisci_gym.engine.tiny import init_model

MODEL = "s:train:0"


@pytest.fixture(params=["exchange", pytest.param("two renames", marks=pytest.mark.slow)])
def exchanges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """On file systems that can let two folders change names in one step, and on those that cannot."""
    if request.param == "two renames":
        monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    return request.param == "exchange"


@pytest.fixture
def backend(tiny_model: Path, tmp_path: Path) -> Backend:
    backend = cpu_backend(tmp_path / "ck", {"tiny": tiny_model})
    backend.create_model(MODEL, "tiny", LoraSpec(rank=2, seed=0), {})
    return backend


def datum(seed: int, length: int = 30, weight: float = 1.0) -> TrainingDatum:
    tokens = np.random.default_rng(seed).integers(3, 300, length)
    inputs = {"target_tokens": tokens[1:], "weights": np.full(length - 1, weight, np.float32)}
    return TrainingDatum(tokens[:-1], inputs)


def step(backend: Backend) -> None:
    backend.model(MODEL).forward_backward([datum(0)], "cross_entropy", {})
    backend.model(MODEL).optim_step(AdamSettings(learning_rate=1e-2))


def weights_of(backend: Backend) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in backend.model(MODEL).adapter.named_tensors().items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def leftovers(folder: Path) -> list[Path]:
    return [path for pattern in (".writing-*", ".old-*") for path in folder.rglob(pattern)]


def test_overwriting_a_checkpoint_keeps_the_old_or_the_new_one(
    exchanges: bool, backend: Backend, tmp_path: Path
) -> None:
    """After a restart; and where folders can be exchanged, also for a reader beside the writer."""
    step(backend)
    path = CheckpointPath.parse(backend.save(MODEL, "weights", "x"))
    versions = {1: weights_of(backend)}
    step(backend)
    versions[2] = weights_of(backend)
    root, found = tmp_path / "ck", []
    for point in kill_points(root, lambda: backend.save(MODEL, "weights", "x", overwrite=True)):
        assert not exchanges or CheckpointStore(root, read_only=True).load(path).tensors, point
        restarted = CheckpointStore(root)
        checkpoint = restarted.load(path)
        assert equal(checkpoint.tensors, versions[checkpoint.info.step]), point
        assert checkpoint.optimizer, point
        assert [info.path for info in restarted.list()] == [str(path)], point
        assert not leftovers(root / "s_train_0"), point
        found.append(checkpoint.info.step)
    assert found == sorted(found)
    assert set(found) == {1, 2}


def test_a_new_checkpoint_is_whole_or_absent_and_so_is_a_deleted_one(backend: Backend, tmp_path: Path) -> None:
    path = CheckpointPath(MODEL, "weights", "x")
    root = tmp_path / "ck"
    for action, at_the_end in (
        (lambda: backend.save(MODEL, "weights", "x"), 1),
        (lambda: backend.store.delete(path), 0),
    ):
        for point in kill_points(root, action):
            restarted = CheckpointStore(root)
            there = restarted.list()
            assert not there or restarted.load(path).tensors, point
            assert not leftovers(root / "s_train_0"), point
            # A name that was killed half way can be saved again.
            if not there:
                backend.save(MODEL, "weights", "x")
        assert len(there) == at_the_end


def test_an_export_is_whole_or_absent(backend: Backend, tmp_path: Path) -> None:
    path = backend.save(MODEL, "sampler_weights", "x")
    target = tmp_path / "out"
    target.mkdir()
    for point in kill_points(target, lambda: export_adapter(backend.store, path, target / "adapter")):
        if (target / "adapter").exists():
            assert sorted(p.name for p in (target / "adapter").iterdir()) == [
                "README.md", "adapter_config.json", "adapter_model.safetensors",
            ], point  # fmt: skip
            assert load_file(target / "adapter" / "adapter_model.safetensors")
        else:
            export_adapter(backend.store, path, target / "adapter")
        assert [p.name for p in target.iterdir() if p.name != "adapter"] == [], point


@pytest.mark.usefixtures("exchanges")
def test_a_model_is_replaced_whole(tiny_model: Path, tmp_path: Path) -> None:
    net, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)

    def save(out: Path, number: int) -> None:
        with torch.no_grad():
            net.model.norm.weight.fill_(number)
        init_model._save(out, net, tokenizer, init_model.InitReport(str(out), number, 0, 0))

    out = tmp_path / "models" / "m"
    save(out, 1)
    names = sorted(path.name for path in out.iterdir())
    found = []
    for point in kill_points(tmp_path / "models", lambda: save(out, 2)):
        folders.restore(out)  # As the next writer does, where folders cannot be exchanged.
        report = json.loads((out / "init_report.json").read_text())
        assert float(load_file(out / "model.safetensors")["model.norm.weight"][0]) == report["parameters"], point
        assert sorted(path.name for path in out.iterdir()) == names, point
        found.append(report["parameters"])
    assert set(found) == {1, 2}


def test_init_model_replaces_its_own_models_only(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="holds other things"):
        init_model.init_model(tmp_path, ["x"], whole_words=["y"])
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    mine = OwnFolder(tmp_path)
    abandoned = tmp_path / ".writing-abc"
    abandoned.mkdir()
    with new_folder(tmp_path / "x", overwrite=False):
        assert mine.path.is_dir()
        assert not abandoned.exists()
    mine.close()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_failed_rename_keeps_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "old").touch()
    rename: Callable[..., None] = folders.os.rename

    def fail(source: Path, target: Path) -> None:
        if ".writing-" in str(source):
            raise OSError("disk on fire")
        rename(source, target)

    monkeypatch.setattr(folders.os, "rename", fail)
    with pytest.raises(OSError, match="on fire"), new_folder(tmp_path / "x", overwrite=True):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["x", "old"]


# Failed passes


def gradients(adapter: AdapterWeights) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in adapter.parameters()]


def same(one: list[Any], other: list[Any]) -> bool:
    return all(a is b is None or torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("accumulated", [False, True])
def test_a_failed_pass_adds_nothing_to_the_gradients(
    accumulated: bool, base: BaseModel, adapter: AdapterWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in its third part, after two have been added; the retry counts every part once."""
    monkeypatch.setattr(training, "TOKENS_PER_PASS", 32)
    data = [datum(seed, 20 + seed) for seed in range(4)]
    if accumulated:
        forward_backward(base, adapter, [datum(9)], "cross_entropy", {})
    before = gradients(adapter)
    forward_backward(base, adapter, data, "cross_entropy", {})
    undisturbed = gradients(adapter)
    for parameter, grad in zip(adapter.parameters(), before, strict=True):
        parameter.grad = None if grad is None else grad.clone()
    parts, part_loss = [], training._part_loss

    def run_out_of_memory(*args: Any) -> torch.Tensor:
        parts.append(args)
        if len(parts) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return part_loss(*args)

    with monkeypatch.context() as patch:
        patch.setattr(training, "_part_loss", run_out_of_memory)
        with pytest.raises(torch.OutOfMemoryError):
            forward_backward(base, adapter, data, "cross_entropy", {})
    assert len(parts) == 3
    assert same(gradients(adapter), before)
    forward_backward(base, adapter, data, "cross_entropy", {})
    assert same(gradients(adapter), undisturbed)


def test_a_loss_or_gradient_that_is_not_finite_adds_nothing(
    base: BaseModel, adapter: AdapterWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward_backward(base, adapter, [datum(9)], "cross_entropy", {})
    before = gradients(adapter)
    with pytest.raises(RequestError, match="the loss is inf; nothing was added"):
        forward_backward(base, adapter, [datum(1, weight=3e38)], "cross_entropy", {})
    assert same(gradients(adapter), before)
    part_loss = training._part_loss

    def root_of_zero(*args: Any) -> torch.Tensor:
        loss = part_loss(*args)
        return loss + (loss - loss).sqrt()

    monkeypatch.setattr(training, "_part_loss", root_of_zero)
    with pytest.raises(RequestError, match=r"the gradient of .* is not finite \(the loss is \d"):
        forward_backward(base, adapter, [datum(1)], "cross_entropy", {})
    assert same(gradients(adapter), before)


@pytest.mark.parametrize("steps_before", [0, 2])
def test_a_failed_step_changes_nothing_and_can_be_repeated(
    steps_before: int, base: BaseModel, adapter: AdapterWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AdamSettings(learning_rate=1e-2, weight_decay=0.1, grad_clip_norm=1e-3)
    twin = adapter.snapshot()
    for parameter in twin.parameters():
        parameter.requires_grad_(True)
    optimizer, twin_optimizer = new_optimizer(adapter), new_optimizer(twin)
    for number in range(steps_before):
        for each, its in ((adapter, optimizer), (twin, twin_optimizer)):
            forward_backward(base, each, [datum(number)], "cross_entropy", {})
            optim_step(each, its, settings)
    for each in (adapter, twin):
        forward_backward(base, each, [datum(7)], "cross_entropy", {})
    before = adapter.snapshot().named_tensors(), gradients(adapter), repr(optimizer.state_dict())
    take = optimizer.step

    def fail_after_the_step() -> None:
        take()
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(optimizer, "step", fail_after_the_step)
        with pytest.raises(torch.OutOfMemoryError):
            optim_step(adapter, optimizer, settings)
    assert equal(adapter.named_tensors(), before[0])
    assert same(gradients(adapter), before[1])
    assert repr(optimizer.state_dict()) == before[2]
    norms = [optim_step(adapter, optimizer, settings), optim_step(twin, twin_optimizer, settings)]
    assert norms[0] == norms[1]
    assert equal(adapter.named_tensors(), twin.named_tensors())
