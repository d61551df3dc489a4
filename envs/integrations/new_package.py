"""A package with an environment of one's own: `python -m scisci_gym.envs.integrations.new_package FOLDER ID`.

The package is whole: once it is installed, every command knows its environment. Its labels, their rule and the question
are those of an example, to be replaced.
"""

import re
import sys
from pathlib import Path

from ...datasets.errors import BadInput, stop_on_bad_input

PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1.0"
dependencies = ["scisci-gym"]

[project.entry-points."scisci_gym.environments"]
{env_id} = "{module}:{name}"

[tool.setuptools]
py-modules = ["{module}"]
"""

MODULE = '''\
"""`{env_id}`: was a paper written by one person?"""

from scisci_gym.datasets.paper import Paper
from scisci_gym.envs.kit.single_turn import LabelEnv
from scisci_gym.envs.registry import register


@register
class {name}(LabelEnv):
    """Guess from a paper's text whether one person wrote it.

    Description
    -----------
    The agent reads title and abstract and says whether there is one author or several.

    Action
    ------
    A text that ends with ``<answer>alone</answer>`` or ``<answer>team</answer>``.
    """

    env_id = "{env_id}"
    labels = ("alone", "team")
    # The fields of a paper that the label follows from.
    score_fields = ("authors_count",)

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        """The right answer; None for a paper that cannot be asked about."""
        if paper.authors_count < 1:
            return None
        return "alone" if paper.authors_count == 1 else "team"

    def criteria(self) -> str:
        """What the prompt says about the labels."""
        return "Who wrote it?\\n- alone: one author\\n- team: two or more"
'''

TEST = '''\
"""The environment passes the named checks, and pays what a worked example says."""

import asyncio

from scisci_gym import check_env, make
from scisci_gym.envs.kit.samples import sample_papers


def test_it_is_fit_to_train_on():
    assert check_env("{env_id}")


def test_a_right_answer_earns_the_best_reward():
    [paper] = [each for each in sample_papers() if each.authors_count == 1][:1]
    env = make("{env_id}", paper)
    asyncio.run(env.initial_observation())
    result = asyncio.run(env.step({{"role": "assistant", "content": "<answer>alone</answer>"}}))
    assert result.reward == 1.0
'''


def new_package(folder: str | Path, env_id: str) -> list[Path]:
    """Write the package and return its files: `pyproject.toml`, a module and a test.

    The `folder` is a new one, or empty; its name becomes that of the package. The id is such as ``team-size-v0``: lower
    case words and a version. Raises `BadInput` if it has another form, or the folder holds something.
    """
    folder = Path(folder)
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*-v\d+", env_id):
        raise BadInput(f"an environment's id is such as team-size-v0, got {env_id!r}")
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder} holds something already; choose another folder")
    package = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") or "my-environments"
    module = re.sub(r"^(\d)", r"_\1", package.replace("-", "_"))
    name = "".join(word.capitalize() for word in env_id.rpartition("-")[0].split("-")) + "Env"
    files = {"pyproject.toml": PROJECT, f"{module}.py": MODULE, f"test_{module}.py": TEST}
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text.format(package=package, module=module, name=name, env_id=env_id))
    return [folder / file for file in files]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m scisci_gym.envs.integrations.new_package FOLDER ID")
    for written in stop_on_bad_input(lambda: new_package(sys.argv[1], sys.argv[2])):
        print(written)
    print(f"next: pip install -e {sys.argv[1]}; scisci-gym check {sys.argv[2]}")
