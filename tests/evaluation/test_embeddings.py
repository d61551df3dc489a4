"""Embeddings by the models whose folders are there: they take part without being asked for."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from scisci_gym import Paper, spec
from scisci_gym.evaluation import learned_baselines
from scisci_gym.evaluation.baselines import baseline_names
from scisci_gym.evaluation.embeddings import MODELS_VARIABLE, folder_encoder, model_folders


@pytest.fixture
def models(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models with a tiny one in SmolLM2's place."""
    (tmp_path / "smollm2").symlink_to(tiny_model)
    monkeypatch.setenv(MODELS_VARIABLE, str(tmp_path))
    return tmp_path


def test_a_model_takes_part_where_its_folder_is(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_folders() == {"SmolLM2": models / "smollm2"}
    assert baseline_names(spec("disruption-v0"))[-2:] == ["TF-IDF + logistic", "SmolLM2 + logistic"]
    assert baseline_names(spec("cd-forecast-v0"))[-1] == "SmolLM2 + ridge"
    monkeypatch.delenv(MODELS_VARIABLE)
    monkeypatch.chdir(models)
    assert model_folders() == {}
    (models / "models").mkdir()
    (models / "smollm2").rename(models / "models" / "smollm2")
    assert model_folders() == {"SmolLM2": models / "models" / "smollm2"}


def test_an_embedding_is_the_mean_of_the_last_hidden_states(models: Path) -> None:
    """Whatever other texts are in the batch."""
    folder = models / "smollm2"
    texts = ["A river that runs uphill", "Ice", "We report the first observation of sustained uphill flow. " * 9]
    net, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        alone = [net(torch.tensor([tokenizer.encode(text)])).last_hidden_state[0].mean(0).numpy() for text in texts]
    assert np.abs(folder_encoder(folder)(texts) - np.stack(alone)).max() < 1e-5


def test_what_was_embedded_is_kept(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["A river", "Ice"]
    first = folder_encoder(models / "smollm2")(texts)
    folder_encoder.cache_clear()
    monkeypatch.setattr("scisci_gym.evaluation.embeddings._Pooled", None)
    assert (folder_encoder(models / "smollm2")(texts) == first).all()
    with pytest.raises(TypeError):
        folder_encoder(models / "smollm2")(["Another text"])


def test_a_linear_head_learns_from_them(models: Path) -> None:
    words = {"neutral": "stone river ice", "disruptive": "flame cloud"}

    def part(start: int) -> tuple[tuple[Paper, ...], tuple[str, ...]]:
        labels = ("neutral", "disruptive") * 20
        return tuple(Paper(openalex_id=f"W{i}", title=f"{words[x]} {i}") for i, x in enumerate(labels, start)), labels

    (learner,) = learned_baselines.local_embeddings()
    test, expected = part(400)
    found = learned_baselines.label_probabilities_of(learner, ("neutral", "disruptive"), part(0), part(200), test)
    assert [("neutral", "disruptive")[row] for row in found.argmax(axis=1)] == list(expected)
