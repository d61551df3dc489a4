"""Evaluators for the cookbook's training loops: scores and negative log-likelihood on papers outside of training."""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean
from typing import Any

import tinker
from tinker_cookbook.eval.evaluators import SamplingClientEvaluator
from tinker_cookbook.renderers import Message, Renderer
from tinker_cookbook.supervised.data import conversation_to_datum
from tinker_cookbook.supervised.nll_evaluator import SamplerNLLEvaluator

from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark
from ..envs.kit.base import SciSciEnv
from ..envs.registry import spec
from ..envs.training.groups import renderer_of
from .ask import ask
from .metrics import score

NAME = "held_out"


class ValidationScores(SamplingClientEvaluator):
    """Greedy scores on validation papers during training. Checkpoints are chosen by them, never by the test set.

    Logs ``validation/accuracy``, ``validation/macro_f1``, ``validation/mcc``, ``validation/answered``,
    ``validation/reward`` (the mean), and for every label ``validation/predicted/<label>``, its share of the answers.
    """

    def __init__(self, benchmark: SciSciBenchmark, renderer: Renderer, max_tokens: int, max_examples: int | None):
        self.benchmark, self.renderer = benchmark, renderer
        self.max_tokens, self.max_examples = max_tokens, max_examples

    async def __call__(self, sampling_client: tinker.SamplingClient) -> dict[str, float]:
        limits = {"max_tokens": self.max_tokens, "max_examples": self.max_examples}
        answers = await ask(self.benchmark, sampling_client, self.renderer, temperature=0.0, **limits)
        labels, predicted = spec(self.benchmark.env_id).labels, [answer.predicted for answer in answers]
        scores = score([answer.expected for answer in answers], predicted, labels)
        logged = {name: getattr(scores, name).value for name in ("accuracy", "macro_f1", "mcc")}
        logged |= {"answered": scores.answered, "reward": fmean(answer.reward for answer in answers)}
        logged |= {f"predicted/{label}": predicted.count(label) / len(predicted) for label in labels}
        return {f"validation/{name}": value for name, value in logged.items()}


class HeldOutNLL(SamplingClientEvaluator):
    """Mean negative log-likelihood, in nats per answer token, of an environment's gold answers to its first message.

    The cookbook's `SamplerNLLEvaluator` computes it. Every token of an answer weighs the same, the token that ends the
    turn included; prompt tokens do not count. In environments of several turns the answer is the one that supervised
    fine-tuning imitates: the gold answer, given at once.

    Logs ``held_out/nll`` (nats per token) and ``held_out/bpb`` (bits per byte of the answers, which models with
    different tokenizers can be compared by).

    `envs` are fresh episodes, whose prompts are read once; without any, ValueError is raised.
    """

    def __init__(self, envs: list[SciSciEnv], renderer: Renderer):
        if not envs:
            raise ValueError("the held-out NLL needs at least one example")
        self.envs, self.renderer = envs, renderer
        self._scorer: SamplerNLLEvaluator | None = None

    async def __call__(self, sampling_client: tinker.SamplingClient) -> dict[str, float]:
        if self._scorer is None:
            data = []
            for env in self.envs:
                conversation = [*await env.initial_observation(), Message(role="assistant", content=env.gold_answer())]
                # The default reduction weighs examples alike and not tokens.
                data.append(conversation_to_datum(conversation, self.renderer, None, reduction="none"))
            self._scorer = SamplerNLLEvaluator(data, name=NAME, tokenizer=self.renderer.tokenizer)
        return await self._scorer(sampling_client)


def held_out_nll_builder(
    env_id: str,
    dataset: str,
    options: Mapping[str, Any],
    renderer_name: str,
    tokenizer_name: str,
    max_examples: int | None,
    split: str = "validation",
) -> Callable[[], HeldOutNLL]:
    """An entry for ``evaluator_builders`` of the cookbook's supervised and RL configurations, which can be pickled.

    The evaluator's own making raises ValueError if the split has no example, and FileNotFoundError if there is no such
    dataset.

    Environment, dataset, split and options are as in `SciSciBenchmark`; options have to be those of training, or the
    prompts differ. `max_examples` are spread evenly over the split; None for all. Below 1, ValueError is raised.
    """
    if max_examples is not None and max_examples < 1:
        raise ValueError(f"max_examples must be at least 1, or None for all, got {max_examples}")
    benchmark = SciSciBenchmark(env_id, None, dataset, split, dict(options))
    return partial(_held_out_nll, benchmark, renderer_name, tokenizer_name, max_examples)


def _held_out_nll(
    benchmark: SciSciBenchmark, renderer_name: str, tokenizer_name: str, max_examples: int | None
) -> HeldOutNLL:
    return HeldOutNLL(benchmark.episodes(max_examples), renderer_of(renderer_name, tokenizer_name))
