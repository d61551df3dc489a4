"""Public benchmarks through the cookbook's registry, which show what training costs a policy elsewhere."""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tinker
from tinker_cookbook.eval.benchmarks import REGISTRY, BenchmarkConfig, run_benchmark
from tinker_cookbook.exceptions import BenchmarkNotFoundError
from tinker_cookbook.renderers import Renderer

from .ask import TIMEOUT_SECONDS
from .compat import keep_whole_answers

logger = logging.getLogger(__name__)
PACKAGES = ("tinker-cookbook", "datasets")


async def public_benchmarks(
    names: Sequence[str],
    client: tinker.SamplingClient,
    renderer: Renderer,
    folder: Path,
    *,
    max_tokens: int,
    max_examples: int | None = None,
) -> dict[str, Any]:
    """Run benchmarks of the cookbook's registry, such as ``gsm8k``, greedily, one after the other.

    Answers are kept in `folder`; a second call asks only what is missing.

    Returns
    -------
    dict, ready for JSON: ``versions``, ``max_tokens``, ``max_examples``, and ``benchmarks``, for each name a dict with
    ``score`` (share of correct answers), ``n``, ``errors`` (examples that failed for a technical reason and count as
    wrong), ``truncated`` (answers that were cut off), ``problem``, and ``experimental`` (the cookbook warns that scores
    may differ from published ones). A benchmark whose data cannot be loaded, or that needs a judge or a sandbox, has a
    ``problem`` and the score None.
    """
    limits = {"max_tokens": max_tokens, "max_examples": max_examples}
    config = BenchmarkConfig(temperature=0.0, save_dir=str(folder), timeout_seconds=TIMEOUT_SECONDS, **limits)
    results = {name: await _result(name, client, renderer, folder, config) for name in names}
    return {"versions": {package: version(package) for package in PACKAGES}, **limits, "benchmarks": results}


async def _result(
    name: str, client: tinker.SamplingClient, renderer: Renderer, folder: Path, config: BenchmarkConfig
) -> dict[str, Any]:
    result = {"score": None, "n": 0, "errors": 0, "truncated": 0, "problem": "", "experimental": False}
    keep_whole_answers(folder, name)
    try:
        found = await run_benchmark(name, client, renderer, config)
    except BenchmarkNotFoundError as error:
        return result | {"problem": str(error)}
    except Exception as error:  # Whatever a benchmark's own loader raises: no network, no access, another format.
        logger.info("public benchmark %s could not be run", name, exc_info=True)
        return result | {"problem": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    return result | {
        "score": found.score,
        "n": found.num_examples,
        "errors": found.num_errors,
        "truncated": found.num_truncated,
        "experimental": REGISTRY[name].experimental,
    }
