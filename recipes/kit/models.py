"""What depends on the model: its renderer and its learning rate, for names the cookbook knows and for local folders."""

from __future__ import annotations

from pathlib import Path

from tinker_cookbook import hyperparam_utils, model_info
from tinker_cookbook.exceptions import TinkerCookbookError

from ...envs.training.groups import renderer_name_for

__all__ = ["is_known_model", "learning_rate_for", "renderer_name_for"]


def is_known_model(model_name: str) -> bool:
    """Whether the cookbook recommends a renderer for the model, which a folder on this machine never has."""
    if Path(model_name).is_dir():
        return False
    try:
        model_info.get_recommended_renderer_name(model_name)
    except (ValueError, KeyError, TinkerCookbookError):
        return False
    return True


def learning_rate_for(model_name: str, explicit: float | None = None) -> float:
    """Learning rate of LoRA training: the one asked for, or the cookbook's `get_lr` where it knows the model.

    Raises
    ------
    ValueError
        If the model is not known and no rate is given.
    """
    if explicit is not None:
        return explicit
    try:
        return hyperparam_utils.get_lr(model_name)
    except (NotImplementedError, ValueError, KeyError, OSError, TinkerCookbookError) as error:
        raise ValueError(
            f"no recommended learning rate for {model_name}: {error}; pass learning_rate= (2e-3 suits models of less "
            "than a million parameters, 1e-4 to 5e-4 models of some billions)"
        ) from error
