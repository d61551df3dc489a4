"""Direct preference optimisation (Rafailov et al. 2023) on pairs that an environment's grading makes.

::

    python -m scisci_gym.recipes.dpo dataset=runs/data model_name=runs/model log_path=runs/dpo pairs=sampled

`pairs=gold` sets right answers against wrong ones; `pairs=sampled` takes both from the policy itself.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import chz
import tinker
import torch
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.supervised.common import datum_from_model_input_weights
from tinker_cookbook.supervised.types import ChatDatasetBuilder, ChatDatasetBuilderCommonConfig, SupervisedDataset
from tinker_cookbook.utils.lr_scheduling import LRSchedule

from ..datasets.atomic_files import write_text_atomically
from ..datasets.store import load_card, load_papers
from ..envs.registry import spec
from ..envs.training.groups import SciSciGroupBuilder, renderer_of
from .kit.checkpoints import state_path
from .kit.config import RecipeConfig
from .kit.dpo_loop import dpo_loop, reference_client
from .kit.preference_pairs import Pair, gold_pairs, sampled_pairs
from .kit.running import Recipe
from .kit.validation import validation_builders

PAIRS = "pairs.jsonl"


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    # Where pairs come from; sampled: so many rollouts of every example.
    pairs: Literal["gold", "sampled"] = "gold"
    rollouts_per_example: int = 8
    rows: int | None = None
    dpo_beta: float = 0.1
    lr_schedule: LRSchedule = "linear"
    num_epochs: int = 1
    batch_size: int = 32
    max_length: int | None = 32768


class PairDataset(SupervisedDataset):
    """Batches of pairs as the DPO loop wants them: the datum of the chosen answer, then that of the rejected one."""

    def __init__(self, pairs: Sequence[Pair], batch_size: int, max_length: int | None):
        if len(pairs) < batch_size:
            raise ValueError(f"{len(pairs)} pairs do not fill a batch of {batch_size}; give a smaller batch_size")
        self.pairs, self.batch_size, self.max_length = pairs, batch_size, max_length
        self.order = list(range(len(pairs)))

    def __len__(self) -> int:
        return len(self.pairs) // self.batch_size

    def get_batch(self, index: int) -> list[tinker.Datum]:
        chosen = [self.pairs[at] for at in self.order[index * self.batch_size : (index + 1) * self.batch_size]]
        return [self._datum(pair.prompt, answer) for pair in chosen for answer in (pair.chosen, pair.rejected)]

    def _datum(self, prompt: list[int], answer: list[int]) -> tinker.Datum:
        weights = torch.tensor([0.0] * len(prompt) + [1.0] * len(answer))
        return datum_from_model_input_weights(tinker.ModelInput.from_ints(prompt + answer), weights, self.max_length)

    def set_epoch(self, seed: int = 0) -> None:
        self.order = list(range(len(self.pairs)))
        random.Random(seed).shuffle(self.order)


@chz.chz
class StoredPairs(ChatDatasetBuilder):
    """The pairs in a run's folder."""

    log_path: str
    batch_size: int
    max_length: int | None

    def __call__(self) -> tuple[SupervisedDataset, SupervisedDataset | None]:
        lines = (Path(self.log_path) / PAIRS).read_text().splitlines()
        return PairDataset([Pair(**json.loads(line)) for line in lines], self.batch_size, self.max_length), None


def build_config(cfg: CLIConfig) -> train_dpo.Config:
    """The cookbook's configuration for ours."""
    load_card(cfg.dataset)
    spec(cfg.env)
    common = ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer=cfg.model_name,
        renderer_name=cfg.renderer(),
        max_length=cfg.max_length,
        batch_size=cfg.batch_size,
    )
    return train_dpo.Config(
        recipe_name=f"scisci_gym_dpo_{cfg.env}",
        dataset_builder=StoredPairs(
            common_config=common, log_path=cfg.log_path, batch_size=cfg.batch_size, max_length=cfg.max_length
        ),
        model_name=cfg.model_name,
        renderer_name=cfg.renderer(),
        load_checkpoint_path=state_path(cfg.load_checkpoint_path),
        lora_rank=cfg.lora_rank,
        learning_rate=cfg.rate(),
        lr_schedule=cfg.lr_schedule,
        num_epochs=cfg.num_epochs,
        dpo_beta=cfg.dpo_beta,
        evaluator_builders=[*validation_builders(cfg)],
        eval_every=cfg.eval_every if cfg.validation_examples != 0 else 0,
        infrequent_eval_every=0,
        save_every=cfg.save_every,
        wandb_project=cfg.wandb_project,
        wandb_name=cfg.wandb_name,
        log_path=cfg.log_path,
    )


async def store_pairs(cfg: CLIConfig, start: str | None) -> None:
    """Write `pairs.jsonl` into the run's folder, unless it is there: a resumed run trains on the same pairs."""
    path = Path(cfg.log_path) / PAIRS
    if path.is_file():
        return
    examples = spec(cfg.env).examples(load_papers(cfg.dataset, "train"), cfg.seed)
    random.Random(cfg.seed).shuffle(examples)
    examples = examples[: cfg.rows]
    renderer_name, options = cfg.renderer(), cfg.options()
    if cfg.pairs == "gold":
        pairs = await gold_pairs(cfg.env, examples, options, renderer_of(renderer_name, cfg.model_name), cfg.seed)
    else:
        client = await asyncio.to_thread(reference_client, tinker.ServiceClient(), cfg.model_name, start)
        size = cfg.rollouts_per_example
        builders = [
            SciSciGroupBuilder(cfg.env, example, renderer_name, cfg.model_name, size, options) for example in examples
        ]
        pairs = await sampled_pairs(builders, client, cfg.max_tokens)
    write_text_atomically(path, "".join(json.dumps(asdict(pair)) + "\n" for pair in pairs))


async def _train(cfg: CLIConfig, config: train_dpo.Config) -> None:
    await store_pairs(cfg, config.load_checkpoint_path)
    # The cookbook's DPO step starts event loops of its own.
    await asyncio.to_thread(dpo_loop, config)


RECIPE = Recipe("dpo", "Prefer right answers to wrong ones.", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
