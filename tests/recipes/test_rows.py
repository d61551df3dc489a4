"""With the same number of rows and the same seed every recipe and every baseline learns from the same papers."""

import asyncio
from pathlib import Path

import pytest

from scisci_gym.envs.training.groups import SciSciDatasetBuilder
from scisci_gym.evaluation.baselines import examples_of
from scisci_gym.recipes.sft import SupervisedEnvBuilder

ENV, ROWS, SEED = "disruption-v0", 12, 5


@pytest.mark.parametrize("rows", [ROWS, None])
def test_papers_are_those_of_the_seed(dataset: Path, rows: int | None) -> None:
    names = {"env_id": ENV, "dataset": str(dataset), "renderer_name": "qwen3", "tokenizer_name": "none", "seed": SEED}
    batches, _ = asyncio.run(SciSciDatasetBuilder(**names, held_out=0, rows=rows)())
    rewarded = {example[0].title for example in batches.examples}
    conversations = asyncio.run(SupervisedEnvBuilder(**names).conversations("train", rows))
    questions = [str(conversation[-2]["content"]) for conversation in conversations]
    fitted = {env.papers[0].title for env in examples_of(ENV, str(dataset), rows=rows, seed=SEED).train}
    assert rewarded == fitted
    assert len(conversations) == len(batches.examples) == (rows or len(conversations))
    assert all(any(title in question for title in rewarded) for question in questions)


def test_pairs_are_those_of_the_seed(dataset: Path) -> None:
    """The seed decides which papers are a pair, before it decides which pairs are drawn."""
    env = "disruption-pairwise-v0"
    builder = SciSciDatasetBuilder(
        env_id=env, dataset=str(dataset), renderer_name="qwen3", tokenizer_name="none", seed=SEED, held_out=0, rows=ROWS
    )
    batches, _ = asyncio.run(builder())
    fitted = [member.papers for member in examples_of(env, str(dataset), rows=ROWS, seed=SEED).train]
    assert fitted == batches.examples
