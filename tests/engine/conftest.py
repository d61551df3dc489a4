"""One tiny model and one engine process for all tests of this folder."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tinker
import torch

from scisci_gym.engine import Engine, local_engine
from scisci_gym.engine.adapters import AdapterWeights, new_adapter
from scisci_gym.engine.dora import DoraPair
from scisci_gym.engine.init_model import init_model
from scisci_gym.engine.lora import LoraSpec
from scisci_gym.engine.model import BaseModel

# Tests are imported one by one (importlib mode): a module that they share must be put on the path.
sys.path.insert(0, str(Path(__file__).parent))
from toy_data import LABELS, make_prompts


@pytest.fixture(scope="session", autouse=True)
def _single_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of two small layers that has learned to answer with a label."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    init_model(
        folder,
        make_prompts(200, seed=0),
        whole_words=LABELS,
        steps=60,
        batch_size=8,
        vocab_size=400,
        hidden_size=32,
        intermediate_size=64,
        max_positions=512,
        progress=False,
    )
    return folder


@pytest.fixture(scope="session")
def engine(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine process; the environment points the SDK at it for the whole session."""
    log = tmp_path_factory.mktemp("log") / "engine.log"
    with local_engine({"tiny": tiny_model}, checkpoints=tmp_path_factory.mktemp("checkpoints"), log=log) as running:
        yield running
    assert running.api_key not in log.read_text(), "the key is in the log"


@pytest.fixture
def service(engine: Engine) -> tinker.ServiceClient:
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
