"""The registry: ids, lookups, and one class to an id."""

import contextlib
import io
import os
import subprocess
import sys

import pytest

from scisci_gym import make, spec, specs
from scisci_gym.envs.disruption import DisruptionEnv
from scisci_gym.envs.kit.base import SciSciEnv
from scisci_gym.envs.registry import register

NAMED = {
    "disruption-v0",
    "novelty-v0",
    "impact-v0",
    "disruption-adversarial-v0",
    "impact-adversarial-v0",
    "disruption-forecast-v0",
    "novelty-forecast-v0",
    "hit-paper-forecast-v0",
    "cd-forecast-v0",
    "cd-forecast-v1",
    "disruption-forecast-v1",
    "novelty-forecast-v1",
    "hit-paper-forecast-v1",
    "disruption-pairwise-v0",
    "disruption-selfplay-v0",
}


def test_no_id_that_was_given_out_is_missing():
    ids = [env_class.env_id for env_class in specs()]
    assert set(ids) >= NAMED
    assert ids == sorted(ids)
    assert all(issubclass(spec(env_id), SciSciEnv) for env_id in ids)


def test_an_id_belongs_to_one_class():
    assert register(DisruptionEnv) is DisruptionEnv

    class Impostor(DisruptionEnv):
        """Takes a name that is taken."""

    with pytest.raises(ValueError, match=r"'disruption-v0' is registered already, by .*disruption\.DisruptionEnv"):
        register(Impostor)
    assert spec("disruption-v0") is DisruptionEnv


def test_options_are_the_keywords_of_the_constructor():
    assert spec("novelty-v0").option_names() == ("prompt", "references", "facts")
    assert "control_rate" in spec("disruption-adversarial-v0").option_names()


def test_episodes_are_the_same_in_every_process():
    """Draws come from digests and seeds, never from the hash of a string, which Python salts anew for each process."""
    code = (
        "from scisci_gym import specs; from scisci_gym.envs.kit.samples import sample_papers\n"
        "from scisci_gym.envs.kit.episodes import play_episode, run_sync\n"
        "for env_class in specs():\n"
        "    for example in env_class.examples(sample_papers(), 5):\n"
        "        text = env_class.answer_for(env_class.labels[0])\n"
        "        print(run_sync(play_episode(env_class(*example), lambda messages: text)))\n"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(code, {})
    assert os.environ.get("PYTHONHASHSEED") != "1"
    assert len(elsewhere) > 10_000
    assert here.getvalue() == elsewhere


def test_papers_go_to_the_constructor_in_order(papers):
    pair = spec("disruption-pairwise-v0").examples(papers)[0]
    assert make("disruption-pairwise-v0", *pair).papers == pair
