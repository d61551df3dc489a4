"""Checkpoints for use elsewhere: an adapter folder for peft, merged weights for transformers, the Hugging Face hub."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from ..folders import check_free, new_folder
from .adapters import adapter_from_tensors
from .checkpoints import CONFIG_FILE, WEIGHTS_FILE, Checkpoint, CheckpointPath, CheckpointStore
from .compat import dense_weight, set_weight
from .loading import dtype_named
from .model import BaseModel


def export_adapter(store: CheckpointStore, path: str, out: str | Path) -> Path:
    """Copy a checkpoint's adapter, without optimiser state, to a folder that `peft.PeftModel.from_pretrained` loads.

    Raises
    ------
    RequestError
        If there is no such checkpoint, or its base model is gone.
    FileExistsError
        If `out` is there already and not empty.
    """
    source = CheckpointPath.parse(path)
    checkpoint, base, out = store.load(source), store.base_folder(source), Path(out)
    config = json.loads((store.folder(source) / CONFIG_FILE).read_text())
    with new_folder(out, overwrite=False) as folder:
        shutil.copyfile(store.folder(source) / WEIGHTS_FILE, folder / WEIGHTS_FILE)
        (folder / CONFIG_FILE).write_text(json.dumps({**config, "base_model_name_or_path": str(base)}, indent=1))
        _write_card(folder, checkpoint, base, merged=False)
    return out


def export_merged(store: CheckpointStore, path: str, out: str | Path, dtype: str | None = None) -> Path:
    """Write a checkpoint as a model of its own: base model and adapter merged into one set of weights, with tokenizer.

    The sum is made in float32. If the adapter was trained on a base model of 4 bits, those weights (made dense) are the
    base, since the adapter was trained to correct their rounding. A head that is tied to the embedding and was trained
    gets weights of its own.

    Parameters
    ----------
    dtype
        float32, bfloat16 or float16; None takes the base model's own.

    Raises
    ------
    RequestError
        If there is no such checkpoint, or its base model cannot be loaded.
    FileExistsError
        If `out` is there already and not empty.
    """
    chosen = dtype_named(dtype)
    source = CheckpointPath.parse(path)
    checkpoint, folder, out = store.load(source), store.base_folder(source), Path(out)
    check_free(out, overwrite=False)
    info = checkpoint.info
    base = BaseModel(info.base_model, folder, torch.device("cpu"), torch.float32, info.quantize, plain=True)
    adapter = adapter_from_tensors(base.layers, info.lora, checkpoint.tensors, base.device)
    net: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    for layer in base.layers:
        pair = adapter.pairs.get(layer.name)
        if pair is None and info.quantize == "none":
            continue
        weight = dense_weight(layer.module).float() if pair is None else pair.merged()
        set_weight(net.get_submodule(layer.name), weight.contiguous())
        if layer.part == "unembed":
            net.config.tie_word_embeddings = False
            net.config.get_text_config().tie_word_embeddings = False
    own = getattr(AutoConfig.from_pretrained(folder, local_files_only=True), "dtype", None)
    net = net.to(dtype=chosen or own or torch.float32)

    with new_folder(out, overwrite=False) as target:
        net.save_pretrained(target)
        AutoTokenizer.from_pretrained(folder, local_files_only=True).save_pretrained(target)
        _write_card(target, checkpoint, folder, merged=True)
    return out


def push_to_hub(folder: str | Path, repository: str, *, private: bool = True) -> str:
    """Upload an exported folder and return its address.

    The token is read by huggingface_hub from HF_TOKEN or an earlier ``hf auth login``; it is neither taken as an
    argument nor written anywhere.

    Raises
    ------
    PermissionError
        If there is no token.
    """
    import huggingface_hub

    if repository.count("/") != 1:
        raise ValueError(f"a hub repository is named OWNER/NAME, got {repository!r}")
    if huggingface_hub.get_token() is None:
        raise PermissionError("the hub needs a token: set HF_TOKEN, or log in with `hf auth login`")
    api = huggingface_hub.HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    return str(api.upload_folder(repo_id=repository, folder_path=str(folder), commit_message="Export"))


def _write_card(folder: Path, checkpoint: Checkpoint, base: Path, *, merged: bool) -> None:
    info = checkpoint.info
    (folder / "README.md").write_text(f"""---
library_name: {"transformers" if merged else "peft"}
pipeline_tag: text-generation
---

# {"Merged weights" if merged else "Adapter"} of `{info.path}`

- base model: `{base.name}`{" (merged)" if merged else ""}
- adapter: {info.lora.kind}, rank {info.lora.rank}, {info.step} optimiser steps, saved {info.time}
- base model's linear layers in training: {info.quantize if info.quantize != "none" else "not quantised"}
""")
