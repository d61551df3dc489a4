"""Scores of a run's checkpoints on validation papers, so that a checkpoint is never chosen on the test set."""

from __future__ import annotations

from collections.abc import Callable

import tinker

from ...envs.integrations.cookbook_benchmarks import SciSciBenchmark, benchmark_name
from ...envs.training.groups import renderer_of
from ...evaluation.evaluators import HeldOutNLL, ValidationScores, held_out_nll_builder
from ..monitoring.metrics import read_metrics, run_store
from .checkpoints import checkpoints
from .config import RecipeConfig


def validation_builders(cfg: RecipeConfig) -> list[Callable[[], ValidationScores]]:
    """Builders of the evaluator of all recipes: greedy answers to validation papers. Empty if validation is off."""
    if cfg.validation_examples == 0:
        return []
    benchmark = SciSciBenchmark(cfg.env, benchmark_name(cfg.env), cfg.dataset, "validation", cfg.options())
    renderer = cfg.renderer()

    def build() -> ValidationScores:
        return ValidationScores(
            benchmark, renderer_of(renderer, cfg.model_name), cfg.max_tokens, cfg.validation_examples
        )

    return [build]


def held_out_nll(cfg: RecipeConfig) -> Callable[[], HeldOutNLL]:
    """Builder of an evaluator: negative log-likelihood of the gold answers to validation papers, in nats per token."""
    return held_out_nll_builder(
        cfg.env, cfg.dataset, cfg.options(), cfg.renderer(), cfg.model_name, cfg.validation_examples
    )


async def validate_checkpoints(cfg: RecipeConfig) -> None:
    """Score the checkpoints of a finished run that have no validation score, and log each at its step.

    The loops evaluate before an update, and the last checkpoint comes after one; the SFT loop saves all its checkpoints
    between its evaluations.
    """
    builders = validation_builders(cfg)
    if not builders:
        return
    done = {int(row["step"]) for row in read_metrics(cfg.log_path) if "validation/macro_f1" in row}
    missing = [point for point in checkpoints(cfg.log_path) if point.sampler_path and point.step not in done]
    if not missing:
        return
    evaluator, store, service = builders[0](), run_store(cfg.log_path), tinker.ServiceClient()
    for point in missing:
        client = service.create_sampling_client(base_model=cfg.model_name, model_path=point.sampler_path)
        store.write_metrics(await evaluator(client), step=point.step)
