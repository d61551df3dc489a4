"""From papers to groups and batches: the floor for early ends, metrics, shuffling, pickling."""

import asyncio
import dataclasses
import pickle

import pytest
from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
from tinker_cookbook.rl.rollouts import do_group_rollout

from scisci_gym import spec, specs
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.integrations.cookbook_benchmarks import GradedEnv, SciSciBenchmark
from scisci_gym.envs.training.groups import (
    SciSciDataset,
    SciSciDatasetBuilder,
    SciSciGroupBuilder,
    token_env,
)

RATES = {
    "reward_tie_group_rate",
    "reward_uniform_group_rate",
    "reward_tie_pair_rate",
    "reward_unique_fraction_mean",
    "reward_uniform_floor_rate",
    "reward_uniform_best_rate",
}


def group_of(text_policy, env_id, papers, texts, **options):
    """A group whose members write `texts`, in order."""
    remaining = list(texts)
    builder = SciSciGroupBuilder(env_id, spec(env_id).examples(papers)[0], "byte", "byte", len(texts), options)
    return asyncio.run(do_group_rollout(builder, text_policy(lambda shown: remaining.pop(0))))


@pytest.mark.parametrize("env_id", [env_class.env_id for env_class in specs()])
@pytest.mark.parametrize("broken", ["<answer>neutral</answer>...", "", "not parsable\x00", "I do not know."])
def test_an_early_end_earns_the_floor_everywhere(byte_renderer, text_policy, papers, env_id, broken):
    group = group_of(text_policy, env_id, papers, [broken])
    assert group.get_total_rewards() == [spec(env_id).reward_range[0]]
    correct = [*group.metrics_G, *(step.metrics for step in group.trajectories_G[0].transitions)]
    assert [metrics["correct"] for metrics in correct if "correct" in metrics] == [0.0]


def test_training_metrics_have_the_diagnostics_by_their_names(byte_renderer, text_policy, papers):
    right, wrong = "<answer>disruptive</answer>", "<answer>neutral</answer>"
    groups = [
        group_of(text_policy, "disruption-v0", papers, [right, right, wrong, wrong]),
        group_of(text_policy, "disruption-v0", papers, [wrong] * 4),
        group_of(text_policy, "disruption-v0", papers, [right] * 4),
        group_of(text_policy, "disruption-v0", papers, [right, right, right, "..."]),
    ]
    metrics = compute_trajectory_metrics(groups, [["disruption-v0"]] * 4)
    found = {name: metrics[f"env/all/{name}"] for name in RATES}
    assert found == pytest.approx(
        {
            "reward_tie_group_rate": 1.0,
            "reward_uniform_group_rate": 0.5,
            "reward_tie_pair_rate": (2 / 6 + 1 + 1 + 3 / 6) / 4,
            "reward_unique_fraction_mean": (2 / 4 + 1 / 4 + 1 / 4 + 2 / 4) / 4,
            "reward_uniform_floor_rate": 0.25,
            "reward_uniform_best_rate": 0.25,
        }
    )
    assert metrics["env/all/correct"] == 9 / 16
    assert metrics["env/all/format_valid"] == 15 / 16


def test_rollouts_at_the_floor_are_truncated_without_an_answer_or_wrong(byte_renderer, text_policy, papers):
    """Of eight rollouts: two right, two cut off, three without an answer, one wrong."""
    right, wrong = "<answer>disruptive</answer>", "<answer>neutral</answer>"
    texts = [right, right, f"{right}...", "...", "", "not parsable\x00", right + right, wrong]
    metrics = compute_trajectory_metrics([group_of(text_policy, "disruption-v0", papers, texts)], [[]])
    found = {name: metrics[f"env/all/{name}"] for name in ("at_floor", "truncated", "no_answer", "at_floor_wrong")}
    assert found == {"at_floor": 6 / 8, "truncated": 2 / 8, "no_answer": 3 / 8, "at_floor_wrong": 1 / 8}


def test_rollouts_that_are_cut_off_while_thinking_say_so(byte_renderer, text_policy, papers):
    texts = [
        "<think>Hm...",
        "<think>Hm.</think>It...",
        "It...",
        "<think>Hm.",
        "<think>Hm.</think><answer>neutral</answer>",
    ]
    metrics = compute_trajectory_metrics([group_of(text_policy, "disruption-v0", papers, texts)], [[]])
    assert (metrics["env/all/truncated"], metrics["env/all/truncated_thinking"]) == (3 / 5, 1 / 5)


def test_a_prompt_may_begin_the_thinking(byte_renderer, text_policy, papers, monkeypatch):
    asked = byte_renderer.build_generation_prompt
    thinks = lambda messages: asked([*messages, {"content": "<think>"}])  # noqa: E731
    monkeypatch.setattr(byte_renderer, "build_generation_prompt", thinks)
    metrics = compute_trajectory_metrics(
        [group_of(text_policy, "disruption-v0", papers, ["Hm...", "</think>It..."])], [[]]
    )
    assert (metrics["env/all/truncated"], metrics["env/all/truncated_thinking"]) == (1.0, 0.5)


@pytest.mark.parametrize("env_id", [env_class.env_id for env_class in specs()])
@pytest.mark.parametrize("broken", ["<answer>neutral</answer>...", "", "not parsable\x00", "I do not know."])
def test_the_floor_is_told_apart_everywhere(byte_renderer, text_policy, papers, env_id, broken):
    metrics = compute_trajectory_metrics([group_of(text_policy, env_id, papers, [broken] * 2)], [[]])
    cut = float(broken.endswith("..."))
    assert metrics["env/all/at_floor"] == 1.0
    assert (metrics["env/all/truncated"], metrics["env/all/no_answer"]) == (cut, 1.0 - cut)
    assert metrics["env/all/at_floor_wrong"] == 0.0


def test_a_wrong_forecast_is_at_the_floor_only_if_it_was_certain(byte_renderer, text_policy, papers):
    sure, one, other = (
        f"<answer>disruptive: {p}, consolidating: {q}, neutral: 0</answer>"
        for p, q in ((0, 1), (0.4, 0.6), (0.401, 0.599))
    )
    metrics = compute_trajectory_metrics([group_of(text_policy, "disruption-forecast-v0", papers, [sure, one])], [[]])
    assert (metrics["env/all/at_floor"], metrics["env/all/at_floor_wrong"]) == (0.5, 0.5)
    # No tie, and nothing to learn: rewards of 0.28 and 0.282398.
    metrics = compute_trajectory_metrics([group_of(text_policy, "disruption-forecast-v0", papers, [one, other])], [[]])
    assert metrics["env/all/reward_uniform_group_rate"] == 0.0
    assert metrics["env/all/reward_group_std"] == pytest.approx(0.001199)


def test_token_env_needs_a_floor_for_environments_of_others(byte_renderer, papers):
    env = GradedEnv(spec("disruption-v0")(papers[0]))
    with pytest.raises(ValueError, match="GradedEnv has no reward_range"):
        token_env(env, byte_renderer)
    assert token_env(env, byte_renderer, floor=0.0).failed_parse_reward == 0.0


def dataset_of(papers, env_id="disruption-v0", **changes):
    arguments = {
        "groups_per_batch": 4,
        "group_size": 2,
        "renderer_name": "byte",
        "tokenizer_name": "byte",
        **changes,
    }
    return SciSciDataset(env_id, spec(env_id).examples(papers), **arguments)


def test_every_epoch_shows_every_example_once_in_another_order(papers):
    dataset = dataset_of(papers, batches=18, groups_per_batch=2)
    shown = [builder.example[0].openalex_id for index in range(18) for builder in dataset.get_batch(index)]
    epochs = [shown[at : at + 9] for at in range(0, 36, 9)]
    assert all(len(set(epoch)) == 9 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_a_batch_is_the_same_every_time_and_can_be_pickled(papers):
    dataset = dataset_of(papers)
    assert dataset.get_batch(1) == dataset.get_batch(1) == pickle.loads(pickle.dumps(dataset.get_batch(1)))
    with pytest.raises(IndexError, match="batch 3 is outside"):
        dataset.get_batch(3)


def test_every_group_draws_its_own_challenge_unless_told_otherwise(papers):
    dataset = dataset_of(papers, "disruption-adversarial-v0", batches=6)
    seeds = [builder.options["seed"] for index in range(6) for builder in dataset.get_batch(index)]
    assert len(set(seeds)) == 24
    fixed = dataset_of(papers, "disruption-adversarial-v0", options={"seed": 7})
    assert {builder.options["seed"] for builder in fixed.get_batch(0)} == {7}


@pytest.mark.parametrize(("change", "message"), [({"group_size": 0}, "group_size must be"), ({}, "no examples for")])
def test_bad_arguments_are_refused(papers, change, message):
    with pytest.raises(ValueError, match=message):
        dataset_of(papers if change else [], **change)


def test_the_builder_reads_a_dataset_folder(papers, tmp_path, byte_renderer):
    save_dataset(tmp_path, {"train": papers[:6], "validation": papers[6:], "test": papers[6:]})
    builder = SciSciDatasetBuilder(
        env_id="hit-paper-forecast-v0",
        dataset=str(tmp_path),
        renderer_name="byte",
        tokenizer_name="byte",
        groups_per_batch=2,
        group_size=2,
        held_out=2,
        options={"prompt": "short"},
    )
    train, held_out = asyncio.run(builder())
    assert len(train) == 3
    assert held_out is not None
    assert [len(held_out), len(held_out.get_batch(0)), held_out.group_size] == [1, 2, 1]
    assert held_out.get_batch(0)[0].options == {"prompt": "short"}


def folder_builder(papers, tmp_path, env_id, **options):
    save_dataset(tmp_path, {"train": papers, "validation": papers, "test": papers})
    arguments = {"dataset": str(tmp_path), "renderer_name": "byte", "tokenizer_name": "byte", **options}
    return SciSciDatasetBuilder(env_id=env_id, groups_per_batch=2, group_size=2, **arguments)


def test_priors_and_ranks_come_from_the_training_papers_unless_they_are_given(papers, tmp_path, byte_renderer):
    train, _ = asyncio.run(folder_builder(papers, tmp_path, "hit-paper-forecast-v1")())
    hits = sum(paper.hit_label == "hit" for paper in papers)
    assert train.options["prior"][0] == (hits + 1) / (len(papers) + 2)
    (asked, *_) = SciSciBenchmark("hit-paper-forecast-v1", dataset=str(tmp_path)).episodes()
    assert asked.prior == train.options["prior"]
    train, _ = asyncio.run(folder_builder(papers, tmp_path, "cd-forecast-v1")())
    assert set(train.options["ranks"]) == {paper.cd_index for paper in papers}
    assert list(train.options["ranks"]) == sorted(train.options["ranks"])
    given = {"prior": (0.5, 0.5)}
    train, _ = asyncio.run(folder_builder(papers, tmp_path, "hit-paper-forecast-v1", options=given)())
    assert train.options == given


def test_an_epoch_whose_draw_is_empty_shows_the_first_one(papers):
    options = {"groups_per_batch": 1, "group_size": 1, "renderer_name": "role_colon", "tokenizer_name": "none"}
    pairs = [(papers[0], papers[1])]
    dataset = SciSciDataset("disruption-pairwise-v0", pairs, batches=2, redraw=lambda _: [], **options)
    assert [builder.example for index in range(2) for builder in dataset.get_batch(index)] == pairs * 2


def test_pairs_are_drawn_anew_every_epoch(papers, tmp_path, byte_renderer):
    crowd = [
        dataclasses.replace(papers[0], openalex_id=f"W{i}", cd_index=i / 60, disruption_label=None, n_i=None, n_j=None)
        for i in range(-30, 30)
    ]
    train, _ = asyncio.run(folder_builder(crowd, tmp_path, "disruption-pairwise-v0", batches=30, held_out=0)())
    shown = [
        frozenset(paper.openalex_id for paper in builder.example)
        for index in range(30)
        for builder in train.get_batch(index)
    ]
    first, second, third = set(shown[:20]), set(shown[20:40]), set(shown[40:])
    assert len(first) == len(second) == len(third) == 20
    assert len(first & second) < 10 > len(second & third)
    assert train.get_batch(17) == train.get_batch(17)
