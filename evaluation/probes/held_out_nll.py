"""Negative log-likelihood of the gold answers of papers that training does not see, measured during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tinker
from tinker_cookbook.eval.evaluators import SamplingClientEvaluator
from tinker_cookbook.renderers import Message, Renderer
from tinker_cookbook.supervised.data import conversation_to_datum
from tinker_cookbook.supervised.nll_evaluator import SamplerNLLEvaluator

from ...envs.integrations.cookbook_benchmarks import SciSciBenchmark, benchmark_name
from ...envs.kit.base import SciSciEnv
from ...envs.training.groups import renderer_of

NAME = "held_out"


class HeldOutNLL(SamplingClientEvaluator):
    """Mean NLL, in nats per answer token, of an environment's gold answers to its first message.

    Scored by the cookbook's `SamplerNLLEvaluator`. Every token of an answer weighs the same, the token that ends the
    turn included; prompt tokens do not count. In environments of several turns it is the answer that supervised
    fine-tuning imitates: the gold answer, given at once.

    Logs ``held_out/nll`` (nats per token) and ``held_out/bpb`` (bits per byte of the answers, which models with
    different tokenizers can be compared by).

    Parameters
    ----------
    envs : list of SciSciEnv
        Fresh episodes; their prompts are read once.
    renderer : Renderer
    max_length : int or None
        Longest sequence in tokens, as in training. A longer one is cut from its end.
    """

    def __init__(self, envs: list[SciSciEnv], renderer: Renderer, max_length: int | None = None):
        if not envs:
            raise ValueError("the held-out NLL needs at least one example")
        self.envs, self.renderer, self.max_length = envs, renderer, max_length
        self._scorer: SamplerNLLEvaluator | None = None

    async def __call__(self, sampling_client: tinker.SamplingClient) -> dict[str, float]:
        if self._scorer is None:
            data = [await self._datum(env) for env in self.envs]
            self._scorer = SamplerNLLEvaluator(data, name=NAME, tokenizer=self.renderer.tokenizer)
        return await self._scorer(sampling_client)

    async def _datum(self, env: SciSciEnv) -> tinker.Datum:
        conversation = [*await env.initial_observation(), Message(role="assistant", content=env.gold_answer())]
        # The default reduction weighs examples alike and not tokens.
        return conversation_to_datum(conversation, self.renderer, self.max_length, reduction="none")


@dataclass(frozen=True)
class HeldOutNLLBuilder:
    """Makes a `HeldOutNLL` when a training loop of the cookbook asks for its evaluators. Can be pickled.

    Parameters
    ----------
    env_id, dataset, options : as in `SciSciBenchmark`
    renderer_name, tokenizer_name : str
    max_examples : int or None
        Examples, spread evenly over the split; None for all.
    split : str
    max_length : int or None
    """

    env_id: str
    dataset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    renderer_name: str = ""
    tokenizer_name: str = ""
    max_examples: int | None = None
    split: str = "validation"
    max_length: int | None = None

    def __call__(self) -> HeldOutNLL:
        name = benchmark_name(self.env_id)
        benchmark = SciSciBenchmark(self.env_id, name, self.dataset, self.split, dict(self.options))
        envs = benchmark.episodes(self.max_examples)
        return HeldOutNLL(envs, renderer_of(self.renderer_name, self.tokenizer_name), self.max_length)


def held_out_nll_builder(
    env_id: str,
    dataset: str,
    options: Mapping[str, Any],
    renderer_name: str,
    tokenizer_name: str,
    max_examples: int | None,
    split: str = "validation",
    max_length: int | None = None,
) -> Callable[[], HeldOutNLL]:
    """An entry for ``evaluator_builders`` of the cookbook's supervised and RL configurations.

    Parameters
    ----------
    env_id : str
    dataset : str
        Folder that `scisci-gym build` wrote.
    options : mapping
        Options of the environment; the same as in training, or the prompts differ.
    renderer_name, tokenizer_name : str
    max_examples : int or None
        Examples, spread evenly over the split; None for all.
    split : "validation" | "test" | "train"
    max_length : int or None
        Longest sequence in tokens.

    Returns
    -------
    callable without arguments that makes the evaluator. It raises ValueError if the split has no example, and
    FileNotFoundError if there is no such dataset.
    """
    if max_examples is not None and max_examples < 1:
        raise ValueError(f"max_examples must be at least 1, or None for all, got {max_examples}")
    return HeldOutNLLBuilder(
        env_id, dataset, dict(options), renderer_name, tokenizer_name, max_examples, split, max_length
    )
