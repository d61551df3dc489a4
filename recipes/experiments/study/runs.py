"""Training the arms of a study, one after the other, each where it was left."""

from __future__ import annotations

from pathlib import Path

import chz
from rich.console import Console

from ...catalogue import RECIPES
from ...kit.config import RecipeConfig
from ...kit.engines import EngineSwitch
from ...monitoring.progress import training_progress
from ..sweep import finished
from .plan import Arm, StudyPlan, run_folder


def arm_config(plan: StudyPlan, arm: Arm, seed: int, out: Path) -> RecipeConfig:
    """Options of the recipe for the run of an arm with a seed."""
    assert arm.recipe is not None
    shared = {
        "dataset": plan.dataset,
        "model_name": plan.model_name,
        "env": plan.env,
        "env_options": plan.env_options,
        "renderer_name": plan.renderer_name,
        "validation_examples": plan.validation_examples,
        "checkpoints": str(out / "checkpoints"),
    }
    fixed = {"log_path": str(run_folder(out, arm, seed)), "seed": seed}
    if arm.start is not None:
        fixed["load_checkpoint_path"] = str(run_folder(out, plan.arm(arm.start), seed))
    # What is given as text is read as the recipe's command line reads it.
    given = {**shared, **arm.options, **fixed}
    blueprint = chz.Blueprint(RECIPES[arm.recipe].config)
    blueprint = blueprint.apply({name: value for name, value in given.items() if not isinstance(value, str)})
    return blueprint.make_from_argv([f"{name}={value}" for name, value in given.items() if isinstance(value, str)])


def train_arms(plan: StudyPlan, out: Path, console: Console, switch: EngineSwitch, engine: str | None) -> None:
    """Train what is not trained yet: seed by seed, and within a seed in the order of the arms.

    Parameters
    ----------
    switch : EngineSwitch
        Arms may train adapters of different kinds, which a local engine is started with.
    engine : str or None
        As in `open_engine`.
    """
    for seed in plan.seeds:
        for arm in plan.trained:
            folder = run_folder(out, arm, seed)
            cfg = arm_config(plan, arm, seed, out)
            name = f"{arm.title}, seed {seed}"
            if finished(folder, cfg):
                console.print(f"[green]✓[/green] {name} [dim](done before)[/dim]")
                continue
            assert arm.recipe is not None
            switch.to(engine, out / "checkpoints", cfg.adapter, cfg.quantize)
            with training_progress(name, folder, getattr(cfg, "max_steps", 0), console):
                RECIPES[arm.recipe].run(cfg)
            console.print(f"[green]✓[/green] {name}")
