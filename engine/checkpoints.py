"""Checkpoints on disk: safetensors and JSON, written so that a crash leaves either the old one or the new one.

A checkpoint is a folder that is also a peft adapter::

    {root}/{session}_train_{seq}/weights|sampler_weights/{name}/
        adapter_model.safetensors   peft names and layout
        adapter_config.json         peft's configuration
        optimizer.safetensors       AdamW's moments (training checkpoints only)
        checkpoint.json             everything else
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from .adapters import AdapterWeights
from .devices import Quantization
from .errors import RequestError
from .lora import ALPHA, LoraSpec

KINDS = ("weights", "sampler_weights")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@-]{0,199}")
WEIGHTS_FILE, CONFIG_FILE = ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")
"""What peft reads."""
_PEFT_PREFIX = "base_model.model."


@dataclass(frozen=True)
class CheckpointPath:
    """``tinker://{model_id}/{kind}/{name}``."""

    model_id: str
    kind: str
    name: str

    @classmethod
    def parse(cls, path: str) -> "CheckpointPath":
        """Parse and check a path; its parts cannot leave the checkpoint folder."""
        parts = path.removeprefix("tinker://").split("/")
        if not path.startswith("tinker://") or len(parts) != 3 or parts[1] not in KINDS:
            raise RequestError(
                f"checkpoint path {path!r} is not of the form tinker://<model id>/weights|sampler_weights/<name>"
            )
        check_name(parts[0].replace(":", "_"), "the model id of a checkpoint path")
        check_name(parts[2], "the name of a checkpoint")
        return cls(*parts)

    def __str__(self) -> str:
        return f"tinker://{self.model_id}/{self.kind}/{self.name}"


def check_name(name: str, what: str) -> str:
    """Refuse a name from the wire that could be anything but a plain file name."""
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"{what} is {name!r}; use letters, digits and _ . + = @ - (no slash, no dot first, 200 characters at most)"
        )
    return name


@dataclass(frozen=True)
class CheckpointInfo:
    """`checkpoint.json`. `quantize` is the base model's number format in training, `lora.kind` the kind of adapter."""

    path: str
    base_model: str
    lora: LoraSpec
    step: int
    time: str
    has_optimizer: bool
    run_metadata: dict[str, Any]
    user_metadata: dict[str, Any]
    expires_at: str | None = None
    quantize: Quantization = "none"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "CheckpointInfo":
        return cls(**{**data, "lora": LoraSpec(**data["lora"])})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read back: adapter tensors by layer name (see `AdapterWeights.named_tensors`) and optimiser
    state.
    """

    info: CheckpointInfo
    tensors: dict[str, Tensor]
    optimizer: dict[str, Tensor] | None


class CheckpointStore:
    """All checkpoints under one folder; several lives of a server can share it, one at a time.

    With `read_only` the folder is left as it is: a server may be writing there.
    """

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.root = root
        if read_only:
            return
        root.mkdir(parents=True, exist_ok=True)
        for leftover in root.glob("*/*/.writing-*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def folder(self, path: CheckpointPath) -> Path:
        return self.root / path.model_id.replace(":", "_") / path.kind / path.name

    def save(
        self,
        info: CheckpointInfo,
        adapter: AdapterWeights,
        optimizer: dict[str, Tensor] | None,
        base_folder: Path,
        *,
        overwrite: bool,
    ) -> None:
        """Write a checkpoint; it appears under its name only when it is complete and on disk.

        Raises
        ------
        RequestError
            If the name is taken and `overwrite` is false.
        """
        final = self.folder(CheckpointPath.parse(info.path))
        if final.exists() and not overwrite:
            raise RequestError(f"checkpoint {info.path} exists already; choose another name or pass overwrite=True")
        final.parent.mkdir(parents=True, exist_ok=True)
        aside = final.parent / f".writing-{uuid.uuid4().hex}"
        aside.mkdir()
        try:
            _write(aside / WEIGHTS_FILE, lambda p: save_file(_peft_tensors(adapter), p, {"format": "pt"}))
            _write_json(aside / CONFIG_FILE, _peft_config(adapter, base_folder))
            if optimizer is not None:
                _write(aside / "optimizer.safetensors", lambda p: save_file(optimizer, p))
            _write_json(aside / "checkpoint.json", asdict(info))
            _sync(aside)
            if final.exists():
                old = final.parent / f".writing-{uuid.uuid4().hex}"
                os.rename(final, old)
                os.rename(aside, final)
                shutil.rmtree(old)
            else:
                os.rename(aside, final)
            _sync(final.parent)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def info(self, path: CheckpointPath) -> CheckpointInfo:
        """What `checkpoint.json` says; 404 if there is no such checkpoint."""
        file = self.folder(path) / "checkpoint.json"
        if not file.is_file():
            raise RequestError(f"there is no checkpoint {path} in {self.root}", status=404)
        return CheckpointInfo.from_json(json.loads(file.read_text()))

    def load(self, path: CheckpointPath) -> Checkpoint:
        info = self.info(path)
        folder = self.folder(path)
        tensors = _layer_tensors(load_file(folder / WEIGHTS_FILE))
        optimizer = load_file(folder / "optimizer.safetensors") if info.has_optimizer else None
        return Checkpoint(info, tensors, optimizer)

    def delete(self, path: CheckpointPath) -> None:
        folder = self.folder(path)
        if not folder.is_dir():
            raise RequestError(f"there is no checkpoint {path} in {self.root}", status=404)
        gone = folder.parent / f".writing-{uuid.uuid4().hex}"
        os.rename(folder, gone)
        shutil.rmtree(gone)

    def list(self, model_id: str | None = None) -> list[CheckpointInfo]:
        """All checkpoints, of one model or of all, oldest first."""
        run = "*" if model_id is None else check_name(model_id.replace(":", "_"), "the model id")
        files = self.root.glob(f"{run}/*/*/checkpoint.json")
        found = [
            CheckpointInfo.from_json(json.loads(f.read_text())) for f in files if not f.parent.name.startswith(".")
        ]
        return sorted(found, key=lambda info: (info.time, info.path))

    def size(self, path: CheckpointPath) -> int:
        """Bytes on disk."""
        return sum(f.stat().st_size for f in self.folder(path).iterdir())


def now() -> str:
    """The present time in ISO 8601, UTC."""
    return datetime.now(UTC).isoformat()


def optimizer_tensors(adapter: AdapterWeights, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """AdamW's state by parameter name: ``{layer}.lora_A.exp_avg`` and so on; empty before the first step."""
    out: dict[str, Tensor] = {}
    for name, parameter in adapter.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            out[f"{name}.{key}"] = value.detach().cpu().clone().contiguous()
    return out


def restore_optimizer(adapter: AdapterWeights, optimizer: torch.optim.AdamW, tensors: dict[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    for name, parameter in adapter.named_parameters():
        prefix = f"{name}."
        state = {k.removeprefix(prefix): v.clone() for k, v in tensors.items() if k.startswith(prefix)}
        if state:
            # AdamW keeps its step count on the CPU, the moments next to the parameter.
            optimizer.state[parameter] = {k: v if k == "step" else v.to(parameter.device) for k, v in state.items()}


def _peft_tensors(adapter: AdapterWeights) -> dict[str, Tensor]:
    # peft ends the names of matrices in .weight, that of DoRA's magnitude not.
    return {
        f"{_PEFT_PREFIX}{name}" + (".weight" if tensor.ndim == 2 else ""): tensor
        for name, tensor in adapter.named_tensors().items()
    }


def _layer_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(_PEFT_PREFIX).removesuffix(".weight"): tensor for name, tensor in tensors.items()}


def _peft_config(adapter: AdapterWeights, base_folder: Path) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(base_folder),
        "r": adapter.spec.rank,
        "lora_alpha": ALPHA,
        "use_dora": adapter.spec.kind == "dora",
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "target_modules": list(adapter.pairs),
    }


def _write_json(path: Path, data: dict[str, Any]) -> None:
    _write(path, lambda p: p.write_text(json.dumps(data, indent=1)))


def _write(path: Path, write: Callable[[Path], object]) -> None:
    write(path)
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
