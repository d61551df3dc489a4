"""Our tasks in Inspect: every one of them, graded as the environment grades, the same as in the cookbook's runner."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed (pip install 'scisci-gym[inspect]')")

from inspect_ai import eval as inspect_eval
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import CORRECT

from scisci_gym import specs
from scisci_gym.datasets import store
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.integrations.cookbook_benchmarks import SciSciBenchmark
from scisci_gym.envs.kit import forecasting
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.kit.single_turn import SingleTurnEnv
from scisci_gym.evaluation import inspect_tasks
from scisci_gym.evaluation.inspect_runs import tasks_of
from scisci_gym.evaluation.inspect_tasks import env_of

SINGLE = [env_class for env_class in specs() if issubclass(env_class, SingleTurnEnv)]


def run(task, write, tmp_path, stop_reason="stop"):
    """Run a task on `write`: prompt -> answer."""

    def answer(messages, tools, tool_choice, config):
        output = ModelOutput.from_content("mockllm/model", write(messages[-1].text), stop_reason=stop_reason)
        # Otherwise the mock model counts tokens with an encoding that it downloads.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    (log,) = inspect_eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success", log.error
    return log


def metrics(log):
    (scored,) = log.results.scores
    return {name: found.value for name, found in scored.metrics.items()}


@pytest.fixture
def data(tmp_path):
    papers = sample_papers()
    save_dataset(tmp_path / "data", {"train": papers, "validation": papers, "test": papers})
    (tmp_path / "data" / "card.json").write_text(json.dumps({"content_hash": "abc"}))
    return str(tmp_path / "data")


@pytest.mark.parametrize("env_class", SINGLE, ids=lambda env_class: env_class.env_id)
def test_gold_answers_are_right_in_every_task(env_class, data, tmp_path) -> None:
    name = env_class.env_id.removesuffix("-v0").replace("-", "_")
    task = inspect_tasks.TASKS[name](dataset=data)
    gold = {sample.input: env_of(sample.metadata).gold_answer() for sample in task.dataset}
    log = run(task, gold.__getitem__, tmp_path)
    found = metrics(log)
    assert (found["accuracy"], found["answered"]) == (1.0, 1.0)
    assert ("right_in_both_orders" in found) == (env_class.presentations == 2)
    assert found["mean_reward"] == pytest.approx(env_class.reward_range[1])
    assert log.results.total_samples == len(env_class.benchmark_examples(sample_papers()))
    assert log.eval.metadata["content_hash"] == "abc"


def test_a_task_reads_the_training_papers_once(data, monkeypatch) -> None:
    loaded, load_papers = [], store.load_papers
    for module in (store, forecasting):
        monkeypatch.setattr(
            module, "load_papers", lambda folder, split: loaded.append(split) or load_papers(folder, split)
        )
    inspect_tasks.TASKS["hit_paper_forecast_v1"](dataset=data)
    assert sorted(loaded) == ["test", "train"]


def test_scores_agree_with_the_benchmark_runner(data, tmp_path, examine) -> None:
    answers = ["<answer>neutral</answer>", "<answer>disruptive</answer>", "no idea", "<answer>x</answer>"]

    def write(shown: str) -> str:
        return answers[len(shown) % len(answers)]

    examined = examine(write)
    theirs = {answer.example_id: answer for answer in asyncio.run(examined.ask())}
    log = run(inspect_tasks.TASKS["disruption"](dataset=data), write, tmp_path)
    samples = read_eval_log(log.location).samples
    assert len({answer.predicted for answer in theirs.values()}) == 3
    for sample in samples:
        (score,) = sample.scores.values()
        answer = theirs[sample.id]
        assert (score.answer, score.value == CORRECT) == (answer.predicted, answer.predicted == answer.expected)
        assert score.metadata["reward"] == answer.reward


def test_an_answer_that_was_cut_off_is_none(data, tmp_path) -> None:
    log = run(
        inspect_tasks.TASKS["disruption"](dataset=data), lambda _: "<answer>neutral</answer>", tmp_path, "max_tokens"
    )
    assert (metrics(log)["accuracy"], metrics(log)["answered"], metrics(log)["mean_reward"]) == (0.0, 0.0, -1.0)


def test_a_cut_off_forecast_earns_the_floor_of_the_dataset(data, tmp_path) -> None:
    (env,) = SciSciBenchmark("hit-paper-forecast-v1", dataset=data).episodes(1)
    for stop_reason in ("stop", "max_tokens"):
        task = inspect_tasks.TASKS["hit_paper_forecast_v1"](dataset=data)
        log = run(task, lambda _: "<answer>hit", tmp_path, stop_reason)
        assert metrics(log)["mean_reward"] == pytest.approx(env.reward_range[0])
    assert env.reward_range[0] < -3


def test_pairs_are_counted_in_both_orders(data, tmp_path) -> None:
    log = run(inspect_tasks.TASKS["disruption_pairwise"](dataset=data), lambda _: "<answer>first</answer>", tmp_path)
    assert (metrics(log)["accuracy"], metrics(log)["right_in_both_orders"]) == (0.5, 0.0)
    # Every pair is right exactly once: with pairs as clusters there is no spread.
    assert metrics(log)["stderr"] == pytest.approx(0.0, abs=1e-9)


def test_citation_pairs(tmp_path) -> None:
    row = {"correct_answer": "B"}
    for side in ("a", "b"):
        row |= {
            f"paper_{side}_title": f"Title {side}",
            f"paper_{side}_abstract": "",
            f"paper_{side}_date": "2021-05-06",
        }
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row))
    task = inspect_tasks.scijudge(file=str(tmp_path / "pairs.jsonl"))
    log = run(task, lambda shown: f"<answer>{'AB'[shown.index('Title b') > shown.index('Title a')]}</answer>", tmp_path)
    assert (metrics(log)["accuracy"], metrics(log)["right_in_both_orders"]) == (1.0, 1.0)


def test_the_entry_point_names_this_module() -> None:
    from importlib.metadata import entry_points

    (found,) = [point for point in entry_points(group="inspect_ai") if point.name == "scisci_gym"]
    assert found.load() is inspect_tasks


ON_A_POLICY = """
import asyncio, json, sys
from pathlib import Path
from inspect_ai import eval_async
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from scisci_gym.evaluation.inspect_runs import run_inspect, tasks_of
from tinker_cookbook.eval import inspect_evaluators

class Evaluator:
    def __init__(self, config):
        self.config = config

    async def __call__(self, client):
        def answer(*_):
            output = ModelOutput.from_content("mockllm/model", "<answer>neutral</answer>")
            output.usage = ModelUsage()
            return output

        model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
        await eval_async(self.config.tasks, model=model, log_dir=self.config.log_dir, limit=self.config.limit)

inspect_evaluators.InspectEvaluator = Evaluator
tasks = ["scisci_gym/disruption", *tasks_of(["scisci_gym/novelty"], sys.argv[2], "test", {"prompt": "short"})]
found = asyncio.run(run_inspect(tasks, None, model_name="m", renderer_name="r", folder=Path(sys.argv[1])))
Path("found.json").write_text(json.dumps(found))
"""


def test_what_a_run_on_a_policy_records(data, tmp_path) -> None:
    """By name, in a process of its own; the cookbook's evaluator, which needs a model, gives way to Inspect's own call.

    What is tested is that Inspect finds the tasks, which logs are read, and what is kept of them.
    """
    environment = os.environ | {"SCISCI_GYM_DATASET": data, "INSPECT_DISPLAY": "none"}
    command = [sys.executable, "-c", ON_A_POLICY, str(tmp_path / "logs"), data]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert [(entry["task"], entry["samples"], entry["version"]) for entry in found["tasks"]] == [
        ("scisci_gym/disruption", 9, "0"),
        ("scisci_gym/novelty", 9, "0"),
    ]
    assert found["tasks"][0]["metrics"]["environment_grade/accuracy"] == pytest.approx(1 / 3)
    assert found["tasks"][1]["metrics"]["environment_grade/answered"] == 0.0
    assert found["tasks"][1]["arguments"]["prompt"] == "short"
    assert found["packages"]["inspect_ai"]


def test_tasks_of_ours_are_checked_by_name() -> None:
    with pytest.raises(ValueError, match="there are scijudge, cd_forecast, "):
        tasks_of(["inspect_evals/gpqa_diamond", "scisci_gym/disruptive"], "data", "test", {})
