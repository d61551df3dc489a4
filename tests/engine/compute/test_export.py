"""Exported folders load elsewhere and compute what the engine computes."""

import json
import os
from pathlib import Path
from typing import Any

import huggingface_hub
import peft
import pytest
import torch
from families import foreign_model
from toy_data import cpu_backend, random_tokens
from transformers import AutoModelForCausalLM, AutoTokenizer

from scisci_gym.engine.compute.adapters import LoraSpec
from scisci_gym.engine.compute.checkpoints import CheckpointStore
from scisci_gym.engine.compute.export import export_adapter, export_merged, push_to_hub
from scisci_gym.engine.errors import RequestError
from scisci_gym.engine.options import AdapterKind
from scisci_gym.engine.serve.backend import Backend

pytestmark = pytest.mark.filterwarnings("ignore")


def trained(folder: Path, root: Path, kind: AdapterKind = "lora") -> tuple[Backend, str, torch.Tensor]:
    """A checkpoint whose adapter is away from where it starts, and its logits of some tokens."""
    backend = cpu_backend(root, adapter=kind)
    model = backend.create_model("s:train:0", str(folder), backend.resolved(LoraSpec(rank=4, seed=0), 0), {})
    generator = torch.Generator().manual_seed(2)
    for parameter in model.adapter.parameters():
        parameter.data += torch.randn(parameter.shape, generator=generator) * 0.05
    path = backend.save("s:train:0", "sampler_weights", "x")
    with torch.no_grad(), model.base.using(model.adapter):
        return backend, path, model.base.logits(torch.tensor([random_tokens(20, 0)]), torch.arange(20))


@pytest.mark.parametrize(
    ("family", "kind"), [("qwen3", "lora"), ("qwen3", "dora"), ("llama", "dora"), ("gpt2", "lora"), ("gpt2", "dora")]
)
def test_exports_compute_the_same(family: str, kind: AdapterKind, tiny_model: Path, tmp_path: Path) -> None:
    """Merged weights in transformers to 1e-5, also where head and embedding were tied; the adapter in peft."""
    folder = tiny_model if family == "qwen3" else foreign_model(family, tmp_path / family, tiny_model)
    backend, path, expected = trained(folder, tmp_path / "ck", kind)
    tokens = torch.tensor([random_tokens(20, 0)])
    merged = AutoModelForCausalLM.from_pretrained(export_merged(backend.store, path, tmp_path / "merged"))
    adapted = peft.PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(folder), str(export_adapter(backend.store, path, tmp_path / "adapter"))
    )
    with torch.no_grad():
        torch.testing.assert_close(merged(tokens).logits[0], expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(adapted(tokens).logits[0], expected, rtol=1e-4, atol=1e-4)
    text = "paper graph field"
    assert (
        AutoTokenizer.from_pretrained(tmp_path / "merged").encode(text)
        == AutoTokenizer.from_pretrained(folder).encode(text)
    )  # fmt: skip
    assert sorted(p.name for p in (tmp_path / "adapter").iterdir()) == [
        "README.md", "adapter_config.json", "adapter_model.safetensors",
    ]  # fmt: skip
    assert "_attn_implementation" not in json.loads((tmp_path / "merged" / "config.json").read_text())
    assert f"adapter: {kind}, rank 4" in (tmp_path / "merged" / "README.md").read_text()


def test_merged_weights_in_another_format(tiny_model: Path, tmp_path: Path) -> None:
    backend, path, expected = trained(tiny_model, tmp_path / "ck")
    merged = AutoModelForCausalLM.from_pretrained(export_merged(backend.store, path, tmp_path / "m", "bfloat16"))
    assert merged.dtype == torch.bfloat16
    with torch.no_grad():
        logits = merged(torch.tensor([random_tokens(20, 0)])).logits[0].float()
    torch.testing.assert_close(logits, expected, rtol=0.1, atol=0.1)


def test_what_cannot_be_exported(tiny_model: Path, tmp_path: Path) -> None:
    backend, path, _ = trained(tiny_model, tmp_path / "ck")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    for export in (export_adapter, export_merged):
        with pytest.raises(FileExistsError, match="exists already"):
            export(backend.store, path, taken)
        with pytest.raises(RequestError, match="no checkpoint"):
            export(backend.store, path.replace("/x", "/y"), tmp_path / "out")
    with pytest.raises(ValueError, match="float32, bfloat16"):
        export_merged(backend.store, path, tmp_path / "out", "int3")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ck", "taken"]
    assert [p.name for p in taken.iterdir()] == ["mine.txt"]


def test_reading_leaves_a_writers_files_alone(tmp_path: Path) -> None:
    half = tmp_path / "s_train_0" / "weights" / ".writing-abc"
    half.mkdir(parents=True)
    CheckpointStore(tmp_path, read_only=True)
    assert half.exists()


def test_the_hub_gets_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in for the hub; the token stays in the environment."""
    calls: list[tuple[str, dict[str, Any]]] = []

    class Hub:
        def create_repo(self, repo_id: str, **options: Any) -> None:
            calls.append(("create", {"repo_id": repo_id, **options}))

        def upload_folder(self, **options: Any) -> str:
            calls.append(("upload", options))
            return "https://huggingface.co/me/model"

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    (tmp_path / "README.md").write_text("# x")
    assert push_to_hub(tmp_path, "me/model") == "https://huggingface.co/me/model"
    assert [name for name, _ in calls] == ["create", "upload"]
    assert calls[0][1] == {"repo_id": "me/model", "private": True, "exist_ok": True}
    assert calls[1][1]["folder_path"] == str(tmp_path)
    assert "hf_secret" not in repr(calls) + "".join(p.read_text() for p in tmp_path.iterdir())
    with pytest.raises(ValueError, match="OWNER/NAME"):
        push_to_hub(tmp_path, "model")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    with pytest.raises(PermissionError, match="HF_TOKEN"):
        push_to_hub(tmp_path, "me/model")
    assert "HF_TOKEN" in os.environ
