"""Starting quickly: nothing heavy is imported before it is needed, and no registry is ever seen without us."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from scisci_gym import specs
from scisci_gym.after_import import after_import
from scisci_gym.cli import COMMANDS, ENGINE_COMMANDS, LazyCommand, app
from scisci_gym.envs.integrations.registration import benchmark_name, env_ids, gymnasium_name

HEAVY = ("torch", "tinker", "transformers", "datasets", "sklearn", "scipy", "pyarrow", "matplotlib", "numba", "pyalex")


def python(code: str, folder: Path | None = None) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["engine", "--help"], ["watch", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from typer.testing import CliRunner
from scisci_gym.cli import app
assert CliRunner().invoke(app, {arguments!r}).exit_code == 0
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    assert python(code).strip() == "[]"


ORDERS = {
    "ours first": "import scisci_gym, gymnasium; from tinker_cookbook.eval.benchmarks import REGISTRY",
    "theirs first": "import gymnasium; from tinker_cookbook.eval.benchmarks import REGISTRY; import scisci_gym",
    "the benchmarks' module": (
        "import scisci_gym.envs.integrations.cookbook_benchmarks, gymnasium; "
        "from tinker_cookbook.eval.benchmarks import REGISTRY"
    ),
    "a module of ours": (
        "import scisci_gym.envs.kit.base, gymnasium; from tinker_cookbook.eval.benchmarks import REGISTRY"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_registries_have_our_environments_whoever_comes_first(order: str) -> None:
    pytest.importorskip("gymnasium")
    code = f"""
{ORDERS[order]}
print(*sorted(name for name in REGISTRY if name.startswith("scisci_")))
print(*sorted(name for name in gymnasium.registry if name.startswith("scisci/")))
assert gymnasium.make("scisci/Disruption-v0").reset(seed=0)[0]
"""
    benchmarks, gymnasiums = (line.split() for line in python(code).splitlines())
    assert benchmarks == sorted(benchmark_name(env_class.env_id) for env_class in specs())
    assert gymnasiums == sorted(f"scisci/{gymnasium_name(env_class.env_id)}" for env_class in specs())


@pytest.mark.slow
def test_the_names_of_the_package_are_there_and_no_others() -> None:
    code = """
import pickle, scisci_gym
from scisci_gym import Paper, check_env, make, spec, specs
assert set(scisci_gym.__all__) <= set(dir(scisci_gym))
paper = Paper(openalex_id="W1", title="A title", cd_index=0.4)
assert pickle.loads(pickle.dumps(paper)) == paper
assert scisci_gym.make is make and scisci_gym.envs.registry.make is make
from scisci_gym import *
try:
    scisci_gym.mak
except AttributeError as error:
    print(error)
"""
    assert python(code).strip() == "module 'scisci_gym' has no attribute 'mak'"


def test_importing_the_package_imports_nothing_heavy_and_delays_nobody() -> None:
    """Gymnasium knows our environments, and neither torch nor the cookbook was imported for it."""
    pytest.importorskip("gymnasium")
    code = f"""
import sys, scisci_gym
assert not [name for name in {HEAVY!r} if name in sys.modules], "import scisci_gym"
import gymnasium
print([name for name in {(*HEAVY, "tinker_cookbook")!r} if name in sys.modules])
print(sum(name.startswith("scisci/") for name in gymnasium.registry) > 5)
"""
    assert python(code).splitlines() == ["[]", "True"]


def test_the_files_of_the_environments_declare_the_ids_that_the_registry_has() -> None:
    assert env_ids() == [env_class.env_id for env_class in specs()]


def test_a_broken_cookbook_breaks_nobody_elses_import(tmp_path: Path) -> None:
    (tmp_path / "tinker_cookbook").mkdir()
    (tmp_path / "tinker_cookbook" / "__init__.py").write_text("raise ImportError('this cookbook is broken')")
    pytest.importorskip("gymnasium")
    assert python("import scisci_gym, gymnasium; print(len(gymnasium.registry) > 0)", tmp_path).strip() == "True"


def test_a_registration_that_fails_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "watched.py").write_text("ready = True\n")
    code = """
import warnings
from scisci_gym.after_import import after_import
after_import("watched", lambda: 1 / 0)
with warnings.catch_warnings(record=True) as caught:
    import watched
assert watched.ready
print(*(warning.message for warning in caught))
"""
    expected = "scisci-gym did not register its environments with watched: ZeroDivisionError: division by zero"
    assert python(code, tmp_path).strip() == expected


def test_an_action_runs_once_after_the_module_which_keeps_its_loader(tmp_path: Path) -> None:
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "__init__.py").write_text("ready = True\n")
    (tmp_path / "watched" / "data.txt").write_text("resource")
    code = """
import sys, importlib, importlib.resources, importlib.util, inspect
from scisci_gym.after_import import after_import
before, calls = len(sys.meta_path), []
after_import("watched", lambda: calls.append(sys.modules["watched"].ready))
after_import("not_there_at_all", calls.append)
assert importlib.util.find_spec("watched") is not None, "looking whether it is installed is no import"
assert calls == []
import watched
assert calls == [True]
importlib.reload(watched)
assert calls == [True]
assert importlib.resources.files(watched).joinpath("data.txt").read_text() == "resource"
assert inspect.getsource(watched) == "ready = True\\n"
assert type(watched.__loader__).__name__ == type(watched.__spec__.loader).__name__ == "SourceFileLoader"
try:
    import not_there_at_all
except ModuleNotFoundError as error:
    print(error, len(sys.meta_path) - before)
"""
    assert python(code, tmp_path).strip() == "No module named 'not_there_at_all' 1"


def test_an_action_for_a_module_that_is_there_runs_at_once() -> None:
    calls: list[str] = []
    after_import("pathlib", lambda: calls.append("now"))
    assert calls == ["now"]


@pytest.mark.parametrize(("name", "command"), [*COMMANDS.items(), *ENGINE_COMMANDS.items()])
def test_what_the_list_says_about_a_command_is_what_the_command_says(name: str, command: LazyCommand) -> None:
    real = command.load(name)
    assert real.name == name
    about = " ".join((real.help or "").split("\n\n")[0].split())
    assert about.startswith(command.about)


def test_a_misspelt_command_gets_a_suggestion() -> None:
    done = CliRunner().invoke(app, ["lits"])
    assert done.exit_code == 2
    assert "list" in done.stderr
    assert isinstance(app, typer.Typer)
