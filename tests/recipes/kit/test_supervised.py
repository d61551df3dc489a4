"""Parameters of an adapter: by hand, as the engine counts them, and as the cookbook does."""

from pathlib import Path

import pytest
from safetensors import safe_open
from tinker_cookbook.hyperparam_utils import get_lora_param_count

from scisci_gym.engine.serve.service import local_engine
from scisci_gym.recipes.kit.supervised import LoraCapacity, lora_parameters


def test_parameters_are_those_of_the_adapter_that_the_engine_writes(tiny_model: Path, tmp_path: Path) -> None:
    import tinker

    with local_engine({}, checkpoints=tmp_path, process=False):
        service = tinker.ServiceClient()
        service.create_lora_training_client(base_model=str(tiny_model), rank=3).save_weights_for_sampler("x").result()
    found = 0
    (adapter,) = tmp_path.rglob("adapter_model.safetensors")
    with safe_open(adapter, "pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118  (not a mapping)
            shape = tensors.get_slice(name).get_shape()
            found += shape[0] * shape[1]
    assert lora_parameters(str(tiny_model), 3) == found


def test_models_that_the_cookbook_knows_are_looked_up() -> None:
    name = "meta-llama/Llama-3.1-8B"
    assert lora_parameters(name, 16) == get_lora_param_count(name, lora_rank=16)
    assert lora_parameters("nobody/knows", 16) is None


@pytest.mark.parametrize(("parameters", "enough"), [(99, False), (100, True), (None, None)])
def test_the_rule_of_thumb(parameters: int | None, enough: bool | None) -> None:
    capacity = LoraCapacity(parameters, 100)
    assert capacity.enough is enough
    assert "100 completion tokens" in str(capacity)
