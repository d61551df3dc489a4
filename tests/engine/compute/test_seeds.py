"""Seeds are seeds: a run's seed decides its first weights and first samples, on an engine that serves several runs."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tinker
from tinker import types
from toy_data import random_tokens

from scisci_gym.engine import Engine, local_engine, run_seed
from scisci_gym.engine.errors import RequestError
from scisci_gym.engine.serve.client_sessions import session_seed

PROMPT = types.ModelInput.from_ints(random_tokens(10, 5))


@pytest.fixture(scope="module")
def threaded(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with local_engine({"tiny": tiny_model}, checkpoints=tmp_path_factory.mktemp("ck"), process=False) as engine:
        yield engine


def first_of(engine: Engine, **options: int) -> tuple[np.ndarray, list[list[int]], list[list[int]]]:
    """First weights of a run, its first samples from them, and its first samples from the base model."""
    assert engine.thread is not None
    service = tinker.ServiceClient()
    trainer = service.create_lora_training_client(base_model="tiny", rank=2, **options).result()
    model_id = trainer.get_info().model_id
    adapter = engine.thread.server.backend.model(model_id).adapter
    weights = np.concatenate([tensor.numpy().ravel() for tensor in adapter.named_tensors().values()])
    samplers = (
        trainer.save_weights_and_get_sampling_client().result(),
        service.create_sampling_client(base_model="tiny").result(),
    )
    samples = []
    for sampler in samplers:
        futures = [sampler.sample(PROMPT, 1, types.SamplingParams(max_tokens=8)) for _ in range(4)]
        samples.append([list(future.result().sequences[0].tokens) for future in futures])
    return weights, *samples


def test_two_seeds_differ_and_the_same_one_repeats(threaded: Engine) -> None:
    """The client sends no seed with its model or its samples, as the cookbook does not."""
    runs = {}
    for name, seed in (("a", 1), ("b", 2), ("a again", 1)):
        with run_seed(seed):
            runs[name] = first_of(threaded)
    for part in range(3):
        assert np.array_equal(runs["a"][part], runs["a again"][part])
        assert not np.array_equal(runs["a"][part], runs["b"][part])


def test_a_seed_of_the_model_goes_before_the_run_s(threaded: Engine) -> None:
    with run_seed(1):
        weights, _, from_base = first_of(threaded)
        other_weights, _, still_from_base = first_of(threaded, seed=7)
    with run_seed(2):
        same_weights, _, other_from_base = first_of(threaded, seed=7)
    assert np.array_equal(other_weights, same_weights)
    assert not np.array_equal(weights, other_weights)
    assert from_base == still_from_base != other_from_base


def test_the_tag_joins_others_and_is_removed_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_TAGS", "mine,seed=5")
    with run_seed(6):
        assert os.environ["TINKER_TAGS"] == "mine,seed=6"
    assert os.environ["TINKER_TAGS"] == "mine,seed=5"


def test_a_tag_that_is_no_seed_is_refused() -> None:
    assert session_seed(["mine", "seeds=x"]) is None
    assert session_seed(["seed=-4"]) == -4
    for bad in (["seed=x"], ["seed=1", "seed=2"], ["seed="], ["seed"]):
        with pytest.raises(RequestError, match="give one whole number"):
            session_seed(bad)
