"""What the cookbook's supervised loops, of SFT and DPO, train on, and whether an adapter is large enough for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tinker
import torch
from tinker_cookbook.exceptions import TinkerCookbookError
from tinker_cookbook.hyperparam_utils import get_lora_param_count
from tinker_cookbook.supervised.types import SupervisedDataset
from transformers import AutoConfig, AutoModelForCausalLM

from ...datasets.atomic_files import write_json_atomically
from .config import RecipeConfig


class ShuffledBatches(SupervisedDataset):
    """Batches of items, of which `datums_of` makes the data to train on; items that fill no batch are left out.

    `set_epoch` draws another order for every epoch; before it the items come in their own. Raises `ValueError` if the
    items, which `name` names, do not fill a batch.
    """

    def __init__(
        self, items: Sequence[Any], batch_size: int, datums_of: Callable[[Any], list[tinker.Datum]], name: str
    ):
        if len(items) < batch_size:
            raise ValueError(f"{len(items)} {name} do not fill a batch of {batch_size}; give a smaller batch_size")
        self.items, self.batch_size, self.datums_of = items, batch_size, datums_of
        self.order = list(range(len(items)))

    def __len__(self) -> int:
        return len(self.items) // self.batch_size

    def get_batch(self, index: int) -> list[tinker.Datum]:
        chosen = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return [datum for i in chosen for datum in self.datums_of(self.items[i])]

    def set_epoch(self, seed: int = 0) -> None:
        self.order = list(range(len(self.items)))
        random.Random(seed).shuffle(self.order)


@dataclass(frozen=True)
class LoraCapacity:
    """Parameters of an adapter, compared with the completion tokens of one epoch, which carry the loss.

    SFT with LoRA keeps up with full fine-tuning as long as its parameters are not fewer than the completion tokens
    (rule of thumb of Schulman et al. 2025, "LoRA Without Regret"). `parameters` is None where it is unknown.
    """

    parameters: int | None
    completion_tokens: int

    @property
    def enough(self) -> bool | None:
        """Whether there are at least as many parameters as completion tokens; None where they are unknown."""
        return None if self.parameters is None else self.parameters >= self.completion_tokens

    def __str__(self) -> str:
        if self.parameters is None:
            return f"LoRA parameters unknown, {self.completion_tokens:,} completion tokens"
        verdict = "enough" if self.enough else "too few; a higher lora_rank helps"
        return f"{self.parameters:,} LoRA parameters for {self.completion_tokens:,} completion tokens: {verdict}"


def lora_parameters(model_name: str, rank: int) -> int | None:
    """The number of parameters of a LoRA adapter of all linear layers.

    It comes from the cookbook's table for the models in it, is counted on the architecture for a folder on this machine
    (no weights are loaded), and is None otherwise. Embeddings that share the unembedding's weights are adapted once.
    """
    if not Path(model_name).is_dir():
        try:
            return get_lora_param_count(model_name, lora_rank=rank)
        except (TinkerCookbookError, KeyError):
            return None
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model_name))
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return rank * sum(layer.in_features + layer.out_features for layer in layers)


def report_capacity(cfg: RecipeConfig, dataset: SupervisedDataset) -> None:
    """Print the `LoraCapacity` of a run and write it to `lora_capacity.json` in the run's folder."""
    data = (datum for index in range(len(dataset)) for datum in dataset.get_batch(index))
    tokens = sum(weight > 0 for datum in data for weight in datum.loss_fn_inputs["weights"].data)
    capacity = LoraCapacity(lora_parameters(cfg.model_name, cfg.lora_rank), tokens)
    print(capacity, flush=True)
    write_json_atomically(Path(cfg.log_path) / "lora_capacity.json", {**asdict(capacity), "enough": capacity.enough})
