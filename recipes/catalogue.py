"""The recipes by name."""

from __future__ import annotations

from . import distill, dpo, rl, sft
from .kit.recipe import Recipe

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (rl.RECIPE, sft.RECIPE, dpo.RECIPE, distill.RECIPE)}
