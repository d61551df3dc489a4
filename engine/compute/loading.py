"""Find a base model by the name that a client uses, load it, and choose where and how it computes."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import torch

from ..errors import RequestError
from ..options import Quantization, is_hub_name
from .compat import eager_attention
from .decoding import DecodingBatch
from .model import BaseModel, UnsupportedArchitecture

logger = logging.getLogger(__name__)

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]
"""What is fetched from the hub: no pickled weights, no code."""
TOLERANCE, TOLERANCE_16_BITS = 1e-3, 0.25
"""Largest difference of a log-probability that the self-check allows, in float32 and in 16 bits."""


def choose_device(device: str | None = None, dtype: str | None = None) -> tuple[torch.device, torch.dtype]:
    """Resolve the options: CUDA with bfloat16 where there is a GPU, otherwise the CPU with float32.

    Raises
    ------
    ValueError
        If `dtype` is not one of float32, bfloat16, float16, or `device` is not available.
    """
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} asked for, but torch sees no CUDA device; use device='cpu'")
    return chosen, dtype_named(dtype) or (torch.bfloat16 if chosen.type == "cuda" else torch.float32)


def dtype_named(name: str | None) -> torch.dtype | None:
    """float32, bfloat16 or float16; a `ValueError` for another name, None for None."""
    if name is not None and name not in _DTYPES:
        raise ValueError(f"dtype {name!r} is not known; choose one of {', '.join(_DTYPES)}")
    return _DTYPES[name] if name is not None else None


def choose_threads(threads: int | None = None) -> int:
    """Number of torch threads: one when cores are few, since they are shared with the client and the environments.

    Two threads on two busy cores wait for each other at every operator; a tiny model has thousands of those per second.
    """
    if threads is not None:
        return threads
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if cores <= 4 else cores // 2


def find_model(name: str, models: Mapping[str, str | Path], *, any_path: bool, download: bool) -> Path:
    """The folder of the model that a client calls `name`.

    Parameters
    ----------
    models
        Folders, or names of hub repositories, by the names that clients use.
    any_path
        Whether clients may also name local folders and hub repositories.
    download
        Whether to fetch from the Hugging Face hub what is not in its local cache.

    Raises
    ------
    RequestError
        404, with the names there are.
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
    """Load a model. One whose decoding differs, on a short text, from its own attention is served plainly."""
    try:
        base = BaseModel(name, folder, device, dtype, quantize)
        difference = _difference(base)
        if difference <= (TOLERANCE if dtype == torch.float32 else TOLERANCE_16_BITS):
            return base
        reason = f"decoding with a cache differs from its own attention by {difference:.3g} in a log-probability"
    except UnsupportedArchitecture as error:
        reason = str(error)
    logger.warning(
        "base model %s: %s; every token will be computed from the whole sequence, which is slow", name, reason
    )
    return BaseModel(name, folder, device, dtype, quantize, plain=True)


@torch.inference_mode()
def _difference(base: BaseModel, prompt: int = 24, decoded: int = 4) -> float:
    """Largest difference of a log-probability between decoding and reading the same text with eager attention."""
    length = min(prompt + decoded, base.context_length)
    prompt = length - decoded
    tokens = torch.arange(length, device=base.device)[None] * 7919 % base.vocab_size
    places = torch.arange(prompt - 1, length - 1, device=base.device)
    try:
        with eager_attention(base.net):
            expected = base.logits(tokens, places).log_softmax(-1)
    except (ValueError, NotImplementedError, AttributeError) as error:
        raise UnsupportedArchitecture(f"{base.arch} cannot be checked against its own attention: {error}") from error
    cache = base.empty_cache()
    got = [base.logits(tokens[:, :prompt], places[:1], cache=cache)]
    which = torch.zeros(1, dtype=torch.int64, device=base.device)
    batch = DecodingBatch(base, 1, cache, which, which + prompt)
    for step in range(decoded - 1):
        got.append(batch.step(tokens[0, prompt + step : prompt + step + 1].tolist(), step))
    return float((torch.cat(got).log_softmax(-1) - expected).abs().max())
