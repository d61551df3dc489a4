"""Asking policies the questions of a benchmark; the environment grades every answer."""

import asyncio
import itertools
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from scipy.special import softmax
from tinker_cookbook.eval.benchmarks import BenchmarkConfig, load_trajectories, run_benchmark
from tinker_cookbook.renderers import Message, Renderer

from ..datasets.atomic_files import drop_torn_lines
from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark, benchmark_name
from ..envs.kit.base import SciSciEnv
from ..envs.kit.episodes import play_episode
from ..envs.training.groups import renderer_of
from .compat import keep_whole_answers

CONCURRENCY = 256
# So many questions wait for each other where a model runs on a laptop: the cookbook's five minutes are too short.
TIMEOUT_SECONDS = 6 * 3600
CHUNK = 128


@dataclass(frozen=True)
class Answer:
    """A graded answer to one example.

    `predicted` is "" where no label could be parsed, `text` the last message, and `year` that of publication.
    `probabilities`, one for each of the environment's labels, are stated in the answer or measured beside it; None
    without any.
    """

    example_id: str
    expected: str
    predicted: str
    text: str
    reward: float = float("nan")
    probabilities: tuple[float, ...] | None = None
    year: int = 0


@dataclass(frozen=True)
class Task:
    """An environment (`env` and `options` as in `make`) over a dataset, as the models of a family are asked about it.

    `max_tokens` is the largest number of tokens in an answer.
    """

    env: str
    options: dict[str, Any]
    dataset: str
    model_name: str
    renderer_name: str
    max_tokens: int

    def benchmark(self, split: str) -> SciSciBenchmark:
        return SciSciBenchmark(self.env, benchmark_name(self.env), self.dataset, split, self.options)


@dataclass(frozen=True)
class Policy:
    """A checkpoint (`sampler_path`, ``tinker://...``) or, with None, the base model itself; `name` is for tables."""

    name: str
    sampler_path: str | None = None

    async def client(self, task: Task) -> tinker.SamplingClient:
        """A client that samples from the policy; the engine must be open."""
        service = tinker.ServiceClient()
        return await service.create_sampling_client(base_model=task.model_name, model_path=self.sampler_path)


def answer_of(
    env: SciSciEnv, text: str, logs: Mapping[str, Any], reward: float, probabilities: Sequence[float] | None = None
) -> Answer:
    """The answer of a finished episode, from what the environment logged about it.

    Where an environment asks for probabilities, only those count that it parsed out of the answer.
    """
    if env.asks_for == "probabilities":
        found: list[Any] = [logs.get(f"p_{label}") for label in env.labels]
        probabilities = None if None in found else found
    stated = None if probabilities is None else tuple(map(float, probabilities))
    predicted, year = str(logs.get("predicted", "")), env.papers[0].publication_year
    return Answer(env.example_id, env.gold_label, predicted, text, reward, stated, year)


async def grade(
    envs: Sequence[SciSciEnv], texts: Sequence[str], probabilities: Sequence[Sequence[float]] | None = None
) -> list[Answer]:
    """Graded answers to N fresh environments from N texts, which environments of several turns get in each turn.

    `probabilities`, N sequences of K floats, are for environments whose answers do not state them.
    """
    answers = []
    for env, text, row in zip(envs, texts, probabilities or [None] * len(envs), strict=True):
        episode = await play_episode(env, text)
        answers.append(answer_of(env, text, episode.result.logs, episode.reward, row))
    return answers


async def ask(
    benchmark: SciSciBenchmark,
    client: tinker.SamplingClient,
    renderer: Renderer,
    *,
    max_tokens: int,
    temperature: float,
    max_examples: int | None = None,
    save_dir: str | Path | None = None,
) -> list[Answer]:
    """Answers of a policy to a benchmark, in its order, through the cookbook's `run_benchmark`.

    At temperature 0 answers are greedy. `max_examples` are spread evenly over the split; None for all. The runner keeps
    its trajectories in the folder `save_dir`; examples that are answered there are not asked again.

    Raises `RuntimeError` if an example failed for a technical reason. Such an example is not a wrong answer and must
    not pass for one.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(save_dir or scratch)
        keep_whole_answers(Path(folder), benchmark.name)
        limits = {"max_tokens": max_tokens, "max_examples": max_examples, "concurrency": CONCURRENCY}
        config = BenchmarkConfig(temperature=temperature, save_dir=folder, timeout_seconds=TIMEOUT_SECONDS, **limits)
        result = await run_benchmark(benchmark, client, renderer, config)
        stored = {trajectory.example_id: trajectory for trajectory in load_trajectories(folder, benchmark.name)}
        if result.num_errors:
            failed = next(trajectory for trajectory in stored.values() if trajectory.error)
            raise RuntimeError(
                f"{result.num_errors} of {result.num_examples} examples of {benchmark.name} failed, the first "
                f"({failed.example_id}) with: {failed.error}"
            )
    answers = []
    for env in benchmark.episodes(max_examples):
        trajectory = stored[env.example_id]
        text = ""
        for asked, said in itertools.pairwise(trajectory.turns):
            if said.role == "assistant":
                # Some templates write the beginning of the thinking block themselves.
                text = ("<think>" if asked.content.rstrip().endswith("<think>") else "") + said.content
        # An episode that was cut off has no metrics: it earned the lowest reward.
        reward = float(trajectory.metrics.get("env_reward", env.reward_range[0]))
        answers.append(answer_of(env, text, trajectory.logs, reward))
    return answers


async def policy_answers(
    task: Task,
    policy: Policy,
    split: str = "test",
    *,
    temperature: float = 0.0,
    max_examples: int | None = None,
    save_dir: Path | None = None,
) -> list[Answer]:
    """`ask` for a policy and a task, greedy by default."""
    return await ask(
        task.benchmark(split),
        await policy.client(task),
        renderer_of(task.renderer_name, task.model_name),
        max_tokens=task.max_tokens,
        temperature=temperature,
        max_examples=max_examples,
        save_dir=save_dir,
    )


async def label_probabilities(
    client: tinker.SamplingClient,
    renderer: Renderer,
    envs: Sequence[SciSciEnv],
    labels: Sequence[str],
    path: Path | None = None,
) -> np.ndarray:
    """Probability of each label's answer as the first thing the policy says, relative to those of the other labels.

    For every label the log-probabilities of its answer (`answer_for`, with the end of the turn) given the prompt are
    added up; the sums are normalised over the labels. What a policy would reason before it answers is left out, so for
    a policy that reasons this is its first impression.

    Of N fresh environments only the first observations are used. Rows are kept in the JSONL file `path`, some examples
    at a time; examples that it holds are not asked again. Returns a float array (N, K) whose rows sum to 1.
    """
    rows: dict[str, list[float]] = {}
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            drop_torn_lines(path)
            rows = {row["example_id"]: row["probabilities"] for row in map(json.loads, path.read_text().splitlines())}
    missing = [env for env in envs if env.example_id not in rows]
    turn = asyncio.Semaphore(CONCURRENCY)

    async def log_probability(prompt: list[Message], answer: str) -> float:
        conversation = [*prompt, Message(role="assistant", content=answer)]
        tokens, weights = renderer.build_supervised_example(conversation)
        async with turn:
            values = await client.compute_logprobs(tokens)
        return sum(v for v, weight in zip(values, weights.tolist(), strict=True) if weight and v is not None)

    for start in range(0, len(missing), CHUNK):
        chunk = missing[start : start + CHUNK]
        prompts = [await env.initial_observation() for env in chunk]
        questions = [
            (prompt, env.answer_for(label)) for env, prompt in zip(chunk, prompts, strict=True) for label in labels
        ]
        sums = np.array(await asyncio.gather(*(log_probability(*question) for question in questions)), dtype=float)
        shares = softmax(sums.reshape(len(chunk), len(labels)), axis=1)
        new = dict(zip((env.example_id for env in chunk), shares.tolist(), strict=True))
        rows |= new
        if path is not None:
            with path.open("a") as file:
                lines = (json.dumps({"example_id": name, "probabilities": row}) for name, row in new.items())
                file.writelines(f"{line}\n" for line in lines)
    return np.array([rows[env.example_id] for env in envs])
