"""How often a policy gets each training example right: what a curriculum by pass rate goes by."""

from __future__ import annotations

import asyncio
from pathlib import Path

import tinker
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.rl.rollouts import do_group_rollout

from ...datasets.atomic_files import write_json_atomically
from ...datasets.store import load_papers
from ...envs.registry import spec
from ...envs.training.groups import SciSciGroupBuilder
from .curriculum import PASS_RATES, example_key

AT_ONCE = 64


async def measure_pass_rates(
    log_path: str,
    *,
    env_id: str,
    options: dict,
    dataset: str,
    model_name: str,
    renderer_name: str,
    start: str | None,
    attempts: int,
    max_tokens: int,
    seed: int,
) -> None:
    """Let the policy that training starts from answer every training example `attempts` times at temperature 1, and
    write the shares of right answers to `pass_rates.json` in the run's folder. A run that has them keeps them.

    Parameters
    ----------
    start : str or None
        ``tinker://`` path of a training state; None for the base model.
    """
    path = Path(log_path) / PASS_RATES
    if path.is_file():
        return
    service = tinker.ServiceClient()
    if start is None:
        client = service.create_sampling_client(base_model=model_name)
    else:
        trained = await service.create_training_client_from_state_async(start)
        client = await trained.save_weights_and_get_sampling_client_async()
    policy = TinkerTokenCompleter(client, max_tokens=max_tokens)
    gate = asyncio.Semaphore(AT_ONCE)

    async def rate(builder: SciSciGroupBuilder) -> float:
        async with gate:
            group = await do_group_rollout(builder, policy)
        right = [
            max((step.metrics.get("correct", 0.0) for step in trajectory.transitions), default=0.0)
            for trajectory in group.trajectories_G
        ]
        return sum(right) / len(right)

    examples = spec(env_id).examples(load_papers(dataset, "train"), seed)
    builders = [
        SciSciGroupBuilder(env_id, example, renderer_name, model_name, attempts, options) for example in examples
    ]
    rates = await asyncio.gather(*map(rate, builders))
    write_json_atomically(path, {example_key(e): r for e, r in zip(examples, rates, strict=True)})
