"""The experiment record, the comparison in it, and the register that many runs write at once."""

import json
import multiprocessing
import threading
from pathlib import Path

import pytest
from sklearn.metrics import f1_score

from scisci_gym.datasets.atomic_files import locked
from scisci_gym.recipes.monitoring.recorded import (
    REGISTER_LOCK,
    describe_run,
    read_register,
    recorded_run,
    register_run,
)
from scisci_gym.recipes.monitoring.summary import majority_of, question_of

from .conftest import SHARES, log

FORK = multiprocessing.get_context("fork")
SCORE = {"value": 0.7, "low": 0.6, "high": 0.8}
SCORES = {"n": 80, "accuracy": SCORE, "macro_f1": SCORE, "mcc": SCORE}
ROWS = [
    {"step": 0, "env/all/reward/total": -0.5, "optim/entropy": 0.9, "validation/macro_f1": 0.25},
    {"step": 1, "env/all/reward/total": 0.5, "optim/entropy": 0.4, "progress/done_frac": 1.0},
    {"step": 2, "validation/macro_f1": 0.5},
]


def trained(config) -> Path:
    with recorded_run("rl", config):
        log(config.log_path, ROWS)
        checkpoint = {"name": "final", "batch": 2, "sampler_path": "tinker://s/2", "state_path": "tinker://w/2"}
        (Path(config.log_path) / "checkpoints.jsonl").write_text(json.dumps(checkpoint) + "\n")
    return Path(config.log_path)


def evaluated(folder: Path, split: str, dataset: str) -> None:
    found = {
        "task": {"dataset": dataset},
        "split": split,
        "checkpoint": "tinker://s/2",
        "policy": {"name": "one (step 2)", "greedy": SCORES, "sampled": SCORES},
        "baselines": {"majority class": SCORES},
    }
    (folder / f"eval_{split}.json").write_text(json.dumps(found))
    describe_run(folder)


@pytest.mark.parametrize("counts", [SHARES, {"disruptive": 1, "consolidating": 5, "neutral": 4}])
def test_majority_against_scikit_learn(counts: dict[str, int]) -> None:
    train = {"labels": {"disruptive": 9, "consolidating": 3, "neutral": 3}}
    found = majority_of({"train": train, "validation": {"labels": counts}}, tuple(counts), "validation")
    truth = [label for label, count in counts.items() for _ in range(count)]
    said = ["disruptive"] * len(truth)
    assert found is not None
    assert found.label == "disruptive", "of training, whatever is common in validation"
    assert found.accuracy == pytest.approx(counts["disruptive"] / len(truth))
    expected = f1_score(truth, said, labels=list(counts), average="macro", zero_division=0.0)
    assert found.macro_f1 == pytest.approx(expected)


def test_labels_that_the_card_does_not_count_have_no_majority() -> None:
    split = {"labels": SHARES}
    assert majority_of({"train": split, "validation": split}, ("first", "second"), "validation") is None
    assert majority_of({}, tuple(SHARES), "validation") is None


def test_the_record_of_a_run(config) -> None:
    folder = trained(config(question="Does it learn?", lora_rank=8))
    text = (folder / "EXPERIMENT.md").read_text()
    assert "Does it learn?" in text
    assert "| reward | -0.5 (0) | 0.5 (1) | 0.5 (1) | -0.5 to 0.5 |" in text
    assert "| entropy (nats per token) | 0.9 (0) | 0.4 (1) |  | 0.4 to 0.9 |" in text
    chosen, rest = text.split("Chosen:")[1].split("Defaults:")
    assert "lora_rank=8" in chosen
    assert "lora_rank" not in rest.split("## Metrics")[0]
    assert "seed=0" in rest
    # Half of validation is disruptive: F1 2/3, the other two labels 0.
    assert "always answering 'disruptive' gives 0.222" in text
    assert "2 of 2 updates" in text
    assert "ab" * 32 in text


def test_an_alarm_that_is_over_stays_in_the_record(config) -> None:
    with recorded_run("rl", config()):
        shares = [0.0] * 10 + [0.5] * 5 + [0.0] * 10
        log(config().log_path, [{"step": step, "env/all/truncated": share} for step, share in enumerate(shares)])
    text = (Path(config().log_path) / "EXPERIMENT.md").read_text()
    assert "- no longer on: truncation (steps 11 to 17): " in text
    assert "None." not in text.split("## Alarms")[1]


def test_a_run_without_a_question_gets_the_question_of_its_recipe(config) -> None:
    text = (trained(config(load_checkpoint_path="runs/sft")) / "EXPERIMENT.md").read_text()
    assert "How well does the policy of runs/sft answer disruption-v0 after RL with the verifiable reward?" in text


def test_the_question_of_an_sft_run_says_which_answers_it_imitates() -> None:
    record = {"recipe": "sft", "config": {"env": "disruption-v0", "answers": "random"}}
    assert (
        question_of(record)
        == "How well does the base model answer disruption-v0 after imitating randomly drawn answers?"
    )


def test_an_evaluation_replaces_the_sentence_by_a_table_and_enters_the_register(config) -> None:
    folder = trained(config())
    entry = read_register(folder.parent)["one"]
    assert entry["scores"] == {"validation": {"macro_f1": 0.5, "step": 2}}
    assert entry["adapter"] == {"sampler_path": "tinker://s/2", "checkpoint": "final", "rank": 4}
    evaluated(folder, "test", str(config().dataset))
    text = (folder / "EXPERIMENT.md").read_text()
    assert "| majority class | 0.700 [0.600, 0.800] |" in text
    entry = read_register(folder.parent)["one"]
    assert entry["scores"]["test"]["macro_f1"] == SCORE
    assert entry["status"] == "finished"
    register = (folder.parent / "REGISTER.md").read_text()
    assert "| 0.500 | 0.700 [0.600, 0.800] | finished |" in register


def test_scores_on_another_dataset_say_so(config) -> None:
    folder = trained(config())
    evaluated(folder, "test", "elsewhere")
    assert "0.700 [0.600, 0.800] on `elsewhere`" in (folder.parent / "REGISTER.md").read_text()


def test_many_runs_write_the_register_at_once(config) -> None:
    configs = [config(f"run{at}") for at in range(12)]
    children = [FORK.Process(target=trained, args=(one,)) for one in configs]
    for child in children:
        child.start()
    for child in children:
        child.join()
    parent = Path(configs[0].log_path).parent
    entries = read_register(parent)
    assert set(entries) == {f"run{at}" for at in range(12)}
    assert {entry["status"] for entry in entries.values()} == {"finished"}
    rows = [line for line in (parent / "REGISTER.md").read_text().splitlines() if line.startswith("| [run")]
    assert len(rows) == 12


def _hold(path: Path, held, release) -> None:
    with locked(path):
        held.set()
        release.wait(30)


def test_a_writer_waits_for_the_one_before(config) -> None:
    folder, held, release = trained(config()), FORK.Event(), FORK.Event()
    other = FORK.Process(target=_hold, args=(folder.parent / REGISTER_LOCK, held, release))
    other.start()
    assert held.wait(10)
    writer = threading.Thread(target=register_run, args=(folder,), daemon=True)
    writer.start()
    writer.join(0.3)
    assert writer.is_alive()
    release.set()
    writer.join(10)
    assert not writer.is_alive()
    other.join(10)


def test_writing_it_again_changes_nothing(config) -> None:
    folder = trained(config())
    before = read_register(folder.parent), (folder / "EXPERIMENT.md").read_text()
    register_run(folder)
    describe_run(folder)
    assert (read_register(folder.parent), (folder / "EXPERIMENT.md").read_text()) == before


def test_a_register_that_was_edited_to_death_is_refused(config) -> None:
    folder = trained(config())
    (folder.parent / "register.json").write_text("{oops")
    with pytest.raises(ValueError, match="is not a register"):
        register_run(folder)


@pytest.mark.parametrize(
    ("option", "name", "shown"),
    [({"env": "cd-forecast-v1"}, "reward", "| 0.375 |"), ({"choose_by": "mcc"}, "mcc", "| MCC 0.375 |")],
)
def test_the_register_shows_the_score_that_checkpoints_are_chosen_by(config, option, name: str, shown: str) -> None:
    cfg = config(**option)
    with recorded_run("rl", cfg):
        log(cfg.log_path, [{"step": 0, "validation/macro_f1": 0.25, f"validation/{name}": 0.375}])
    folder = Path(cfg.log_path)
    assert register_run(folder)["scores"]["validation"] == {"step": 0, name: 0.375}
    assert shown in (folder.parent / "REGISTER.md").read_text()
