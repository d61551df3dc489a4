"""`check --learnable`: what fails an environment before anything is trained, and what a certificate says."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.datasets.paper import Paper
from scisci_gym.datasets.store import load_papers
from scisci_gym.envs import registry
from scisci_gym.envs.disruption import DisruptionEnv
from scisci_gym.envs.kit.episodes import play_episode, run_sync
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.kit.single_turn import Grade
from scisci_gym.envs.registry import spec, specs
from scisci_gym.evaluation.reachable import reachable, subjects_of, valid_answers
from scisci_gym.recipes.experiments import learnable
from scisci_gym.rewards import RewardBreakdown


class ShuffledLabelsEnv(DisruptionEnv):
    """Planted: the label of every paper is that of another one."""

    env_id = "planted-shuffled-v0"

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        return None if super().label_of(paper) is None else cls.labels[int(paper.openalex_id[1:]) * 7919 % 97 % 3]


class PaidForLengthEnv(DisruptionEnv):
    """Planted: long answers are paid better."""

    env_id = "planted-length-v0"

    def grade(self, text: str) -> Grade:
        grade = super().grade(text)
        earned = min(1.0, grade.reward.correctness + len(text) / 2000)
        return grade._replace(reward=RewardBreakdown(earned))


def checked(env_class: type[DisruptionEnv], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict]:
    monkeypatch.setitem(registry._SPECS, env_class.env_id, env_class)
    monkeypatch.setattr(learnable, "_learn", no_training)
    options = ["--learnable", "--seeds", "7", "--papers", "3000", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["check", env_class.env_id, *options])
    return result.exit_code, json.loads((tmp_path / "certificates" / f"{env_class.env_id}.json").read_text())


def no_training(*arguments: Any) -> dict[str, Any]:
    """In place of training: a policy that has learned what there is."""
    facts = {"end_sampled": 1.0, "step": 60, "curve": [0.0, 1.0], "sparkline": "▁█", "pass_rates": {"a": 1.0, "b": 0.5}}
    return {"start": -0.3, "end": 0.8, "groups_with_signal": {"first_steps": 0.9, "all_steps": 0.5}, **facts}


def failed(certificate: dict[str, Any]) -> set[str]:
    return {check["id"] for check in certificate["checks"] if check["status"] == "fail"}


def test_labels_that_the_text_does_not_tell_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, certificate = checked(ShuffledLabelsEnv, tmp_path, monkeypatch)
    assert (code, certificate["verdict"]) == (1, "fail")
    assert failed(certificate) == {"learnable.headroom"}
    assert "curve" not in certificate["seeds"][0], "nothing is trained"


def test_a_reward_for_length_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, certificate = checked(PaidForLengthEnv, tmp_path, monkeypatch)
    assert (code, certificate["verdict"]) == (1, "fail")
    assert {"adversarial.length", "adversarial.degenerate_floor"} <= failed(certificate)
    assert certificate["seeds"][0]["degenerate"]["keyword stuffing"] > -1


def test_a_policy_that_learned_passes_and_one_that_did_not_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, certificate = checked(DisruptionEnv, tmp_path, monkeypatch)
    assert (code, certificate["verdict"], failed(certificate)) == (0, "pass", set())
    assert certificate["difficulty"] == {"tasks": 2, "never": 0.0, "sometimes": 0.5, "always": 0.5}
    (facts,) = certificate["seeds"]
    assert facts["closed"] == pytest.approx((0.8 + 0.3) / (facts["best"] + 0.3), abs=1e-4)
    assert facts["oracle"] == 1.0
    assert facts["no_op"] == -1.0
    assert facts["tells"] == ["disruption"]

    def unlearned(*arguments: Any) -> dict[str, Any]:
        return {**no_training(), "end": -0.25}

    monkeypatch.setattr(learnable, "_learn", unlearned)
    console = learnable.Console(quiet=True)
    settings = learnable.LearnableSettings(seeds=(7,), papers=3000)
    certificate = learnable.certify("disruption-v0", tmp_path, settings, console)
    assert failed(certificate) == {"learnable.gap_closed", "learnable.reads_the_paper"}


def test_a_proof_is_not_continued_with_other_settings_and_its_seconds_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learnable, "_learn", no_training)
    console = learnable.Console(quiet=True)
    settings = learnable.LearnableSettings(seeds=(7,), papers=3000)
    first = learnable.certify("disruption-v0", tmp_path, settings, console)
    again = learnable.certify("disruption-v0", tmp_path, settings, console)
    assert again["seconds"]["cpu"] >= first["seconds"]["cpu"] > 0
    with pytest.raises(ValueError, match=r"has proof\.json with other papers=3000; choose another --out"):
        learnable.certify("disruption-v0", tmp_path, learnable.LearnableSettings(seeds=(7,), papers=4000), console)


def test_the_seconds_of_an_engine_elsewhere_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnable, "_learn", no_training)
    settings, console = learnable.LearnableSettings(seeds=(7,), papers=3000), learnable.Console(quiet=True)
    certificate = learnable.certify("disruption-v0", tmp_path, settings, console, "http://127.0.0.1:1")
    cost = {check["id"]: check for check in certificate["checks"]}["cost.cpu_seconds"]
    assert (cost["status"], cost["observed"], certificate["seconds"]["cpu"]) == ("not measured", None, None)
    assert certificate["verdict"] == "pass"
    # What was begun elsewhere is not known in full when it goes on here.
    again = learnable.certify("disruption-v0", tmp_path, settings, console, "local")
    assert again["seconds"]["cpu"] is None


def test_corpus_model_and_training_have_seeds_of_their_own() -> None:
    streams = [learnable.streams_of(seed) for seed in (301, 302)]
    assert streams[0] == learnable.streams_of(301)
    assert len({seed for stream in streams for seed in stream.values()}) == 6


@pytest.mark.parametrize("env_class", specs(), ids=lambda env_class: env_class.env_id)
def test_valid_answers_are_valid_and_one_of_them_is_not_enough(env_class: type) -> None:
    for answer in valid_answers(env_class):
        env = env_class(*env_class.examples(sample_papers())[0])
        metrics = run_sync(play_episode(env, lambda _, answer=answer: answer)).result.metrics
        assert metrics["format_valid"] == 1.0, answer


def test_what_no_synthetic_text_tells_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class TeamSizeEnv(DisruptionEnv):
        env_id = "planted-team-size-v0"
        score_fields = ("authors_count",)

    monkeypatch.setitem(registry._SPECS, TeamSizeEnv.env_id, TeamSizeEnv)
    assert subjects_of(spec("impact-v0")) == ("disruption", "novelty")
    with pytest.raises(ValueError, match="planted-team-size-v0 follows from authors_count"):
        learnable.certify(TeamSizeEnv.env_id, tmp_path, learnable.LearnableSettings(), learnable.Console(quiet=True))


def test_the_best_reader_is_right_as_often_as_the_wording(dataset: Path) -> None:
    """The corpus of these tests tells disruption with fidelity 0.8."""
    train, test = load_papers(dataset, "train"), load_papers(dataset, "test")
    found = reachable(spec("disruption-v0"), train, test, {"prompt": "short"}, ("disruption",))
    assert found.best == pytest.approx(2 * 0.8 - 1, abs=0.15)
    assert found.chance < 0 < found.advantage
    assert found.best < found.oracle == 1.0


def test_quotes_are_beyond_a_policy_that_writes_answers_alone(dataset: Path) -> None:
    """0.3 for every right answer. One answer to everything cannot quote either."""
    train, test = load_papers(dataset, "train"), load_papers(dataset, "test")
    options = {"prompt": "short"}
    single = reachable(spec("disruption-v0"), train, test, options, ("disruption",))
    found = reachable(spec("disruption-adversarial-v0"), train, test, options, ("disruption",))
    right = (1 + single.best) / 2
    assert single.best_without_quotes == single.best
    assert found.best - found.best_without_quotes == pytest.approx(0.3 * right)
    assert found.best_without_quotes == pytest.approx(single.best + 0.2 * right)
    assert found.chance == pytest.approx(single.chance + 0.2 * (1 + single.chance) / 2)


def test_a_certificate_tells_what_was_closed_with_and_without_quotes() -> None:
    signal = {"first_steps": 1.0}
    facts = {"start": 0.0, "end": 0.9, "chance": 0.1, "best": 1.2, "best_without_quotes": 1.0}
    checks = learnable.learned_checks("impact-v0", facts | {"groups_with_signal": signal})
    assert checks[0]["observed"] == 0.9
    assert checks[0]["expected"] == "at least 0.9 up to the best reader without quotes"
    facts |= {"best": 1.0, "groups_with_signal": signal}
    assert learnable.learned_checks("impact-v0", facts)[0]["expected"] == "at least 0.9 up to the best reader"
    assert "closed_with_quotes" not in facts


@pytest.mark.slow
def test_a_tiny_policy_learns_disruption(tmp_path: Path) -> None:
    settings = learnable.LearnableSettings(seeds=(11,))
    certificate = learnable.certify("disruption-v0", tmp_path, settings, learnable.Console(quiet=True))
    assert certificate["verdict"] == "pass", certificate["checks"]


def test_settings_suit_the_environment_and_what_is_given_wins():
    assert learnable.settings_for("novelty-v0", (1,)) == learnable.LearnableSettings((1,))
    assert learnable.settings_for("hit-paper-forecast-v1", (1,)).papers == 16_000
    assert learnable.settings_for("hit-paper-forecast-v1", (1,), papers=3000).papers == 3000
    assert set(learnable.SUITED) <= {env_class.env_id for env_class in registry.specs()}
