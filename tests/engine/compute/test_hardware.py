"""What the engine takes of the hardware: a small model one thread and float32, a larger one more of both."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from scisci_gym.engine.compute import loading
from scisci_gym.engine.compute.loading import choose_threads, suited_dtype
from scisci_gym.engine.compute.model import SMALL, BaseModel

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("cores", "limit", "small", "large"), [(2, "", 1, 2), (2, "1", 1, 1), (16, "", 8, 8), (16, "3", 8, 3)]
)
def test_threads(cores: int, limit: str, small: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert choose_threads() == small
    assert choose_threads(small=False) == large
    assert choose_threads(5) == choose_threads(5, small=False) == 5


def test_threads_are_those_of_the_model_while_it_computes(base: BaseModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "threads", 2)
    with base.using(None):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 1


def test_sixteen_bits_are_for_models_that_are_not_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And for processors that multiply them."""
    for name, size in (("small", SMALL - 1), ("large", SMALL)):
        (tmp_path / name).mkdir()
        parts = {"a": torch.zeros(size // 2, dtype=torch.uint8), "b": torch.zeros(size - size // 2, dtype=torch.uint8)}
        for key, part in parts.items():
            save_file({key: part}, tmp_path / name / f"model-{key}.safetensors")
    for able, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(loading, "multiplies_bfloat16", lambda able=able: able)
        assert suited_dtype(tmp_path / "small", CPU) == torch.float32
        assert suited_dtype(tmp_path / "large", CPU) == expected
