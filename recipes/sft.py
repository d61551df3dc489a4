"""Supervised fine-tuning on an environment's prompts, through `tinker_cookbook.supervised.train`.

::

    python -m scisci_gym.recipes.sft dataset=runs/data model_name=runs/model log_path=runs/sft answers=gold

`answers=gold` is the supervised baseline. `answers=random` teaches the answer format and nothing else, as the start of
an RL run that has to learn the rest by itself.
"""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import chz
import torch
from tinker_cookbook.exceptions import TinkerCookbookError
from tinker_cookbook.hyperparam_utils import get_lora_param_count
from tinker_cookbook.renderers import Message
from tinker_cookbook.supervised import train
from tinker_cookbook.supervised.data import conversation_to_datum
from tinker_cookbook.supervised.types import SupervisedDataset, SupervisedDatasetBuilder
from tinker_cookbook.utils.lr_scheduling import LRSchedule
from transformers import AutoConfig, AutoModelForCausalLM

from ..datasets.atomic_files import write_json_atomically
from ..datasets.store import load_papers
from ..envs.kit.base import Example
from ..envs.registry import make, spec
from ..envs.training.groups import renderer_of
from .kit.batches import ShuffledBatches
from .kit.compat import prepare_sft_resume
from .kit.config import RecipeConfig
from .kit.recipe import Recipe
from .kit.validation import held_out_nll

Answers = Literal["gold", "random"]
CAPACITY = "lora_capacity.json"


@chz.chz
class SupervisedEnvBuilder(SupervisedDatasetBuilder):
    """Prompts of an environment with answers to imitate; the loss is on the answers.

    Parameters
    ----------
    answers : "gold" | "random"
        ``random``: an answer drawn from all gold answers that occur, each as likely as the others.
    rows : int or None
        Examples of the training split to use; None for all.
    """

    env_id: str
    dataset: str
    renderer_name: str
    tokenizer_name: str
    options: dict = chz.field(default_factory=dict)
    answers: Answers = "gold"
    rows: int | None = None
    batch_size: int = 48
    max_length: int | None = None
    seed: int = 0

    def __call__(self) -> tuple[SupervisedDataset, SupervisedDataset | None]:
        renderer = renderer_of(self.renderer_name, self.tokenizer_name)
        # The cookbook calls builders from inside its event loop, where another loop can only run in its own thread.
        with ThreadPoolExecutor(1) as pool:
            conversations = pool.submit(asyncio.run, self.conversations("train", self.rows)).result()
        return ShuffledBatches(
            conversations,
            self.batch_size,
            lambda messages: [conversation_to_datum(messages, renderer, self.max_length)],
            "conversations",
        ), None

    async def conversations(self, split: str, rows: int | None) -> list[list[Message]]:
        """Prompts of a split with their answers, shuffled by the seed; at most `rows` of them."""
        rng = random.Random(self.seed)
        examples: list[Example] = spec(self.env_id).examples(load_papers(self.dataset, split), self.seed)
        rng.shuffle(examples)
        envs = [make(self.env_id, *example, **self.options) for example in examples[:rows]]
        distinct = sorted({env.gold_answer() for env in envs})
        conversations = []
        for env in envs:
            answer = env.gold_answer() if self.answers == "gold" else rng.choice(distinct)
            conversations.append([*await env.initial_observation(), Message(role="assistant", content=answer)])
        return conversations


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    answers: Answers = "gold"
    rows: int | None = None
    lr_schedule: LRSchedule = "linear"
    num_epochs: int = 1
    batch_size: int = 48
    max_length: int | None = 32768
    # The number of steps between two measurements of the NLL of the gold answers to validation papers, which is logged
    # as held_out/nll; 0 for none.
    nll_every: int = 0
    # Checkpoints are validated when training has ended: the loop saves them between its own evaluations.
    save_every: int = 0


def build_config(cfg: CLIConfig) -> train.Config:
    """The cookbook's configuration of these options."""
    return train.Config(
        **cfg.loop("sft"),
        dataset_builder=SupervisedEnvBuilder(
            **cfg.prompts(),
            answers=cfg.answers,
            rows=cfg.rows,
            batch_size=cfg.batch_size,
            max_length=cfg.max_length,
        ),
        lr_schedule=cfg.lr_schedule,
        num_epochs=cfg.num_epochs,
        # A step that is sent ahead would be in the checkpoint of the step before it, and be done again after a restart.
        submit_ahead=0 if cfg.save_every else 1,
        evaluator_builders=[held_out_nll(cfg)] if cfg.nll_every else [],
        eval_every=cfg.nll_every,
        infrequent_eval_every=0,
    )


@dataclass(frozen=True)
class LoraCapacity:
    """Parameters of an adapter, compared with the tokens that it is to learn.

    SFT with LoRA keeps up with full fine-tuning as long as its parameters are not fewer than the completion tokens
    (rule of thumb of Schulman et al. 2025, "LoRA Without Regret").

    Parameters
    ----------
    parameters : int or None
        None for a hosted model that the cookbook has no count for.
    completion_tokens : int
        Tokens of the answers of one epoch, which carry the loss.
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

    def to_json(self) -> dict[str, Any]:
        """What `lora_capacity.json` holds."""
        return {**asdict(self), "enough": self.enough}


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


async def _train(cfg: CLIConfig, config: train.Config) -> None:
    dataset, _ = config.dataset_builder()
    batches = (dataset.get_batch(i) for i in range(len(dataset)))
    weights = (datum.loss_fn_inputs["weights"].data for batch in batches for datum in batch)
    tokens = sum(weight > 0 for of_answer in weights for weight in of_answer)
    capacity = LoraCapacity(lora_parameters(cfg.model_name, cfg.lora_rank), tokens)
    print(capacity, flush=True)
    write_json_atomically(Path(cfg.log_path) / CAPACITY, capacity.to_json())
    if cfg.save_every:
        prepare_sft_resume(cfg.log_path, len(dataset))
    await train.main(config)


RECIPE = Recipe("sft", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
