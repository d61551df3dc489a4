"""Direct preference optimisation (Rafailov et al. 2023) on pairs that an environment's grading makes.

::

    python -m scisci_gym.recipes.dpo dataset=runs/data model_name=runs/model log_path=runs/dpo pairs=sampled

`pairs=gold` sets right answers against wrong ones; `pairs=sampled` takes both from the policy itself.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import chz
import tinker
import torch
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.renderers import Message, Renderer, TrainOnWhat
from tinker_cookbook.rl.types import TrajectoryGroup
from tinker_cookbook.supervised.common import datum_from_model_input_weights
from tinker_cookbook.supervised.types import ChatDatasetBuilder, ChatDatasetBuilderCommonConfig, SupervisedDataset
from tinker_cookbook.utils.lr_scheduling import LRSchedule

from ..datasets.atomic_files import write_text_atomically
from ..datasets.store import load_papers
from ..envs.integrations.papers import options_of
from ..envs.kit.base import Example, SciSciEnv
from ..envs.kit.renderers import registered_name
from ..envs.registry import make, spec
from ..envs.training.groups import renderer_of
from .kit.compat import dpo_reference_of_the_start
from .kit.config import RecipeConfig
from .kit.recipe import Recipe
from .kit.rollouts import sampled_groups
from .kit.supervised import ShuffledBatches
from .kit.validation import validation_builders

PAIRS = "pairs.jsonl"


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    pairs: Literal["gold", "sampled"] = chz.field(
        default="gold", doc="Pairs of right and wrong answers, or of the policy's own best-paid and worst-paid answers."
    )
    rollouts_per_example: int = chz.field(default=8, doc="Answers to each example with pairs=sampled.")
    rows: int | None = chz.field(default=None, doc="Training examples to use; None for all.")
    dpo_beta: float = chz.field(default=0.1, doc="Beta of the DPO loss.")
    lr_schedule: LRSchedule = chz.field(default="linear", doc="How the learning rate falls.")
    num_epochs: int = chz.field(default=1, doc="Passes over the pairs.")
    batch_size: int = chz.field(default=32, doc="Pairs of an update.")
    max_length: int | None = chz.field(default=32768, doc="Longest conversation in tokens; longer ones are cut.")


def build_config(cfg: CLIConfig) -> train_dpo.Config:
    """The cookbook's configuration of these options.

    Raises `ValueError` if the environment does not exist, or does not offer the pairs that are asked for.
    """
    shared = cfg.loop("dpo")
    require_pairs(cfg)
    common = ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer=cfg.model_name,
        renderer_name=registered_name(cfg.renderer()),
        max_length=cfg.max_length,
        batch_size=cfg.batch_size,
    )
    return train_dpo.Config(
        **shared,
        dataset_builder=StoredPairs(
            common_config=common, log_path=cfg.log_path, batch_size=cfg.batch_size, max_length=cfg.max_length
        ),
        lr_schedule=cfg.lr_schedule,
        num_epochs=cfg.num_epochs,
        dpo_beta=cfg.dpo_beta,
        evaluator_builders=[*validation_builders(cfg)],
        eval_every=cfg.eval_every if cfg.validation_examples != 0 else 0,
        infrequent_eval_every=0,
    )


def require_pairs(cfg: CLIConfig) -> None:
    """Raise a ValueError, which says what to do, unless the environment offers the pairs that are asked for."""
    spec(cfg.env)
    if cfg.pairs == "gold":
        _require_gold_pairs(cfg.env)


def _require_gold_pairs(env_id: str) -> None:
    if spec(env_id).asks_for == "number" or env_id.startswith("disruption-selfplay"):
        raise ValueError(
            f"{env_id} offers no pairs of a right and a wrong answer; use pairs=sampled, or for self-play train on "
            "disruption-adversarial-v0"
        )


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt, of which `chosen` is preferred to `rejected`; all three are token ids."""

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]

    def datums(self, max_length: int | None) -> list[tinker.Datum]:
        """The datum of the chosen answer, then that of the rejected one, as the DPO loop expects them."""
        data = []
        for answer in (self.chosen, self.rejected):
            weights = torch.tensor([0.0] * len(self.prompt) + [1.0] * len(answer))
            tokens = tinker.ModelInput.from_ints(self.prompt + answer)
            data.append(datum_from_model_input_weights(tokens, weights, max_length))
        return data


@chz.chz
class StoredPairs(ChatDatasetBuilder):
    """The pairs in a run's folder."""

    log_path: str
    batch_size: int
    max_length: int | None

    def __call__(self) -> tuple[SupervisedDataset, SupervisedDataset | None]:
        lines = (Path(self.log_path) / PAIRS).read_text().splitlines()
        pairs = [Pair(**json.loads(line)) for line in lines]
        return ShuffledBatches(pairs, self.batch_size, lambda pair: pair.datums(self.max_length), "pairs"), None


async def store_pairs(cfg: CLIConfig, start: str | None) -> None:
    """Write `pairs.jsonl` into the run's folder. A resumed run keeps the file and trains on the same pairs.

    They are `gold_pairs`, or `pairs_of_group` of answers by the policy of the state `start` (None for the base model).
    """
    path = Path(cfg.log_path) / PAIRS
    if path.is_file():
        return
    examples = spec(cfg.env).examples(load_papers(cfg.dataset, "train"), cfg.seed)
    random.Random(cfg.seed).shuffle(examples)
    examples = examples[: cfg.rows]
    if cfg.pairs == "sampled":
        groups = await sampled_groups(cfg, start, examples, cfg.rollouts_per_example)
        pairs = [pair for group in groups for pair in pairs_of_group(group)]
    else:
        renderer = renderer_of(cfg.renderer(), cfg.model_name)
        options = options_of(cfg.env, cfg.dataset, cfg.options())
        pairs = await gold_pairs(cfg.env, examples, options, renderer, cfg.seed)
    write_text_atomically(path, "".join(json.dumps(asdict(pair)) + "\n" for pair in pairs))


async def gold_pairs(
    env_id: str, examples: Sequence[Example], options: dict[str, Any], renderer: Renderer, seed: int
) -> list[Pair]:
    """One pair for every example, from the environment alone.

    Environments of one turn: the right answer against a wrong one drawn by the seed. Environments with a challenge:
    half of the conversations begin with the right label, and holding it is preferred to flipping; half begin with a
    wrong one, and revising is preferred to holding. So neither "always hold" nor "always flip" is preferred. Both
    answers of a pair give the same quotes and differ in the label only.

    Raises `ValueError` if the environment's answers are not labels, or two policies take part in it.
    """
    _require_gold_pairs(env_id)
    env_class = spec(env_id)
    rng = random.Random(seed)
    pairs = []
    for i, example in enumerate(examples):
        drawn = {**options, "seed": seed * 1_000_003 + i} if "seed" in env_class.option_names() else options
        env = make(env_id, *example, **drawn)
        messages, wrong = await _to_the_last_turn(env, rng)
        right = env.gold_answer()
        worse = right.replace(env.answer_for(env.gold_label), env.answer_for(wrong))
        prompt, chosen = _tokens(renderer, messages, right)
        pairs.append(Pair(prompt, chosen, _tokens(renderer, messages, worse)[1]))
    return pairs


async def _to_the_last_turn(env: SciSciEnv, rng: random.Random) -> tuple[list[Message], str]:
    """The conversation before the last answer, and the label of the worse answer."""
    messages = await env.initial_observation()
    wrong = rng.choice([label for label in env.labels if label != env.gold_label])
    first = rng.choice([env.gold_label, wrong])
    if env.turns == 1:
        return messages, wrong
    result = await env.step(Message(role="assistant", content=env.answer_for(first)))
    return result.next_messages, wrong


def _tokens(renderer: Renderer, messages: list[Message], answer: str) -> tuple[list[int], list[int]]:
    conversation, weights = renderer.build_supervised_example(
        [*messages, Message(role="assistant", content=answer)], TrainOnWhat.LAST_ASSISTANT_MESSAGE
    )
    tokens = conversation.to_ints()
    start = next(i for i, weight in enumerate(weights.tolist()) if weight > 0)
    return tokens[:start], tokens[start:]


def pairs_of_group(group: TrajectoryGroup) -> list[Pair]:
    """At most one pair for every conversation to which several rollouts of a group came: the answer with the highest
    reward against the one with the lowest, if these differ.

    In the adversarial environment the second turns give pairs of an answer that held and one that flipped.
    """
    answers: defaultdict[tuple[int, ...], list[tuple[float, list[int]]]] = defaultdict(list)
    for trajectory, reward in zip(group.trajectories_G, group.get_total_rewards(), strict=True):
        for step in trajectory.transitions:
            answers[tuple(step.ob.to_ints())].append((reward, list(step.ac.tokens)))
    pairs = []
    for prompt, rewarded in answers.items():
        best, worst = max(rewarded, key=itemgetter(0)), min(rewarded, key=itemgetter(0))
        if best[0] > worst[0] and best[1] != worst[1]:
            pairs.append(Pair(list(prompt), best[1], worst[1]))
    return pairs


async def _train(cfg: CLIConfig, config: train_dpo.Config) -> None:
    await store_pairs(cfg, config.load_checkpoint_path)
    with dpo_reference_of_the_start():
        # The cookbook's DPO step starts event loops of its own, which it cannot do inside this one.
        await asyncio.to_thread(train_dpo.main, config)


RECIPE = Recipe("dpo", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
