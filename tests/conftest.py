"""For every test: how many examples hypothesis tries, an environment without the user's settings, one tiny model."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from scisci_gym.engine import Engine

# Two workers on two cores must not start two threads each; torch reads this when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Nothing that the user has set up decides whether a test passes, and no test asks the hub for a model.
for name in [name for name in os.environ if name.startswith(("TINKER_", "SCISCI_GYM_", "OPENALEX_"))]:
    del os.environ[name]
os.environ["HF_HUB_OFFLINE"] = "1"
# Tests are imported one by one (importlib mode): a module that they share must be put on the path.
sys.path.insert(0, str(Path(__file__).parent / "engine"))

BUSY_MACHINE = [HealthCheck.too_slow]
# `make test` tries the same few examples on every day and machine; `make test-slow` tries many, and new ones each time.
settings.register_profile(
    "quick", derandomize=True, max_examples=60, deadline=None, database=None, suppress_health_check=BUSY_MACHINE
)
# All properties take 63 CPU seconds with 60 examples; 150 fit into the 25 minutes of CI, which tries the same 150 every
# time: a change is judged by what it changes. Whoever runs `make test-slow` by hand tries new ones.
settings.register_profile(
    "thorough",
    max_examples=150,
    derandomize=bool(os.environ.get("CI")),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=BUSY_MACHINE,
)
settings.load_profile("quick")

EXTRAS = ("bitsandbytes", "inspect_ai", "litellm", "ray", "verifiers")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--extras", action="store_true", help="refuse to run without the optional packages")


def pytest_configure(config: pytest.Config) -> None:
    missing = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if config.getoption("--extras") and missing:
        raise pytest.UsageError(f"--extras: {', '.join(missing)} cannot be imported; `make test-extras` installs them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What fetches a real model is run only where `-m` names it."""
    if "real_model" not in config.option.markexpr:
        items[:] = [item for item in items if item.get_closest_marker("real_model") is None]


@pytest.fixture(autouse=True)
def _environment_and_folder_are_put_back() -> Iterator[None]:
    """A test that points the SDK at its engine, or changes folder, does so for itself only."""
    before, folder = dict(os.environ), Path.cwd()
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)
    os.chdir(folder)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of two small layers that has learned to answer with a label; any text can be encoded."""
    from toy_data import LABELS, make_prompts

    from scisci_gym.engine.tiny.init_model import init_model

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
        max_positions=2048,
        progress=False,
    )
    return folder


@pytest.fixture(scope="session")
def engine(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine process; inside a test that asks for it the SDK uses it (see `service`)."""
    from scisci_gym.engine.serve.service import start_engine

    log = tmp_path_factory.mktemp("log") / "engine.log"
    running = start_engine({"tiny": tiny_model}, checkpoints=tmp_path_factory.mktemp("checkpoints"), log=log)
    yield running
    running.close()
    assert running.api_key not in log.read_text(), "the key is in the log"
