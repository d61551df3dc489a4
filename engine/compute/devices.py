"""Where and how the model computes: device, number format, threads."""

import importlib.util
import os
from typing import Literal, get_args

import torch

Quantization = Literal["none", "4bit"]
QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str | None = None, dtype: str | None = None) -> tuple[torch.device, torch.dtype]:
    """Resolve the options: CUDA with bfloat16 where there is a GPU, otherwise the CPU with float32.

    Raises
    ------
    ValueError
        If `dtype` is not one of float32, bfloat16, float16, or `device` is not available.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not known; choose one of {', '.join(DTYPES)}")
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} asked for, but torch sees no CUDA device; use device='cpu'")
    default = torch.bfloat16 if chosen.type == "cuda" else torch.float32
    return chosen, DTYPES[dtype] if dtype else default


def choose_threads(threads: int | None = None) -> int:
    """Number of torch threads: one when cores are few, since they are shared with the client and the environments.

    Two threads on two busy cores wait for each other at every operator; a tiny model has thousands of those per second.
    """
    if threads is not None:
        if threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        return threads
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if cores <= 4 else cores // 2


def check_quantization(quantize: str) -> None:
    """Refuse a quantisation that is not known, or that this installation cannot compute.

    Raises
    ------
    ValueError
        If `quantize` is neither none nor 4bit, or is 4bit and bitsandbytes is not installed.
    """
    if quantize not in QUANTIZATIONS:
        raise ValueError(f"quantize {quantize!r} is not known; choose one of {', '.join(QUANTIZATIONS)}")
    if quantize == "4bit" and importlib.util.find_spec("bitsandbytes") is None:
        raise ValueError(
            "quantize '4bit' needs bitsandbytes and, in practice, a CUDA GPU: pip install bitsandbytes; "
            "without it, quantize 'none' trains the same adapters on the full weights"
        )
