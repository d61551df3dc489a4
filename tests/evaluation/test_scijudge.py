"""Citation pairs from a small file: what is read, what is asked, and what policies with known habits score."""

import asyncio
import json

import pytest
from tinker_cookbook.eval.benchmarks import REGISTRY, BenchmarkConfig, run_benchmark

from scisci_gym.envs.kit.episodes import play_episode, run_sync
from scisci_gym.evaluation.scijudge import CitationPairEnv, SciJudgeBenchmark, read_pairs


def row(low: int, high: int, answer: str, **more) -> dict:
    """A pair of papers; the abstract of the more cited one says "great"."""
    found = {"correct_answer": answer, "messages": [{"role": "user", "content": "ignored"}]}
    for side, number in (("a", low), ("b", high)):
        cited = (side == "a") == (answer == "A")
        found |= {
            f"paper_{side}_title": f"Paper number {number}",
            f"paper_{side}_abstract": f"A {'great' if cited else 'small'} result.",
            f"paper_{side}_date": f"202{number % 10}-01-05",
            f"paper_{side}_citations": 90 if cited else 3,
            f"paper_{side}_arxiv_id": f"21{number:02}.00001",
            f"paper_{side}_category": "Physics",
        }
    return found | more


# The fourth line is the first pair in the other order, the fifth repeats the second.
ROWS = [row(1, 2, "A"), row(3, 4, "B"), row(5, 6, "B"), row(2, 1, "B"), row(3, 4, "B"), row(7, 8, "A")]


@pytest.fixture
def pairs_file(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in ROWS) + "\n\n")
    return path


def test_each_pair_is_read_once(pairs_file) -> None:
    pairs = read_pairs(pairs_file)
    assert [pair.more_cited for pair in pairs] == ["a", "b", "b", "a"]
    assert (pairs[0].first.title, pairs[0].first.cited_by_count, pairs[0].first.publication_year) == (
        "Paper number 1",
        90,
        2021,
    )
    assert pairs[0].swapped().more_cited == "b"
    assert pairs[0].first.primary_field == "Physics"


def test_ids_and_dates_may_be_missing(tmp_path) -> None:
    bare = row(1, 2, "B")
    for name in ("arxiv_id", "date", "citations", "category"):
        del bare[f"paper_a_{name}"], bare[f"paper_b_{name}"]
    (tmp_path / "bare.jsonl").write_text(json.dumps(bare))
    (pair,) = read_pairs(tmp_path / "bare.jsonl")
    assert pair.first.openalex_id == "Paper number 1"
    assert "Date" not in CitationPairEnv(pair).question()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([row(1, 2, "A"), row(2, 1, "A")], "line 2 contradicts an earlier line"),
        ([row(1, 2, "C")], "line 1 is not a pair of papers: correct_answer must be A or B, got 'C'"),
        ([{"correct_answer": "A"}], "line 1 is not a pair of papers: 'paper_a_title' is missing"),
        ([row(1, 1, "A")], "both papers are 2101.00001"),
        ([], "holds no pair"),
        (["text"], "line 1 is not a pair"),
    ],
)
def test_what_is_no_pair_is_refused_with_its_line(tmp_path, lines, said) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    with pytest.raises(ValueError, match=said):
        read_pairs(path)


def test_the_gold_answer_is_right_in_both_orders_and_papers_are_data(pairs_file) -> None:
    for pair in read_pairs(pairs_file):
        for order in (pair, pair.swapped()):
            env = CitationPairEnv(order)
            played = run_sync(play_episode(env, lambda messages, env=env: env.gold_answer()))
            assert played.result.metrics["correct"] == 1.0
            text = str(played.observations[0][0]["content"])
            assert "90" not in text
            assert text.index(order.first.title) < text.index(order.second.title)


def reader(shown: str) -> str:
    """Always right: it sees which abstract says "great"."""
    return "<answer>A</answer>" if shown.index("great") < shown.index("small") else "<answer>B</answer>"


def test_scores_of_known_policies(pairs_file, byte_renderer, scripted) -> None:
    def run(write, **config):
        client = scripted(write)
        result = asyncio.run(
            run_benchmark(SciJudgeBenchmark(str(pairs_file)), client, byte_renderer, BenchmarkConfig(**config))
        )
        return result, client

    right, client = run(reader)
    assert (right.score, right.num_examples, right.num_correct, len(client.prompts)) == (1.0, 4, 4, 8)
    assert right.metrics["position_bias"] == 0.0
    always, _ = run(lambda shown: "<answer>A</answer>")
    # Half of the single answers are right, no pair is.
    assert (always.score, always.metrics["single_accuracy"]) == (0.0, 0.5)
    assert (always.metrics["position_bias"], always.metrics["always_first"]) == (0.5, 1.0)
    silent, _ = run(lambda shown: None)
    assert (silent.score, silent.metrics["format_valid"], silent.num_truncated) == (0.0, 0.0, 8)
    assert "position_bias" not in silent.metrics
    few, client = run(reader, max_examples=5)
    assert (few.num_examples, len(client.prompts)) == (2, 4)
    twice, client = run(reader, num_samples=2)
    assert (twice.score, twice.pass_at_k[2], len(client.prompts)) == (1.0, 1.0, 16)


def test_one_order_right_is_not_a_pair_right(pairs_file, byte_renderer, scripted) -> None:
    """Right, but B where the first pair comes in its second order: three of four pairs, seven of eight answers."""

    def once_wrong(shown: str) -> str:
        swapped = "number 1\n" in shown and shown.index("number 2\n") < shown.index("number 1\n")
        return "<answer>A</answer>" if swapped else reader(shown)

    benchmark = SciJudgeBenchmark(str(pairs_file))
    result = asyncio.run(run_benchmark(benchmark, scripted(once_wrong), byte_renderer, BenchmarkConfig()))
    assert (result.score, result.metrics["single_accuracy"]) == (0.75, 0.875)


def test_importing_the_package_registers_it_and_the_file_comes_from_the_environment(
    pairs_file, byte_renderer, scripted, monkeypatch
) -> None:
    assert "scisci_scijudge" in REGISTRY
    monkeypatch.delenv("SCISCI_GYM_SCIJUDGE", raising=False)
    with pytest.raises(ValueError, match="set SCISCI_GYM_SCIJUDGE"):
        asyncio.run(run_benchmark("scisci_scijudge", scripted(reader), byte_renderer))
    monkeypatch.setenv("SCISCI_GYM_SCIJUDGE", str(pairs_file))
    assert asyncio.run(run_benchmark("scisci_scijudge", scripted(reader), byte_renderer)).score == 1.0
    monkeypatch.setenv("SCISCI_GYM_SCIJUDGE", str(pairs_file) + "x")
    with pytest.raises(FileNotFoundError, match="format of SciJudgeBench"):
        asyncio.run(run_benchmark("scisci_scijudge", scripted(reader), byte_renderer))


def test_it_needs_no_registered_environment(pairs_file) -> None:
    """As Inspect asks for its episodes and their options."""
    benchmark = SciJudgeBenchmark(str(pairs_file))
    assert benchmark.env_options() == {}
    assert all(env.env_id == "scijudge" for env in benchmark.episodes(2))
