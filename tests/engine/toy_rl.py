"""A toy RL run with the real cookbook loop; also a program, so that a test can kill it.

python toy_rl.py MODEL LOG_PATH CHECKPOINTS STEPS
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chz
from tinker_cookbook.renderers import Message, Renderer
from tinker_cookbook.rl import train
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDataset, RLDatasetBuilder

sys.path.insert(0, str(Path(__file__).parent))
from toy_data import make_prompts

from scisci_gym.engine import local_engine
from scisci_gym.envs.training.groups import renderer_of


class LongAnswer(MessageEnv):
    """One turn; the reward is the share of letters a in the answer."""

    def __init__(self, question: str) -> None:
        self.question = question

    async def initial_observation(self) -> list[Message]:
        return [{"role": "user", "content": self.question}]

    async def step(self, message: Message) -> MessageStepResult:
        text = str(message["content"])
        reward = text.count("a") / max(len(text), 1)
        return MessageStepResult(reward=reward, episode_done=True, next_messages=[], metrics={"letters": len(text)})


class Group(EnvGroupBuilder):
    def __init__(self, question: str, renderer: Renderer) -> None:
        self.question, self.renderer = question, renderer

    async def make_envs(self) -> Sequence[Env]:
        return [EnvFromMessageEnv(renderer=self.renderer, message_env=LongAnswer(self.question)) for _ in range(4)]


class Questions(RLDataset):
    def __init__(self, steps: int, renderer: Renderer) -> None:
        self.steps, self.renderer = steps, renderer
        self.questions = make_prompts(steps * 4, seed=11)

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return [Group(q, self.renderer) for q in self.questions[4 * index : 4 * index + 4]]

    def __len__(self) -> int:
        return self.steps


@chz.chz
class QuestionsBuilder(RLDatasetBuilder):
    model: str
    steps: int

    async def __call__(self) -> tuple[RLDataset, None]:
        renderer = renderer_of("qwen3_instruct", self.model)
        return Questions(self.steps, renderer), None


def config(model: str, log_path: str, steps: int, **options: Any) -> train.Config:
    """A run of `steps` steps of 4 groups of 4."""
    return train.Config(
        learning_rate=2e-3,
        dataset_builder=QuestionsBuilder(model=model, steps=steps),
        model_name=model,
        recipe_name="engine_test",
        renderer_name="qwen3_instruct",
        max_tokens=5,
        log_path=log_path,
        eval_every=0,
        lora_rank=4,
        **options,
    )


if __name__ == "__main__":
    model, log_path, checkpoints, steps = sys.argv[1:]
    with local_engine(checkpoints=checkpoints):
        asyncio.run(train.main(config(model, log_path, int(steps), save_every=1)))
