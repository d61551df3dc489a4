"""A small synthetic dataset and a barely trained model, made once."""

from pathlib import Path

import pytest

from scisci_gym.datasets.build import BuildOptions
from scisci_gym.datasets.cli.build import build_synthetic
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.synthetic.corpus import SyntheticCorpus
from scisci_gym.recipes.kit.tiny_model import init_tiny_model


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data")
    build_synthetic(SyntheticCorpus(papers=6000, seed=3), out, BuildOptions(LabelRules()), progress=False)
    return out


@pytest.fixture(scope="session")
def model(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    works, _ = read_works(dataset / "source" / "works", progress=False)
    options = {"prompt": "short"}
    init_tiny_model(out, works, dataset, options=options, seed=0, progress=False, steps=40, max_rounds=1)
    return out
