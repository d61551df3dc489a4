"""What the prompts say about the labels is true of them: a rank is worded as a rank, a threshold as a threshold."""

from __future__ import annotations

import dataclasses

import pytest

from scisci_gym import Paper, make, specs
from scisci_gym.envs.kit.episodes import run_sync

PAPER = Paper(
    openalex_id="W1",
    title="A title",
    abstract="An abstract.",
    cd_index=-0.04,
    disruption_label="disruptive",
    label_scheme="quantile",
    novelty_score=0.9,
    conventionality_score=0.1,
    citation_percentile=0.97,
    cd_window=2,
    authors_count=1,
)
BY_DISRUPTION = (
    *("disruption-v0", "disruption-forecast-v0", "disruption-adversarial-v0"),
    *("impact-v0", "impact-adversarial-v0"),
)


def prompt_of(env_id: str, *papers: Paper) -> str:
    return str(run_sync(make(env_id, *papers).initial_observation())[-1]["content"])


@pytest.mark.parametrize("env_id", BY_DISRUPTION)
def test_a_disruption_label_by_rank_is_worded_as_a_rank(env_id):
    prompt = prompt_of(env_id, PAPER)
    assert "- disruptive: among the third with the highest CD index" in prompt
    assert "a disruptive paper can have a negative CD index" in prompt
    assert "CD index above" not in prompt
    assert "they cite it without" not in prompt


@pytest.mark.parametrize("env_id", BY_DISRUPTION)
def test_a_disruption_label_by_threshold_states_the_threshold(env_id):
    paper = dataclasses.replace(
        PAPER, label_scheme="threshold", cd_threshold=0.05, cd_index=0.2, disruption_label="disruptive"
    )
    prompt = prompt_of(env_id, paper)
    assert "- disruptive: CD index above 0.05" in prompt
    assert "- consolidating: CD index below -0.05" in prompt
    assert "third with" not in prompt.split("Novelty.")[0]


@pytest.mark.parametrize("env_id", ["novelty-v0", "novelty-forecast-v0", "impact-v0"])
def test_a_novelty_label_is_worded_as_a_rank(env_id):
    assert "- novel: among the third of the papers of its year" in prompt_of(env_id, PAPER)


def test_the_prompt_of_hits_states_the_window_the_rule_and_the_share_among_papers_in_question():
    prompt = prompt_of("hit-paper-forecast-v0", dataclasses.replace(PAPER, hit_share=0.123))
    assert "Look ahead 2 years" in prompt
    assert "hit: at least 95 % of all papers of its field and year are cited less often" in prompt
    assert "12.3 % of those in the training set are hits" in prompt
    assert " 5 %" not in prompt
    assert "usually have a minimum of citations" in prompt_of("hit-paper-forecast-v0", PAPER)


def test_no_prompt_of_a_rank_claims_what_only_a_threshold_says():
    other = dataclasses.replace(PAPER, openalex_id="W2", cd_index=-0.2, disruption_label="neutral")
    for env_class in specs():
        count = 2 if "pairwise" in env_class.env_id else 1
        prompt = prompt_of(env_class.env_id, *(PAPER, other)[:count])
        assert "disruptive: they cite" not in prompt
        assert "CD index above" not in prompt
