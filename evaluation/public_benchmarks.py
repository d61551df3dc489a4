"""Public benchmarks through the cookbook's registry, so that what training costs elsewhere is seen."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tinker
from tinker_cookbook.eval.benchmarks import REGISTRY, BenchmarkConfig, BenchmarkResult, run_benchmark
from tinker_cookbook.exceptions import BenchmarkNotFoundError
from tinker_cookbook.renderers import Renderer

from .kept_answers import keep_whole_answers

logger = logging.getLogger(__name__)
PACKAGES = ("tinker-cookbook", "datasets")


@dataclass(frozen=True)
class PublicResult:
    """What became of one public benchmark.

    Parameters
    ----------
    name : str
        In the cookbook's registry.
    score : float or None
        Share of correct answers; None if it could not be run.
    n, errors, truncated : int
        Examples; those that failed for a technical reason and count as wrong; answers cut off.
    problem : str
        Why it could not be run.
    experimental : bool
        The cookbook says that its scores may differ from published ones.
    """

    name: str
    score: float | None = None
    n: int = 0
    errors: int = 0
    truncated: int = 0
    problem: str = ""
    experimental: bool = False


async def public_benchmarks(
    names: Sequence[str],
    client: tinker.SamplingClient,
    renderer: Renderer,
    folder: Path,
    *,
    max_tokens: int,
    max_examples: int | None = None,
) -> dict[str, Any]:
    """Run benchmarks of the cookbook's registry, greedily, one after the other.

    Parameters
    ----------
    names : sequence of str
        Such as ``gsm8k``, ``mmlu_pro``, ``ifeval``.
    folder : Path
        Where answers are kept; a second call asks only for what is missing.

    Returns
    -------
    dict, ready for JSON: ``versions``, ``max_tokens``, and ``benchmarks``, a list of `PublicResult`. One whose data
    cannot be loaded, or that needs a judge or a sandbox, has a ``problem`` and no score.
    """
    found = [await _one(name, client, renderer, folder, max_tokens, max_examples) for name in names]
    return {
        "versions": {package: version(package) for package in PACKAGES},
        "max_tokens": max_tokens,
        "max_examples": max_examples,
        "benchmarks": {result.name: {k: v for k, v in vars(result).items() if k != "name"} for result in found},
    }


async def _one(
    name: str,
    client: tinker.SamplingClient,
    renderer: Renderer,
    folder: Path,
    max_tokens: int,
    max_examples: int | None,
) -> PublicResult:
    keep_whole_answers(folder, name)
    config = BenchmarkConfig(max_tokens=max_tokens, temperature=0.0, max_examples=max_examples, save_dir=str(folder))
    try:
        result: BenchmarkResult = await run_benchmark(name, client, renderer, config)
    except BenchmarkNotFoundError as error:
        return PublicResult(name, problem=str(error))
    except Exception as error:  # Whatever a benchmark's own loader raises: no network, no access, another format.
        logger.info("public benchmark %s could not be run", name, exc_info=True)
        return PublicResult(name, problem=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return PublicResult(
        name,
        result.score,
        result.num_examples,
        result.num_errors,
        result.num_truncated,
        experimental=REGISTRY[name].experimental,
    )
