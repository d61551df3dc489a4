"""The self-check at loading: right models pass in every number format, decoders with planted faults do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from families import DECODER
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from scisci_gym.engine.compute import model
from scisci_gym.engine.compute.attention import PromptUnits
from scisci_gym.engine.compute.loading import load_model
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.self_check import computing_in_float32, decoding_fault

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
CPU = torch.device("cpu")
WINDOW = 16


@pytest.fixture(scope="module")
def folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a window in every layer. Its weights are large, so that it is as sure of its next token as a
    real model, and as noisy in 16 bits.
    """
    out = tmp_path_factory.mktemp("models") / "mistral"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = AutoModelForCausalLM.from_config(CONFIG_MAPPING["mistral"](**{**DECODER, "sliding_window": WINDOW}))
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.ndim == 2:
                parameter *= 100 if "lm_head" in name else 12
    net.save_pretrained(out)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (out / file).write_text((tiny_model / file).read_text())
    return out


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_right_model_passes(dtype: torch.dtype, folder: Path) -> None:
    base = load_model("sure", folder, CPU, dtype)
    assert not base.plain
    assert {p.dtype for p in base.net.parameters()} == {dtype}


def test_a_real_models_noise_is_no_fault(folder: Path) -> None:
    """In bfloat16 two right computations differ by more than any fixed tolerance would allow."""
    base = BaseModel("sure", folder, CPU, torch.bfloat16)
    tokens = torch.arange(28)[None] * 7919 % base.vocab_size
    with torch.no_grad():
        narrow = base.logits(tokens, torch.arange(28)).log_softmax(-1)
        with computing_in_float32(base.net):
            wide = base.logits(tokens, torch.arange(28)).log_softmax(-1)
    assert (narrow - wide).abs().max() > 0.25
    assert decoding_fault(base) is None


def hide_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    own = BaseModel.decoding_mask

    def mask(base: BaseModel, slots: torch.Tensor, query: torch.Tensor) -> Any:
        seen = own(base, slots, query)
        assert isinstance(seen, torch.Tensor)
        return seen & (slots != query[:, None] - 2)[:, None, None, :]

    monkeypatch.setattr(BaseModel, "decoding_mask", mask)


def show_the_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    own = BaseModel.decoding_mask

    def mask(base: BaseModel, slots: torch.Tensor, query: torch.Tensor) -> Any:
        return own(base, torch.where(slots < 0, query[:, None], slots), query)

    monkeypatch.setattr(BaseModel, "decoding_mask", mask)


def shift_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    own = BaseModel.logits

    def logits(base: BaseModel, *args: Any, positions: torch.Tensor | None = None, **kwargs: Any) -> torch.Tensor:
        return own(base, *args, positions=None if positions is None else positions + 1, **kwargs)

    monkeypatch.setattr(BaseModel, "logits", logits)


def forget_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_sliding_window", lambda config: None)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("plant", [hide_a_token, show_the_padding, shift_positions, forget_the_window])
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    dtype: torch.dtype,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plant(monkeypatch)
    assert load_model("wrong", folder, CPU, dtype).plain
    assert "decoding with a cache differs from its own attention by" in caplog.text


def test_a_fault_of_one_number_format_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right in float32, wrong in bfloat16: the attention's weights go to other tokens."""
    own = PromptUnits.mix

    def turned_round(units: PromptUnits, weights: torch.Tensor) -> torch.Tensor:
        return own(units, weights.flip(-1) if weights.dtype == torch.bfloat16 else weights)

    monkeypatch.setattr(PromptUnits, "mix", turned_round)
    base = BaseModel("sure", folder, CPU, torch.bfloat16)
    fault = decoding_fault(base)
    assert fault is not None
    assert "decoding with a cache in torch.bfloat16 is" in fault


def test_weights_are_as_before(folder: Path) -> None:
    """Also after a module that failed in the middle."""
    base = BaseModel("sure", folder, CPU, torch.bfloat16)
    before = {name: p.data_ptr() for name, p in base.net.named_parameters()}
    decoding_fault(base)
    with pytest.raises(IndexError), computing_in_float32(base.net), torch.no_grad():
        base.logits(torch.tensor([[base.vocab_size]]), torch.tensor([0]))
    assert {name: p.data_ptr() for name, p in base.net.named_parameters()} == before
    assert {p.dtype for p in base.net.parameters()} == {torch.bfloat16}
