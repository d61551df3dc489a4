"""The environments in verifiers 0.1: ``load_environment("disruption-v0")``.

Needs ``pip install 'scisci-gym[verifiers]'``.

An installed module is a verifiers environment if it has a function of that name:
``vf-eval scisci_gym.envs.integrations.verifiers -a '{"task": "novelty-v0"}'``.
"""

# Where verifiers is not installed, the type checker takes this file for it.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import verifiers as vf
from datasets import Dataset
from tinker_cookbook.renderers import Message

from ..kit.episodes import run_sync
from ..registry import make
from .papers import examples_of, options_of

if not hasattr(vf, "MultiTurnEnv"):
    # 0.2 and later have tasksets instead, and no `load_environment` in the module of an environment.
    raise ImportError(f"this module is for verifiers 0.1, found {vf.__version__}: pip install 'verifiers>=0.1.9,<0.2'")

ENV, REWARD, METRICS = "scisci_env", "scisci_reward", "scisci_metrics"


class SciSciVerifiersEnv(vf.MultiTurnEnv):
    """Plays an environment of the suite, made with these options, turn by turn, whatever their number."""

    def __init__(self, env_id: str, examples: list[Any], options: dict[str, Any], **kwargs: Any):
        self.scisci_id, self.examples, self.scisci_options = env_id, examples, options
        super().__init__(**kwargs)

    async def setup_state(self, state: Any) -> None:
        env = make(self.scisci_id, *self.examples[state["info"]["index"]], **self.scisci_options)
        # The prompt is in the dataset already, but an environment has to be asked for it before its first step.
        await env.initial_observation()
        state[ENV], state[REWARD], state[METRICS] = env, 0.0, dict(env.ungraded)

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        content = messages[-1]["content"] if isinstance(messages[-1], dict) else messages[-1].content
        if state["trajectory"][-1]["is_truncated"]:
            # A cut-off answer earns the floor, even if what there is of it could be parsed.
            state[ENV].abandon()
            state[REWARD], state["final_env_response"] = state[ENV].reward_range[0], []
            return []
        result = await state[ENV].step(Message(role="assistant", content=content or ""))
        state[REWARD] += result.reward
        state[METRICS].update(result.metrics)
        if result.episode_done:
            state["final_env_response"] = []
            return []
        return [vf.UserMessage(content=str(result.next_messages[-1]["content"]))]


async def reward(state: Any) -> float:
    """Return of the episode; the floor if it never ended by an answer."""
    ended = state.get("final_env_response") is not None
    return float(state[REWARD]) if ended else float(state[ENV].reward_range[0])


async def correct(state: Any) -> float:
    """1 if the answer is right."""
    return float(state[METRICS]["correct"])


async def format_valid(state: Any) -> float:
    """1 if there is an answer."""
    return float(state[METRICS]["format_valid"])


def load_environment(
    task: str = "disruption-v0", dataset: str | None = None, split: str = "train", **options: Any
) -> vf.Environment:
    """An environment of the suite as a verifiers environment.

    `task` is the id of the environment; not `env_id`: in verifiers that is the name of this module. The dataset is a
    folder that `scisci-gym build` wrote; None: the environment variable `SCISCI_GYM_DATASET`, or else the nine built-in
    papers. Further `options` are those of the environment, such as ``prompt="short"``.
    """
    examples, options = examples_of(task, dataset, split), options_of(task, dataset, options)
    rows = []
    for index, example in enumerate(examples):
        env = make(task, *example, **options)
        messages = [{"role": m["role"], "content": str(m["content"])} for m in run_sync(env.initial_observation())]
        rows.append({"prompt": messages, "answer": env.gold_label, "info": {"index": index}})
    rubric = vf.Rubric(funcs=[reward, correct, format_valid], weights=[1.0, 0.0, 0.0])
    return SciSciVerifiersEnv(task, examples, options, dataset=Dataset.from_list(rows), rubric=rubric)
