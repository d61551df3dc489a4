"""Supervised fine-tuning on an environment's prompts, through `tinker_cookbook.supervised.train`.

::

    python -m scisci_gym.recipes.sft dataset=runs/data model_name=runs/model log_path=runs/sft answers=gold

`answers=gold` is the supervised baseline. `answers=random` teaches the answer format and nothing else: a start for an
RL run that has to learn the labels by itself.
"""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import chz
from tinker_cookbook.renderers import Message
from tinker_cookbook.supervised import train
from tinker_cookbook.supervised.data import conversation_to_datum
from tinker_cookbook.supervised.types import SupervisedDataset, SupervisedDatasetBuilder
from tinker_cookbook.utils.lr_scheduling import LRSchedule

from ..datasets.store import load_papers
from ..envs.integrations.papers import options_of
from ..envs.kit.base import Example
from ..envs.registry import make, spec
from ..envs.training.groups import renderer_of
from .kit.compat import prepare_sft_resume
from .kit.config import RecipeConfig
from .kit.recipe import Recipe
from .kit.supervised import ShuffledBatches, report_capacity
from .kit.validation import held_out_nll

Answers = Literal["gold", "random"]


@chz.chz
class SupervisedEnvBuilder(SupervisedDatasetBuilder):
    """Prompts of an environment with answers to imitate; the loss is on the answers.

    Random `answers` are drawn from the distinct gold answers, each as likely as the others. `rows` are the examples of
    the training split to use; None for all. `options` are those of the environment, which the builder completes as RL
    does (`training_options`).
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
        options = options_of(self.env_id, self.dataset, self.options)
        envs = [make(self.env_id, *example, **options) for example in examples[:rows]]
        distinct = sorted({env.gold_answer() for env in envs})
        conversations = []
        for env in envs:
            answer = env.gold_answer() if self.answers == "gold" else rng.choice(distinct)
            conversations.append([*await env.initial_observation(), Message(role="assistant", content=answer)])
        return conversations


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    answers: Answers = chz.field(
        default="gold", doc="Answers to imitate; random ones teach the format of an answer and no label."
    )
    rows: int | None = chz.field(default=None, doc="Training examples to use; None for all.")
    lr_schedule: LRSchedule = chz.field(default="linear", doc="How the learning rate falls.")
    num_epochs: int = chz.field(default=1, doc="Passes over the examples.")
    batch_size: int = chz.field(default=48, doc="Examples of an update.")
    max_length: int | None = chz.field(default=32768, doc="Longest example in tokens; longer ones are cut.")
    nll_every: int = chz.field(
        default=0,
        doc="Updates between two measurements of the NLL of the gold answers to validation papers, logged as "
        "held_out/nll; 0 for none.",
    )
    # Checkpoints are validated when training has ended: the loop saves them between its own evaluations.
    save_every: int = chz.field(default=0, doc="Updates between two checkpoints; 0 for the last one only.")


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


async def _train(cfg: CLIConfig, config: train.Config) -> None:
    dataset, _ = config.dataset_builder()
    report_capacity(cfg, dataset)
    if cfg.save_every:
        prepare_sft_resume(cfg.log_path, len(dataset))
    await train.main(config)


RECIPE = Recipe("sft", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
