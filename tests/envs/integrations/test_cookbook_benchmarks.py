"""Every environment as a benchmark of the cookbook, run by the cookbook's own runner."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from tinker_cookbook.eval.benchmarks import REGISTRY, BenchmarkConfig, run_benchmark

from scisci_gym import specs
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.integrations.cookbook_benchmarks import SciSciBenchmark, benchmark_name
from scisci_gym.envs.kit.episodes import play_episode, run_sync

ENVS = specs()


class Client:
    """A sampling client that answers with `write`; with None the answer is cut off."""

    def __init__(self, write):
        self.write, self.calls = write, 0

    async def sample_async(self, prompt, num_samples, sampling_params, **_):
        self.calls += 1
        text = self.write(bytes(prompt.to_ints()).decode())
        tokens = list((text or "cut").encode())
        reason = "stop" if text is not None else "length"
        sequence = SimpleNamespace(sequence_id="1", stop_reason=reason, tokens=tokens, logprobs=[0.0] * len(tokens))
        return SimpleNamespace(sequences=[sequence], prompt_cache_hit_tokens=0)

    # Its name since cookbook 0.6.
    sample = sample_async


@pytest.fixture
def folder(papers, training_papers, tmp_path):
    save_dataset(tmp_path / "data", {"train": training_papers, "validation": papers, "test": papers})
    return str(tmp_path / "data")


def run(benchmark, client, renderer, **config):
    return asyncio.run(run_benchmark(benchmark, client, renderer, BenchmarkConfig(**config)))


def benchmark_of(env_class, folder, **arguments):
    return SciSciBenchmark(env_class.env_id, benchmark_name(env_class.env_id), folder, **arguments)


def test_importing_the_package_registers_all_of_them():
    assert {benchmark_name(env_class.env_id) for env_class in ENVS} <= set(REGISTRY)
    assert benchmark_name("disruption-v0") == "scisci_disruption"


def test_by_name_it_takes_the_dataset_from_the_environment(folder, byte_renderer, monkeypatch):
    monkeypatch.setenv("SCISCI_GYM_DATASET", folder)
    result = run("scisci_disruption", Client(lambda shown: "<answer>neutral</answer>"), byte_renderer)
    assert (result.num_examples, result.num_correct, result.score) == (9, 3, 1 / 3)


def test_without_a_dataset_it_says_what_to_set(byte_renderer, monkeypatch):
    monkeypatch.delenv("SCISCI_GYM_DATASET", raising=False)
    with pytest.raises(ValueError, match="set SCISCI_GYM_DATASET to a folder"):
        run("scisci_disruption", Client(lambda shown: ""), byte_renderer)


@pytest.mark.parametrize("env_class", ENVS, ids=lambda env_class: env_class.env_id)
def test_a_constant_answer_scores_what_theory_says(env_class, folder, byte_renderer):
    for label in env_class.labels:
        answer = env_class.answer_for(label)
        result = run(benchmark_of(env_class, folder), Client(lambda shown, answer=answer: answer), byte_renderer)
        golds = [env.gold_label for env in benchmark_of(env_class, folder).episodes()]
        alone = [
            run_sync(play_episode(env, lambda messages, answer=answer: answer)).reward
            for env in benchmark_of(env_class, folder).episodes()
        ]
        assert result.num_errors == 0
        assert result.score == pytest.approx(golds.count(label) / len(golds))
        assert result.metrics["correct"] == pytest.approx(result.score)
        assert result.metrics["format_valid"] == 1.0
        assert result.metrics["env_reward"] == pytest.approx(sum(alone) / len(alone)), "as played without the benchmark"


@pytest.mark.parametrize("env_class", ENVS, ids=lambda env_class: env_class.env_id)
def test_a_policy_that_is_always_cut_off_scores_the_worst(env_class, folder, byte_renderer):
    benchmark = benchmark_of(env_class, folder)
    result = run(benchmark, Client(lambda shown: None), byte_renderer)
    assert (result.score, result.num_errors) == (0.0, 0)
    assert result.metrics["correct"] == result.metrics["format_valid"] == 0.0
    # Of the episodes: that of a forecast paid by skill depends on the prior of the dataset.
    assert result.metrics["env_reward"] == pytest.approx(benchmark.episodes()[0].reward_range[0])
    assert result.metrics["max_tokens_reached"] == 1.0


def test_forecasts_are_never_correct_for_a_positive_reward(folder, byte_renderer):
    """The runner counts reward > 0 as correct; an honest 1/3 everywhere has reward 1/3 and is not."""
    env_class = next(env_class for env_class in ENVS if env_class.env_id == "disruption-forecast-v0")
    guess = env_class.honest_guess()
    result = run(benchmark_of(env_class, folder), Client(lambda shown: guess), byte_renderer)
    assert result.score == 0.0
    assert result.metrics["env_reward"] == pytest.approx(1 / 3, abs=1e-5)


def test_rates_of_a_kind_of_challenge_are_about_that_kind(folder, byte_renderer):
    env_class = next(env_class for env_class in ENVS if env_class.env_id == "disruption-adversarial-v0")
    benchmark = benchmark_of(env_class, folder, options={"control_rate": 0.5, "seed": 3})
    result = run(benchmark, Client(lambda shown: "<answer>neutral</answer>"), byte_renderer)
    kinds = [name for name in result.metrics if name.endswith("/held")]
    assert len(kinds) > 1
    assert all(result.metrics[name] == 1.0 for name in kinds)
    assert result.metrics["challenge_truth/correct"] == 0.0


def test_both_orders_of_a_pair_and_evenly_spread_subsets(folder):
    pairwise = next(env_class for env_class in ENVS if "pairwise" in env_class.env_id)
    assert len(benchmark_of(pairwise, folder).episodes()) == 6
    subset = benchmark_of(pairwise, folder).episodes(max_examples=5)
    assert [env.papers for env in subset[1::2]] == [env.papers[::-1] for env in subset[::2]]
    assert len(subset) == 4
    disruption = next(env_class for env_class in ENVS if env_class.env_id == "disruption-v0")
    chosen = benchmark_of(disruption, folder).episodes(max_examples=3)
    assert [env.papers[0].publication_year for env in chosen] == [2003, 2008, 2012]


def test_a_system_prompt_comes_first_and_in_every_turn(folder, byte_renderer):
    env_class = next(env_class for env_class in ENVS if env_class.env_id == "disruption-adversarial-v0")
    seen = []
    client = Client(lambda shown: seen.append(shown) or "<answer>neutral</answer>")
    run(benchmark_of(env_class, folder), client, byte_renderer, system_prompt="Be brief.")
    assert len(seen) == 18
    assert all(shown.startswith("Be brief.") for shown in seen)


def test_an_interrupted_evaluation_resumes_without_asking_again(folder, byte_renderer, tmp_path):
    env_class = next(env_class for env_class in ENVS if "pairwise" in env_class.env_id)
    client = Client(lambda shown: "<answer>first</answer>")
    first = run(benchmark_of(env_class, folder), client, byte_renderer, save_dir=str(tmp_path / "runs"))
    assert client.calls == 6
    stored = next((tmp_path / "runs").rglob("trajectories.jsonl")).read_text().splitlines()
    assert len({json.loads(line)["example_id"] for line in stored}) == 6
    again = run(benchmark_of(env_class, folder), client, byte_renderer, save_dir=str(tmp_path / "runs"))
    assert client.calls == 6
    assert again.score == first.score


def test_pass_at_k_counts_an_example_once(folder, byte_renderer):
    env_class = next(env_class for env_class in ENVS if env_class.env_id == "disruption-v0")
    client = Client(lambda shown: "<answer>neutral</answer>")
    result = run(benchmark_of(env_class, folder), client, byte_renderer, num_samples=2)
    assert client.calls == 18
    assert result.pass_at_k[2] == pytest.approx(1 / 3)
