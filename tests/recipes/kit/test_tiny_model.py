"""A tiny model for any environment: what it reads, and the options that suit it without being given."""

import dataclasses
import random
import shutil
from pathlib import Path

import pytest

from scisci_gym.datasets.paper import COLUMNS, Role
from scisci_gym.datasets.store import load_papers, save_dataset, split_file
from scisci_gym.envs.registry import spec, specs
from scisci_gym.recipes.kit import tiny_model
from scisci_gym.recipes.kit.config import tiny_notes
from scisci_gym.recipes.rl import CLIConfig


def config(model: str | Path, **options: object) -> CLIConfig:
    return CLIConfig(dataset="data", log_path="run", model_name=str(model), **options)  # pyright: ignore


def test_options_that_are_not_given_suit_the_tiny_model(model: Path) -> None:
    notes = tiny_notes(str(model))
    assert notes is not None
    cfg = config(model)
    assert (cfg.learning_rate, cfg.lora_rank, cfg.groups_per_batch, cfg.max_steps) == (2e-3, 16, 16, 40)
    assert (cfg.env_options, cfg.balance_labels, cfg.num_substeps) == ("prompt=short", "equal", 2)
    assert cfg.kl_penalty_coef == 0.0
    assert cfg.max_tokens == notes["longest_answer"] + 2 < 20
    # More is asked of it, and it was not made for that.
    other = config(model, env="impact-v0")
    assert (other.max_steps, other.max_tokens, other.kl_penalty_coef) == (80, 1024, 0.1)
    # Probabilities: a tenth of the range of rewards.
    ranges = {"disruption-forecast-v0": 2, "disruption-forecast-v1": 3, "hit-paper-forecast-v1": 4}
    for env_id, size in ranges.items():
        assert config(model, env=env_id).kl_penalty_coef == pytest.approx(size / 10)


def test_the_penalty_for_probabilities_follows_from_the_prior_of_the_dataset(model: Path, dataset: Path) -> None:
    hits = spec("hit-paper-forecast-v1")
    (share, _), *_ = hits.training_options(str(dataset)).values()
    cfg = CLIConfig(dataset=str(dataset), log_path="run", model_name=str(model), env=hits.env_id)
    assert share < 0.2
    assert cfg.kl_penalty_coef == pytest.approx(0.1 * 2 / (1 - share**2 - (1 - share) ** 2), abs=1e-3)


def test_probabilities_of_a_rare_label_take_twice_as_many_prompts(model: Path, dataset: Path) -> None:
    wanted = {"hit-paper-forecast-v0": 32, "hit-paper-forecast-v1": 32, "novelty-forecast-v1": 16, "novelty-v0": 16}
    for env_id, prompts in wanted.items():
        cfg = CLIConfig(dataset=str(dataset), log_path="run", model_name=str(model), env=env_id)
        assert (cfg.groups_per_batch, cfg.num_substeps) == (prompts, prompts // 8), env_id
    assert config(model, env="hit-paper-forecast-v1").groups_per_batch == 16, "no dataset, no rare label"


def test_a_number_of_prompts_that_is_given_stays_even_if_it_is_0(model: Path) -> None:
    assert config(model, groups_per_batch=0).groups_per_batch == 0
    assert config("Qwen/Qwen3-8B", groups_per_batch=0).groups_per_batch == 0


def test_options_that_are_given_stay_as_they_are(model: Path) -> None:
    given = {"learning_rate": 0.1, "max_steps": 3, "env_options": "", "balance_labels": "off", "max_tokens": 7}
    cfg = config(model, **given)
    assert {name: getattr(cfg, name) for name in given} == given


def test_other_models_keep_the_defaults_of_the_recipe() -> None:
    cfg = config("Qwen/Qwen3-8B")
    assert (cfg.learning_rate, cfg.lora_rank, cfg.groups_per_batch, cfg.max_steps) == (None, 32, 32, 100)
    assert (cfg.env_options, cfg.balance_labels, cfg.num_substeps, cfg.max_tokens) == ("", "off", 1, 1024)


@pytest.mark.parametrize("env_class", specs(), ids=lambda env_class: env_class.env_id)
def test_its_documents_are_episodes_up_to_the_last_answer(env_class: type, dataset: Path) -> None:
    papers = tiny_model.unlabelled_papers(tiny_model.works_of(dataset), 2005, seed=1)[:200]
    example = env_class.examples(papers)[0]
    group = env_class.make_group(example, env_class.roles, {"prompt": "short"})
    conversations = tiny_model._conversations(group, random.Random(1))
    for env, conversation in zip(group, conversations, strict=True):
        assert [message["role"] for message in conversation] == ["user", "assistant", "user"][: 2 * env.turns - 1]
        assert example[0].title in conversation[0]["content"]


def test_it_reads_both_sides_of_a_game(dataset: Path) -> None:
    game = spec("disruption-selfplay-v0")
    example = game.examples(load_papers(dataset, "train"))[0]
    group = game.make_group(example, game.roles, {"prompt": "short", "patience": 5.0, "control_rate": 0.0})
    side_a, side_b, alone = tiny_model._conversations(group, random.Random(1))
    assert side_a[1]["content"].replace("<", "‹") in side_b[0]["content"], "B reads what A said"
    assert "‹answer" in side_a[2]["content"], "A is challenged by what B said"
    assert alone[2]["content"].startswith("I would say"), "or by the scripted challenger"


def test_the_outcomes_of_its_papers_are_made_up(dataset: Path) -> None:
    works = tiny_model.works_of(dataset)
    one, other = (tiny_model.unlabelled_papers(works, 2005, seed) for seed in (1, 2))
    labels = {paper.openalex_id: paper.disruption_label for paper in one}
    agree = sum(labels.get(paper.openalex_id) == paper.disruption_label for paper in other) / len(other)
    assert agree == pytest.approx(1 / 3, abs=0.05), "a label that the corpus knows would be the same twice"
    assert all(paper.publication_year <= 2005 for paper in one)
    assert spec("novelty-v0").examples(one)


@pytest.mark.parametrize("challenger", [None, "reader:{}"])
@pytest.mark.parametrize("env_class", specs(), ids=lambda env_class: env_class.env_id)
def test_what_it_reads_does_not_depend_on_training_labels(
    env_class: type, challenger: str | None, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader's argument, for one, would: how strong it says its case is follows from the labels it was fitted on."""
    if challenger and "challenger" not in env_class.option_names():
        pytest.skip("only games have a challenger")
    documents: list[list[list[dict[str, str]]]] = []
    monkeypatch.setattr(tiny_model, "init_model", lambda out, prompts, **_: documents.append(prompts))
    shutil.copytree(dataset, tmp_path / "data")
    papers = load_papers(dataset, "train")
    names = [name for name, column in COLUMNS.items() if column.role is Role.OUTCOME]
    outcomes = [{name: getattr(paper, name) for name in names} for paper in papers]
    for turned in (outcomes, outcomes[1:] + outcomes[:1]):
        relabelled = [dataclasses.replace(paper, **outcome) for paper, outcome in zip(papers, turned, strict=True)]
        save_dataset(tmp_path / "relabelled", {"train": relabelled, "validation": [], "test": []})
        shutil.copy(split_file(tmp_path / "relabelled", "train"), split_file(tmp_path / "data", "train"))
        options = {"prompt": "short"} | ({"challenger": challenger.format(tmp_path / "data")} if challenger else {})
        works = tiny_model.works_of(tmp_path / "data").slice(0, 300)
        tiny_model.init_tiny_model(
            tmp_path / "model", works, tmp_path / "data", options=options, seed=1, env_id=env_class.env_id
        )
    assert documents[0] == documents[1]
