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
from pathlib import Path
from typing import Any, Literal

import chz
import tinker
import torch
from tinker_cookbook import checkpoint_utils
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.renderers import Message, Renderer, TrainOnWhat
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import TrajectoryGroup
from tinker_cookbook.supervised.common import datum_from_model_input_weights
from tinker_cookbook.supervised.types import ChatDatasetBuilder, ChatDatasetBuilderCommonConfig, SupervisedDataset
from tinker_cookbook.tokenizer_utils import get_tokenizer
from tinker_cookbook.utils import ml_log
from tinker_cookbook.utils.git_rev import recipe_user_metadata
from tinker_cookbook.utils.lr_scheduling import LRSchedule

from ..datasets.atomic_files import write_text_atomically
from ..datasets.store import load_card, load_papers
from ..envs.kit.base import Example, SciSciEnv
from ..envs.registry import make, spec
from ..envs.training.groups import SciSciGroupBuilder, renderer_of
from .kit.checkpoints import state_path
from .kit.config import RecipeConfig
from .kit.recipe import Recipe
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


AT_ONCE = 64


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt.

    Parameters
    ----------
    prompt : list of int
        Tokens of the conversation so far.
    chosen, rejected : list of int
        Tokens of the better and the worse answer.
    """

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]


async def gold_pairs(
    env_id: str, examples: Sequence[Example], options: dict[str, Any], renderer: Renderer, seed: int
) -> list[Pair]:
    """One pair for every example, from the environment alone.

    Environments of one turn: the right answer against a wrong one drawn by the seed. Environments with a challenge:
    half of the conversations begin with the right label, and holding it is preferred to flipping; half begin with a
    wrong one, and revising is preferred to holding. So neither "always hold" nor "always flip" is preferred. Both
    answers of a pair give the same quotes: the difference is the label.

    Raises
    ------
    ValueError
        If the environment's answers are not labels, or two policies take part in it.
    """
    env_class = spec(env_id)
    if env_class.asks_for == "number" or env_id.startswith("disruption-selfplay"):
        raise ValueError(
            f"{env_id} offers no pairs of a right and a wrong answer; use pairs=sampled, or for self-play train on "
            "disruption-adversarial-v0"
        )
    rng = random.Random(seed)
    pairs = []
    for at, example in enumerate(examples):
        drawn = {**options, "seed": seed * 1_000_003 + at} if "seed" in env_class.option_names() else options
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
    whole, weights = renderer.build_supervised_example(
        [*messages, Message(role="assistant", content=answer)], TrainOnWhat.LAST_ASSISTANT_MESSAGE
    )
    tokens = whole.to_ints()
    start = next(at for at, weight in enumerate(weights.tolist()) if weight > 0)
    return tokens[:start], tokens[start:]


async def sampled_pairs(
    builders: Sequence[SciSciGroupBuilder], client: tinker.SamplingClient, max_tokens: int
) -> list[Pair]:
    """Pairs from a policy's own answers at temperature 1: for every turn that several rollouts of a group came to by
    the same conversation, the best-paid answer against the worst-paid one, if their rewards differ.

    In the adversarial environment the second turns give "held against flipped" pairs.

    Parameters
    ----------
    builders : sequence of SciSciGroupBuilder
        Their group size is the number of rollouts of each example.
    """
    policy = TinkerTokenCompleter(client, max_tokens=max_tokens)
    gate = asyncio.Semaphore(AT_ONCE)

    async def play(builder: SciSciGroupBuilder) -> TrajectoryGroup:
        async with gate:
            return await do_group_rollout(builder, policy)

    groups = await asyncio.gather(*map(play, builders))
    return [pair for group in groups for pair in pairs_of_group(group)]


def pairs_of_group(group: TrajectoryGroup) -> list[Pair]:
    """The pairs of one group; at most one for every conversation that occurs in it."""
    answers: defaultdict[tuple[int, ...], list[tuple[float, list[int]]]] = defaultdict(list)
    for trajectory, reward in zip(group.trajectories_G, group.get_total_rewards(), strict=True):
        for step in trajectory.transitions:
            answers[tuple(step.ob.to_ints())].append((reward, list(step.ac.tokens)))
    pairs = []
    for prompt, given in answers.items():
        best, worst = max(given, key=_reward), min(given, key=_reward)
        if best[0] > worst[0] and best[1] != worst[1]:
            pairs.append(Pair(list(prompt), best[1], worst[1]))
    return pairs


def _reward(answer: tuple[float, list[int]]) -> float:
    return answer[0]


def reference_client(service: tinker.ServiceClient, model_name: str, start: str | None) -> tinker.SamplingClient:
    """A sampling client of the weights that training starts from.

    Parameters
    ----------
    start : str or None
        ``tinker://`` path of a training state; None for the base model.
    """
    if start is None:
        return service.create_sampling_client(base_model=model_name)
    return service.create_training_client_from_state(start).result().save_weights_and_get_sampling_client()


def dpo_loop(config: train_dpo.Config) -> None:
    """Train to the end, from the last checkpoint in `log_path` if there is one."""
    last = checkpoint_utils.get_last_checkpoint(config.log_path)
    logger = ml_log.setup_logging(
        log_dir=config.log_path,
        wandb_project=config.wandb_project,
        wandb_name=config.wandb_name,
        config=config,
        do_configure_logging_module=True,
    )
    service = tinker.ServiceClient(base_url=config.base_url, user_metadata=recipe_user_metadata(config.recipe_name))
    metadata: dict[str, str] = {}
    checkpoint_utils.add_renderer_name_to_user_metadata(metadata, config.renderer_name)
    client = _training_client(config, service, last, metadata)
    reference = reference_client(service, config.model_name, config.load_checkpoint_path)
    saves = checkpoint_utils.CheckpointManager(
        training_client=client,
        service_client=service,
        log_path=config.log_path,
        save_every=config.save_every,
        ttl_seconds=config.ttl_seconds,
        store=logger.store,
    )
    dataset, _ = config.dataset_builder()
    batches = len(dataset)
    total = batches * config.num_epochs
    evaluators = [build() for build in config.evaluator_builders]
    first = 0 if last is None else (last.epoch or 0) * batches + (last.batch or 0)
    epoch = -1
    for step in range(first, total):
        if step // batches != epoch:
            epoch = step // batches
            dataset.set_epoch(seed=epoch)
        train_dpo.do_update(
            epoch_idx=epoch,
            batch_idx=step % batches,
            n_batches=batches,
            total_steps=total,
            config=config,
            training_client=client,
            reference_client=reference,
            evaluators=evaluators,
            infrequent_evaluators=[],
            dataset=dataset,
            ml_logger=logger,
            log_path=config.log_path,
            tokenizer=get_tokenizer(config.model_name),
            checkpoint_mgr=saves,
        )
    if first < total:
        saves.save_final(loop_state={"epoch": config.num_epochs, "batch": 0})
    else:
        saves.finalize()
    logger.close()


def _training_client(
    config: train_dpo.Config,
    service: tinker.ServiceClient,
    last: checkpoint_utils.CheckpointRecord | None,
    metadata: dict[str, str],
) -> tinker.TrainingClient:
    if last is not None and last.state_path is not None:
        return service.create_training_client_from_state_with_optimizer(
            last.state_path, user_metadata=metadata
        ).result()
    if config.load_checkpoint_path:
        return service.create_training_client_from_state(config.load_checkpoint_path, user_metadata=metadata).result()
    return service.create_lora_training_client(
        base_model=config.model_name, rank=config.lora_rank, user_metadata=metadata
    ).result()
