"""Find a base model by the name that a client uses, load it, and choose where and how it computes."""

import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from ..errors import RequestError
from ..options import Quantization, is_hub_name
from .compat import multiplies_bfloat16
from .memory import free_bytes
from .model import SMALL, BaseModel, UnsupportedArchitecture
from .self_check import decoding_fault

logger = logging.getLogger(__name__)

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]
"""What is fetched from the hub: no pickled weights, no code."""


def choose_device(device: str | None) -> torch.device:
    """CUDA where there is a GPU, unless named otherwise; a `ValueError` if what is named is not available."""
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} asked for, but torch sees no CUDA device; use device='cpu'")
    return chosen


def dtype_named(name: str | None) -> torch.dtype | None:
    """float32, bfloat16 or float16; a `ValueError` for another name, None for None."""
    if name is not None and name not in _DTYPES:
        raise ValueError(f"dtype {name!r} is not known; choose one of {', '.join(_DTYPES)}")
    return _DTYPES[name] if name is not None else None


def suited_dtype(folder: Path, device: torch.device) -> torch.dtype:
    """bfloat16 on CUDA, and for a model that is not small on a CPU that multiplies it in hardware; else float32."""
    narrow = device.type == "cpu" and parameters_in(folder) >= SMALL and multiplies_bfloat16()
    return torch.bfloat16 if narrow or device.type == "cuda" else torch.float32


def parameters_in(folder: Path) -> int:
    """Numbers in the safetensors files of a folder; only their headers are read, also of files larger than the memory.

    A `RequestError` names a file that has no such header.
    """
    count = 0
    for file in folder.glob("*.safetensors"):
        try:
            with safe_open(file, "np") as tensors:
                count += sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
        except SafetensorError as error:
            raise RequestError(f"{file} is no safetensors file, or damaged; fetch the model again") from error
    return count


def choose_threads(threads: int | None = None, *, small: bool = True) -> int:
    """Number of torch threads: one when cores are few, since they are shared with the client and the environments.

    Two threads on two busy cores wait for each other at every operator; a small model has thousands of those per
    second. A model that is not small spends its time inside the operators and gets all of a few cores. OMP_NUM_THREADS
    limits both.
    """
    if threads is not None:
        return threads
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = cores // 2 if cores > 4 else 1 if small else cores
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(chosen, int(limit)) if not small and limit.isdecimal() else chosen


def find_model(name: str, models: Mapping[str, str | Path], *, any_path: bool, download: bool) -> Path:
    """The folder of the model that a client calls `name`.

    `models` are folders, or names of hub repositories, by the names that clients use. With `any_path` clients may also
    name local folders and hub repositories; with `download` what is not in the local cache is fetched from the hub.
    A `RequestError` (404) names the models there are.
    """
    target = str(models.get(name, name if any_path else ""))
    if target and Path(target, "config.json").is_file():
        return Path(target)
    tried = ""
    if is_hub_name(target):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

        try:
            return Path(snapshot_download(target, allow_patterns=HUB_FILES, local_files_only=not download))
        except LocalEntryNotFoundError:
            tried = "; it is not in the Hugging Face cache" + (" and the hub cannot be reached" if download else "")
            tried += "" if download else " (start the engine with --download to fetch it)"
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            tried = f"; the hub says: {str(error).splitlines()[0]}"
    names = ", ".join(map(repr, models)) or "none"
    path = " or pass the path of a local Hugging Face model folder" if any_path else ""
    raise RequestError(f"base_model {name!r} is not known; this server has {names}{path}{tried}", status=404)


def load_model(
    name: str, folder: Path, device: torch.device, dtype: torch.dtype, quantize: Quantization = "none"
) -> BaseModel:
    """Load a model. One whose decoding fails the self-check (see `decoding_fault`) is served plainly.

    A `RequestError` refuses a folder without a causal language model, and weights that need more memory than is free.
    """
    needed, free = parameters_in(folder) * dtype.itemsize, free_bytes(device)
    if quantize == "none" and free is not None and needed > free:
        raise RequestError(
            f"base model {name!r} needs {needed:,} bytes of memory for its weights as {dtype}, and {free:,} are free "
            f"on {device}; take a smaller model, or a smaller number format (dtype)"
        )
    try:
        base = BaseModel(name, folder, device, dtype, quantize)
        reason = decoding_fault(base)
        if reason is None:
            return base
    except UnsupportedArchitecture as error:
        reason = str(error)
    logger.warning(
        "base model %s: %s; every token will be computed from the whole sequence, which is slow", name, reason
    )
    return BaseModel(name, folder, device, dtype, quantize, plain=True)
