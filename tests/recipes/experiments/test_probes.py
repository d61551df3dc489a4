"""The further examinations of a policy on the local engine: contamination, flips, consistency, held-out NLL."""

import asyncio
import json
import math
from pathlib import Path

import pytest
import tinker

from scisci_gym.datasets.atomic_files import write_json_atomically
from scisci_gym.envs.opponents.challengers import ScriptedChallenger
from scisci_gym.evaluation.ask import Task
from scisci_gym.evaluation.evaluators import held_out_nll_builder
from scisci_gym.evaluation.examination import Examination
from scisci_gym.evaluation.probes.consistency import consistency_report
from scisci_gym.evaluation.probes.contamination import contamination_report, cutoff_date
from scisci_gym.evaluation.probes.flips import flip_report
from scisci_gym.evaluation.records import plain
from scisci_gym.recipes.kit.engines import open_engine

pytestmark = pytest.mark.slow


def test_a_model_is_examined_on_the_local_engine(dataset: Path, model: Path, tmp_path: Path) -> None:
    task = Task("disruption-v0", {"prompt": "short"}, str(dataset), str(model), "qwen3_instruct", max_tokens=12)
    with open_engine("local", tmp_path / "checkpoints", 0):
        client = tinker.ServiceClient().create_sampling_client(base_model=str(model))
        examined = Examination(task, client, tmp_path / "answers", max_examples=6)

        async def everything() -> dict:
            return {
                "contamination": await contamination_report(examined, cutoff_date("2005")),
                "flips": await flip_report(examined, {"scripted": ScriptedChallenger()}),
                "consistency": await consistency_report(examined),
                "nll": await held_out_nll_builder(
                    task.env, str(dataset), task.options, task.renderer_name, str(model), 6
                )()(client),
            }

        found = asyncio.run(everything())
        kept = {path: path.read_bytes() for path in (tmp_path / "answers").rglob("trajectories.jsonl")}
        again = asyncio.run(everything())
    assert again == found
    # Nothing was asked twice: no file of answers has grown.
    assert {path: path.read_bytes() for path in kept} == kept
    write_json_atomically(tmp_path / "found.json", plain(found))
    read = json.loads((tmp_path / "found.json").read_text())
    assert read["contamination"]["scores"]["n"] == 6
    assert read["contamination"]["anonymised"]["scores"]["anonymised"]["n"] == 6
    assert read["flips"]["challengers"]["scripted"]["episodes"] == 6
    assert read["consistency"]["wordings"]["n"] == 6
    # The model was pre-trained on prompts with answers of its format: far better than a uniform guess over its tokens.
    assert 0 < read["nll"]["held_out/nll"] < math.log(100)
