"""Checkpoints on disk: safetensors and JSON, written so that a crash leaves either the old one or the new one.

A checkpoint is a folder that is also a peft adapter::

    {root}/{session}_train_{seq}/weights|sampler_weights|external_weights/{name}/
        adapter_model.safetensors   peft names and layout
        adapter_config.json         peft's configuration
        optimizer.safetensors       AdamW's moments (training checkpoints only)
        checkpoint.json             everything else

The base model's folder is kept twice: relative to the checkpoint, for a run that is moved whole, and absolute, for a
checkpoint that is moved by itself.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import RequestError
from ..folders import OwnFolder, new_folder, remove_unowned, restore_all
from ..options import Quantization
from .adapters import ALPHA, AdapterWeights, LoraSpec

ADAPTER_FILES = CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"
"""What peft reads."""
_OPTIMIZER_FILE, _INFO_FILE = "optimizer.safetensors", "checkpoint.json"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@-]{0,199}")
_PEFT_PREFIX = "base_model.model."
EXTERNAL = "external_weights"
"""Checkpoints of this kind are for download: they may be encrypted, and are not loaded again."""
KINDS = ("weights", "sampler_weights", EXTERNAL)
"""What checkpoints are for: training on, sampling, and use elsewhere."""


@dataclass(frozen=True)
class CheckpointPath:
    """``tinker://{model_id}/{kind}/{name}``, where `kind` is one of `KINDS`."""

    model_id: str
    kind: str
    name: str

    @classmethod
    def parse(cls, path: str) -> "CheckpointPath":
        """Parse and check a path; its parts cannot leave the checkpoint folder."""
        parts = path.removeprefix("tinker://").split("/")
        if not path.startswith("tinker://") or len(parts) != 3 or parts[1] not in KINDS:
            raise RequestError(
                f"checkpoint path {path!r} is not of the form tinker://<model id>/{'|'.join(KINDS)}/<name>"
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
    """`checkpoint.json`."""

    path: str
    base_model: str  # What the client called it.
    lora: LoraSpec
    step: int
    time: str
    has_optimizer: bool
    run_metadata: dict[str, Any]
    user_metadata: dict[str, Any]
    expires_at: str | None = None
    quantize: Quantization = "none"  # The base model's number format in training.
    base_path: str | None = None  # Its folder as seen from the checkpoint; None in checkpoints of earlier versions.

    @classmethod
    def read(cls, file: Path) -> "CheckpointInfo":
        data = json.loads(file.read_text())
        return cls(**{**data, "lora": LoraSpec(**data["lora"])})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read back: adapter tensors by `AdapterWeights.named_tensors`' names, and optimiser state."""

    info: CheckpointInfo
    tensors: dict[str, Tensor]
    optimizer: dict[str, Tensor] | None


class CheckpointStore:
    """All checkpoints under one folder, which outlives the server. Servers that share it leave each other alone.

    With `read_only` the folder is left as it is.
    """

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.root = root.absolute()
        if read_only:
            return
        self.root.mkdir(parents=True, exist_ok=True)
        for parent in self.root.glob("*/*/"):
            remove_unowned(parent)
            restore_all(parent)

    def folder(self, path: CheckpointPath) -> Path:
        """Where a checkpoint is, or would be."""
        return self.root / path.model_id.replace(":", "_") / path.kind / path.name

    def save(
        self,
        info: CheckpointInfo,
        adapter: AdapterWeights,
        optimizer: dict[str, Tensor] | None,
        base_folder: Path,
        *,
        overwrite: bool,
        finish: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """Write a checkpoint; it appears under its name only when it is complete and on disk.

        `finish` may change the files in the folder that it gets, before that. Without `overwrite` a name that is taken
        is refused.
        """
        final = self.folder(CheckpointPath.parse(info.path))
        if final.exists() and not overwrite:
            raise RequestError(f"checkpoint {info.path} exists already; choose another name or pass overwrite=True")
        info = replace(info, base_path=os.path.relpath(base_folder, final.resolve()))
        # peft ends the names of matrices in .weight, that of DoRA's magnitude not.
        tensors = {
            f"{_PEFT_PREFIX}{name}" + (".weight" if tensor.ndim == 2 else ""): tensor
            for name, tensor in adapter.named_tensors().items()
        }
        with new_folder(final, overwrite=overwrite) as folder:
            save_file(tensors, folder / WEIGHTS_FILE, {"format": "pt"})
            _write_json(folder / CONFIG_FILE, _peft_config(adapter, base_folder))
            if optimizer is not None:
                save_file(optimizer, folder / _OPTIMIZER_FILE)
            _write_json(folder / _INFO_FILE, asdict(info))
            finish(folder)

    def copy(self, source: CheckpointPath, target: CheckpointPath, expires_at: str | None) -> None:
        """Give a checkpoint a second path. The files are shared, where the file system can, until either is deleted."""
        info, old, final = self.info(source), self.folder(source).resolve(), self.folder(target)
        if final.exists():
            raise RequestError(f"checkpoint {target} exists already; choose another model_seq_id")
        base = info.base_path and os.path.relpath(os.path.normpath(old / info.base_path), final)
        with new_folder(final, overwrite=False) as folder:
            for file in old.iterdir():
                try:
                    os.link(file, folder / file.name)
                except OSError:  # A file system without hard links.
                    shutil.copyfile(file, folder / file.name)
            (folder / _INFO_FILE).unlink()
            copied = replace(info, path=str(target), time=now(), expires_at=expires_at, base_path=base)
            _write_json(folder / _INFO_FILE, asdict(copied))

    def info(self, path: CheckpointPath) -> CheckpointInfo:
        """The content of `checkpoint.json`; a `RequestError` (404) if there is no such checkpoint."""
        return CheckpointInfo.read(self._existing(path) / _INFO_FILE)

    def _existing(self, path: CheckpointPath) -> Path:
        folder = self.folder(path)
        if not (folder / _INFO_FILE).is_file():
            raise RequestError(
                f"there is no checkpoint {path}: {folder} is not there; if its folder was moved, start the "
                "engine with --checkpoints FOLDER, the folder that holds that of the run",
                status=404,
            )
        return folder

    def base_folder(self, path: CheckpointPath) -> Path:
        """The folder of a checkpoint's base model; a `RequestError` (404) if it is no longer where it was, neither as
        seen from the checkpoint nor on this machine.
        """
        info, folder = self.info(path), self.folder(path)
        places = [Path(json.loads((folder / CONFIG_FILE).read_text())["base_model_name_or_path"])]
        if info.base_path is not None:
            places.insert(0, Path(os.path.normpath(folder.resolve() / info.base_path)))
        for place in places:
            if (place / "config.json").is_file():
                return place
        looked = " nor at ".join(dict.fromkeys(map(str, places)))
        raise RequestError(
            f"the base model of {path} is gone: it is not at {looked}; put the model's folder back there, "
            f"or start the engine with --model {info.base_model}=FOLDER",
            status=404,
        )

    def load(self, path: CheckpointPath) -> Checkpoint:
        """Read a checkpoint; a `RequestError` if it is there for download only, or (404) if there is none."""
        if path.kind == EXTERNAL:
            raise RequestError(
                f"{path} is an export for download; load what save_state or save_weights_for_sampler wrote"
            )
        info, folder = self.info(path), self.folder(path)
        tensors = {
            name.removeprefix(_PEFT_PREFIX).removesuffix(".weight"): tensor
            for name, tensor in load_file(folder / WEIGHTS_FILE).items()
        }
        return Checkpoint(info, tensors, load_file(folder / _OPTIMIZER_FILE) if info.has_optimizer else None)

    def delete(self, path: CheckpointPath) -> None:
        """Remove a checkpoint in one step; a `RequestError` (404) if there is none."""
        folder = self._existing(path)
        own = OwnFolder(folder.parent)
        os.rename(folder, own.path)
        own.close()

    def list(self, model_id: str | None = None) -> list[CheckpointInfo]:
        """All checkpoints, of one model or of all, oldest first."""
        run = "*" if model_id is None else check_name(model_id.replace(":", "_"), "the model id")
        files = self.root.glob(f"{run}/*/*/{_INFO_FILE}")
        infos = [CheckpointInfo.read(file) for file in files if not file.parent.name.startswith(".")]
        return sorted(infos, key=lambda info: (info.time, info.path))

    def size(self, path: CheckpointPath) -> int:
        """Size of a checkpoint's files, bytes."""
        return sum(f.stat().st_size for f in self.folder(path).iterdir())


def now() -> str:
    """The present time in ISO 8601, UTC."""
    return datetime.now(UTC).isoformat()


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
    path.write_text(json.dumps(data, indent=1))
