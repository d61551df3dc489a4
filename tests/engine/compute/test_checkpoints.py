"""Checkpoints: peft's format, exact, complete or absent."""

import json
import re
import shutil
from pathlib import Path

import peft
import pytest
import torch
from families import foreign_model
from safetensors.torch import load_file
from toy_data import cpu_backend
from transformers import AutoModelForCausalLM

from scisci_gym.engine.compute import checkpoints
from scisci_gym.engine.compute.adapters import LoraSpec
from scisci_gym.engine.compute.checkpoints import CheckpointPath, CheckpointStore, check_name
from scisci_gym.engine.compute.export import export_adapter
from scisci_gym.engine.compute.optimizer import AdamSettings
from scisci_gym.engine.compute.training import TrainingDatum
from scisci_gym.engine.errors import RequestError
from scisci_gym.engine.serve.backend import Backend


def make_backend(root: Path, *models: Path) -> Backend:
    return cpu_backend(root, {model.name: model for model in models})


def train(backend: Backend, model_id: str, steps: int) -> None:
    """A few steps on one sequence."""
    tokens = torch.arange(3, 40).numpy()
    data = [TrainingDatum(tokens[:-1], {"target_tokens": tokens[1:], "weights": tokens[1:].astype("float32") * 0 + 1})]
    for _ in range(steps):
        backend.model(model_id).forward_backward(data, "cross_entropy", {})
        backend.model(model_id).optim_step(AdamSettings(learning_rate=1e-2))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["qwen3", "llama", "gpt2"])
def test_peft_reads_it(kind: str, tiny_model: Path, tmp_path: Path) -> None:
    """peft computes the logits that the engine does, for other families too."""
    folder = tiny_model if kind == "qwen3" else foreign_model(kind, tmp_path / kind, tiny_model)
    backend = make_backend(tmp_path / "ck", folder)
    backend.create_model("s:train:0", folder.name, LoraSpec(rank=4, seed=0), {})
    train(backend, "s:train:0", 3)
    path = CheckpointPath.parse(backend.save("s:train:0", "sampler_weights", "x"))
    plain = AutoModelForCausalLM.from_pretrained(folder)
    theirs = peft.PeftModel.from_pretrained(plain, str(backend.store.folder(path))).eval()
    tokens = torch.randint(3, 300, (1, 20), generator=torch.Generator().manual_seed(0))
    model = backend.model("s:train:0")
    with torch.no_grad(), model.base.using(model.adapter):
        mine = model.base.logits(tokens, torch.arange(20))
        expected = theirs(tokens).logits[0]
    torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)


def test_optimizer_and_step_are_kept(tiny_model: Path, tmp_path: Path) -> None:
    first = make_backend(tmp_path, tiny_model)
    first.create_model("s:train:0", tiny_model.name, LoraSpec(rank=2, seed=0), {"who": "me"})
    train(first, "s:train:0", 2)
    path = first.save("s:train:0", "weights", "two")
    later = make_backend(tmp_path, tiny_model)
    later.load("t:train:0", path, with_optimizer=True)
    for backend, model_id in ((first, "s:train:0"), (later, "t:train:0")):
        train(backend, model_id, 2)
    mine, theirs = first.model("s:train:0"), later.model("t:train:0")
    assert theirs.step == mine.step == 4
    assert theirs.metadata == {"who": "me"}
    for a, b in zip(mine.adapter.parameters(), theirs.adapter.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_crash_leaves_the_old_checkpoint(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make_backend(tmp_path, tiny_model)
    backend.create_model("s:train:0", tiny_model.name, LoraSpec(rank=2, seed=0), {})
    path = CheckpointPath.parse(backend.save("s:train:0", "weights", "x"))
    before = load_file(backend.store.folder(path) / "adapter_model.safetensors")
    train(backend, "s:train:0", 1)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(checkpoints, "_write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        backend.save("s:train:0", "weights", "x", overwrite=True)
    with pytest.raises(OSError, match="disk full"):
        backend.save("s:train:0", "weights", "y")
    after = load_file(backend.store.folder(path) / "adapter_model.safetensors")
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert [info.path for info in backend.store.list()] == [str(path)]
    assert [p.name for p in backend.store.folder(path).parent.iterdir()] == ["x"]


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    leftover = tmp_path / "s_train_0" / "weights" / ".writing-abc"
    leftover.mkdir(parents=True)
    (leftover / "adapter_model.safetensors").write_bytes(b"half")
    CheckpointStore(tmp_path)
    assert not leftover.exists()


def test_nothing_is_pickled(tiny_model: Path, tmp_path: Path) -> None:
    backend = make_backend(tmp_path, tiny_model)
    backend.create_model("s:train:0", tiny_model.name, LoraSpec(rank=2), {})
    train(backend, "s:train:0", 1)
    path = CheckpointPath.parse(backend.save("s:train:0", "weights", "x", user_metadata={"a": "b"}))
    files = sorted(p.name for p in backend.store.folder(path).iterdir())
    assert files == ["adapter_config.json", "adapter_model.safetensors", "checkpoint.json", "optimizer.safetensors"]
    assert json.loads((backend.store.folder(path) / "checkpoint.json").read_text())["user_metadata"] == {"a": "b"}


def test_a_checkpoint_of_another_model_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    other = foreign_model("llama", tmp_path / "llama", tiny_model)
    backend = make_backend(tmp_path / "ck", tiny_model, other)
    backend.create_model("s:train:0", tiny_model.name, LoraSpec(rank=2), {})
    path = backend.save("s:train:0", "weights", "x")
    with pytest.raises(RequestError, match="does not fit the base model"):
        backend.load("t:train:0", path, with_optimizer=False, base_model="llama")


def make_run(tiny_model: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run's folder with model and checkpoints in it, made by a client that names the model by a relative path."""
    shutil.copytree(tiny_model, run / "model")
    monkeypatch.chdir(run)
    backend = make_backend(Path("checkpoints"))
    backend.create_model("s:train:0", "model", LoraSpec(rank=2, seed=0), {})
    return backend.save("s:train:0", "weights", "x")


def test_a_run_can_be_used_from_any_folder_and_moved(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run(tiny_model, tmp_path / "run", monkeypatch)
    where = CheckpointPath.parse(path)
    # Somewhere else, where "model" means something else.
    (tmp_path / "elsewhere" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for place in ("run", "archive/2026/run"):
        if place != "run":
            (tmp_path / place).parent.mkdir(parents=True)
            (tmp_path / "run").rename(tmp_path / place)
        backend = make_backend(tmp_path / place / "checkpoints")
        assert backend.base_name(where) == str(tmp_path / place / "model")
        # A client asks for the name first and sends it with its request to load.
        for name in (None, backend.base_name(where), backend.store.info(where).base_model):
            backend.load("t:train:0", path, with_optimizer=True, base_model=name)
            assert backend.model("t:train:0").base.folder == tmp_path / place / "model"
        assert backend.sampler_from_path(path)
        exported = export_adapter(backend.store, path, tmp_path / f"adapter of {place[:3]}")
        config = json.loads((exported / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == str(tmp_path / place / "model")


def test_a_checkpoint_that_moves_alone_finds_its_model(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run(tiny_model, tmp_path / "run", monkeypatch)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints").rename(tmp_path / "deep" / "er" / "ck")
    model = make_backend(tmp_path / "deep" / "er" / "ck").load("t:train:0", path, with_optimizer=True)
    assert model.base.folder == tmp_path / "run" / "model"


def test_a_model_that_is_gone_is_named_with_the_remedy(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run(tiny_model, tmp_path / "run", monkeypatch)
    (tmp_path / "run" / "model").rename(tmp_path / "run" / "renamed")
    (tmp_path / "run").rename(tmp_path / "moved")
    backend = make_backend(tmp_path / "moved" / "checkpoints")
    both = f"{tmp_path / 'moved' / 'model'} nor at {tmp_path / 'run' / 'model'}"
    for use in (
        lambda: backend.load("t:train:0", path, with_optimizer=True),
        lambda: backend.sampler_from_path(path),
        lambda: export_adapter(backend.store, path, tmp_path / "out"),
    ):
        with pytest.raises(RequestError, match=f"is gone: it is not at {re.escape(both)}; put .* back .* --model"):
            use()
    # The remedy: the name that the error says, with the folder where the model is now.
    name = backend.store.info(CheckpointPath.parse(path)).base_model
    again = cpu_backend(tmp_path / "moved" / "checkpoints", {name: tmp_path / "moved" / "renamed"})
    assert again.load("t:train:0", path, with_optimizer=True).base.folder == tmp_path / "moved" / "renamed"


def test_a_checkpoint_that_is_gone_is_named_with_the_remedy(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=rf"{tmp_path}/s_train_0/weights/x is not there; .* --checkpoints FOLDER"):
        make_backend(tmp_path, tiny_model).load("t:train:0", "tinker://s:train:0/weights/x", with_optimizer=True)


@pytest.mark.parametrize(
    "path", ["x", "tinker://a/weights", "tinker://a/b/c", "tinker://a/weights/../x", "/a/weights/b"]
)
def test_bad_paths(path: str) -> None:
    with pytest.raises(RequestError, match="not of the form"):
        CheckpointPath.parse(path)


@pytest.mark.parametrize("name", ["000010", "final", "step=3", "a.b-c_d@e+f"])
def test_good_names(name: str) -> None:
    assert check_name(name, "the name") == name
