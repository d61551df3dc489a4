"""Clients of the shared engine process, and the model and adapters in this process."""

import os
from pathlib import Path

import pytest
import tinker
import torch

from scisci_gym.engine import Engine
from scisci_gym.engine.compute.adapters import AdapterWeights, DoraPair, LoraSpec, new_adapter
from scisci_gym.engine.compute.model import BaseModel


@pytest.fixture(scope="session", autouse=True)
def _single_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def service(engine: Engine) -> tinker.ServiceClient:
    """A client of the shared engine; the environment points the SDK at it until the test ends."""
    os.environ.update(engine.environment)
    return tinker.ServiceClient()


@pytest.fixture
def trainer(service: tinker.ServiceClient, tiny_model: Path) -> tinker.TrainingClient:
    return service.create_lora_training_client(base_model=str(tiny_model), rank=4, seed=7).result()


@pytest.fixture(scope="session")
def base(tiny_model: Path) -> BaseModel:
    """The model in this process, without any server."""
    return BaseModel("tiny", tiny_model, torch.device("cpu"), torch.float32)


@pytest.fixture(params=["lora", "dora"])
def adapter(base: BaseModel, request: pytest.FixtureRequest) -> AdapterWeights:
    """An adapter of either kind that has moved away from where it starts."""
    made = new_adapter(base.layers, LoraSpec(rank=4, seed=1, kind=request.param), base.device)
    generator = torch.Generator().manual_seed(2)
    for pair in made.pairs.values():
        pair.b.data = torch.randn(pair.b.shape, generator=generator) * 0.05
        if isinstance(pair, DoraPair):
            pair.magnitude.data *= 1 + 0.1 * torch.randn(pair.magnitude.shape, generator=generator)
    return made
