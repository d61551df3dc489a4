"""Is an adapter large enough for what it has to learn? LoRA parameters against tokens of the answers.

The rule of thumb of Schulman et al. (2025, "LoRA Without Regret"): supervised fine-tuning with LoRA keeps up with full
fine-tuning as long as its parameters are not fewer than the completion tokens that it learns.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tinker_cookbook.exceptions import TinkerCookbookError
from tinker_cookbook.hyperparam_utils import get_lora_param_count
from transformers import AutoConfig, AutoModelForCausalLM


@dataclass(frozen=True)
class LoraCapacity:
    """Parameters of an adapter beside the tokens it is to learn.

    Parameters
    ----------
    parameters : int or None
        None where nobody knows: a hosted model that the cookbook has no count for.
    completion_tokens : int
        Tokens of the answers of one epoch, which carry the loss.
    """

    parameters: int | None
    completion_tokens: int

    @property
    def enough(self) -> bool | None:
        """Whether parameters >= completion tokens."""
        return None if self.parameters is None else self.parameters >= self.completion_tokens

    def __str__(self) -> str:
        if self.parameters is None:
            return f"LoRA parameters unknown, {self.completion_tokens:,} completion tokens"
        verdict = "enough" if self.enough else "too few; a higher lora_rank helps"
        return f"{self.parameters:,} LoRA parameters for {self.completion_tokens:,} completion tokens: {verdict}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "enough": self.enough}


def lora_parameters(model_name: str, rank: int) -> int | None:
    """Parameters of a LoRA adapter of all linear layers: from the cookbook's table for the models it knows, counted on
    the architecture for a folder on this machine (nothing is loaded), None otherwise.

    Embeddings that share the unembedding's weights are adapted once.
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
