"""Baselines answer in words, and the environment grades them as it grades a policy."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.store import load_papers
from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark
from ..envs.kit.answers import format_number, format_probabilities
from ..envs.kit.base import SciSciEnv
from ..envs.kit.episodes import run_sync
from ..envs.registry import make, spec
from ..envs.training.order import drawn_rows
from ..rewards import rank_share
from .ask import Answer, grade
from .embeddings import Encoder
from .learned_baselines import (
    METADATA,
    METADATA_TFIDF,
    TFIDF,
    Learner,
    embeddings,
    local_embeddings,
    predicted_numbers,
    predicted_probabilities,
)

MAJORITY, PRIOR, RANDOM = "majority class", "class prior", "uniform random"
SIMPLE = (MAJORITY, PRIOR, TFIDF.name)


@dataclass(frozen=True)
class Examples:
    """Environments of the three parts of a dataset; `test` makes fresh ones at each call."""

    train: list[SciSciEnv]
    validation: list[SciSciEnv]
    test: Callable[[], list[SciSciEnv]]

    @property
    def env_class(self) -> type[SciSciEnv]:
        return type(self.train[0])

    def prior(self) -> np.ndarray:
        """Shares of the labels in training; float (K,)."""
        count = Counter(env.gold_label for env in self.train)
        return np.array([count[label] for label in self.env_class.labels]) / len(self.train)


def examples_of(
    env_id: str,
    dataset: str,
    split: str = "test",
    options: dict[str, Any] | None = None,
    max_examples: int | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> Examples:
    """Examples of an environment in a dataset; raises ValueError if training or the split has none.

    With `rows`, training has only those examples that the recipes train on with the same `rows` and `seed`.
    """
    env_class = spec(env_id)

    def part(name: str, rows: int | None = None) -> list[SciSciEnv]:
        # The recipes draw pairs with the seed, and then so many of them.
        drawn = env_class.examples(load_papers(dataset, name), 0 if rows is None else seed)
        examples = drawn_rows(drawn, rows, seed)
        return [make(env_id, *example, **(options or {})) for example in examples]

    train = part("train", rows)
    if not train:
        raise ValueError(f"no paper of {dataset} (train) has the label that {env_id} grades against")
    benchmark = SciSciBenchmark(env_id, env_id, dataset, split, options)
    benchmark.episodes(1)
    return Examples(train, part("validation"), lambda: benchmark.episodes(max_examples))


def baseline_names(env_class: type[SciSciEnv], encoder: Encoder | None = None) -> list[str]:
    """Names of the baselines of an environment, weakest first."""
    learners = _learners(encoder)
    if env_class.asks_for == "number":
        return ["median", "training draw", RANDOM, *[learner.numeric_name for learner in learners]]
    return [MAJORITY, PRIOR, RANDOM, *[learner.name for learner in learners]]


def require_baseline(env_class: type[SciSciEnv], name: str, encoder: Encoder | None = None) -> None:
    """Raise a ValueError that names the baselines of an environment unless it has this one; see `baseline_answers`."""
    if name not in (names := [*baseline_names(env_class, encoder), METADATA_TFIDF.name]):
        raise ValueError(f"{env_class.env_id} has no baseline {name!r}; it has {', '.join(names)}")


async def baseline_answers(
    examples: Examples, name: str, encoder: Encoder | None = None, seed: int = 0
) -> list[Answer]:
    """Graded answers of one baseline to all test examples.

    - majority class: always the most common training label, with certainty. Numbers: the training median.
    - class prior: a label drawn with the shares that labels have in training; where probabilities are asked for, these
      shares. Numbers: the number of a training example drawn at random ("training draw").
    - uniform random: any label, all equally probable. Numbers: any in [-1, 1].
    - metadata only, TF-IDF, embeddings: learned from the training examples; see `learned_baselines`. MiniLM and SmolLM2
      are among them where their folders are; see `model_folders`.
    - metadata + TF-IDF: the features of both, with logistic regression; not among `baseline_names`.

    `name` is one of `baseline_names` or the last one; any other raises ValueError. The `encoder` is for embeddings, and
    the `seed` is that of the draws and of the learners.
    """
    env_class, test = examples.env_class, examples.test()
    require_baseline(env_class, name, encoder)
    if env_class.asks_for == "number":
        return await grade(test, [format_number(value) for value in _numbers(examples, test, name, encoder, seed)])
    labels, n, rng = env_class.labels, len(test), random.Random(seed)
    prior = examples.prior()
    learner = {learner.name: learner for learner in [*_learners(encoder), METADATA_TFIDF]}.get(name)
    if name == MAJORITY:
        shares = np.eye(len(labels))[[int(prior.argmax())] * n]
    elif learner is None:
        shares = np.tile(prior if name == PRIOR else np.full(len(labels), 1 / len(labels)), (n, 1))
    else:
        shares = predicted_probabilities(learner, examples.train, examples.validation, test, seed)
    if env_class.asks_for == "probabilities":
        texts = [format_probabilities(row.tolist(), labels) for row in shares]
    elif learner is None:
        texts = [env_class.answer_for(rng.choices(labels, row)[0]) for row in shares]
    else:
        texts = [env_class.answer_for(labels[int(row.argmax())]) for row in shares]
    return await grade(test, texts, shares.tolist())


def simple_baselines(
    dataset: str,
    seed: int = 0,
    split: str = "test",
    env: str = "disruption-v0",
    options: Mapping[str, Any] | None = None,
    max_examples: int | None = None,
    names: Sequence[str] = SIMPLE,
    rows: int | None = None,
) -> dict[str, list[Answer]]:
    """Answers to a split by baseline: by default the majority class, the class prior, and TF-IDF with logistic
    regression. `rows` is as in `examples_of`."""
    examples = examples_of(env, dataset, split, dict(options or {}), max_examples, rows, seed)
    return {name: run_sync(baseline_answers(examples, name, seed=seed)) for name in names}


def _numbers(
    examples: Examples, test: list[SciSciEnv], name: str, encoder: Encoder | None, seed: int
) -> Sequence[float]:
    papers, truths = (
        [[env.papers[0] for env in envs] for envs in (examples.train, examples.validation, test)],
        [[float(env.truth) for env in envs] for envs in (examples.train, examples.validation)],
    )
    n, rng = len(test), random.Random(seed)
    if name == "median":
        return [float(np.median(truths[0]))] * n
    if name == "training draw":
        return [rng.choice(truths[0]) for _ in range(n)]
    if name == RANDOM:
        return [rng.uniform(-1, 1) for _ in range(n)]
    learner = {learner.numeric_name: learner for learner in [*_learners(encoder), METADATA_TFIDF]}[name]
    if getattr(test[0], "ranks", None) is None:
        values = predicted_numbers(learner, (papers[0], truths[0]), (papers[1], truths[1]), papers[2], seed)
        return np.clip(values, -1, 1).tolist()
    # Paid by rank among the training papers, so learned by rank: the number is the training number of that rank.
    ordered = sorted(truths[0])
    ranks = [[rank_share(value, ordered) for value in values] for values in truths]
    shares = predicted_numbers(learner, (papers[0], ranks[0]), (papers[1], ranks[1]), papers[2], seed)
    return np.quantile(ordered, np.clip(shares, 0, 1), method="inverted_cdf").tolist()


def _learners(encoder: Encoder | None) -> list[Learner]:
    return [METADATA, TFIDF, *local_embeddings(), *([] if encoder is None else [embeddings(encoder)])]
