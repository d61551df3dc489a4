"""The single-turn environments, one by one, on papers small enough to work out by hand."""

import asyncio
import dataclasses

import pytest

from scisci_gym import Paper, make, spec, specs
from scisci_gym.envs.disruption_pairwise import MARGIN
from scisci_gym.envs.kit.answers import format_probabilities

TEXT = {"title": "On ice", "abstract": "Water flows uphill under it.", "publication_year": 2003}
PAPER = Paper(
    openalex_id="W1",
    **TEXT,
    cd_index=0.4,
    novelty_score=0.9,
    conventionality_score=0.2,
    citation_percentile=0.97,
    authors_count=1,
    primary_field="Hydrology",
    venue="Journal of Ice",
    reference_titles=("Foundations of ice",),
)


def other(**changes) -> Paper:
    return Paper(**{"openalex_id": "W2", **TEXT, "primary_field": "Hydrology", **changes})


def step(env, text):
    return asyncio.run(env.step({"role": "assistant", "content": text}))


def prompt(env) -> str:
    return asyncio.run(env.initial_observation())[0]["content"]


@pytest.mark.parametrize(
    ("env_id", "text", "reward", "correct"),
    [
        ("disruption-v0", "disruptive", 1.0, 1.0),
        ("disruption-v0", "neutral", -1.0, 0.0),
        ("novelty-v0", "novel", 1.0, 1.0),
        ("novelty-v0", "balanced", -1.0, 0.0),
        ("impact-v0", "disruptive, novel", 1.0, 1.0),
        ("impact-v0", "Disruptive,balanced", 0.0, 0.0),
        ("impact-v0", "neutral, balanced", -1.0, 0.0),
        ("impact-v0", "novel, disruptive", -1.0, 0.0),
        ("impact-v0", "disruptive", -1.0, 0.0),
        ("impact-v0", "disruptive, novel, novel", -1.0, 0.0),
        # 1 - (0.5^2 + 0.25^2 + 0.25^2)
        ("disruption-forecast-v0", "disruptive: 0.5, consolidating: 0.25, neutral: 0.25", 0.625, 1.0),
        ("disruption-forecast-v0", "disruptive: 0, consolidating: 1, neutral: 0", -1.0, 0.0),
        ("disruption-forecast-v0", "disruptive: 0.4, consolidating: 0.4, neutral: 0.2", 0.44, 0.0),
        ("disruption-forecast-v0", "disruptive", -1.0, 0.0),
        ("novelty-forecast-v0", "novel: 1, conventional: 0, balanced: 0", 1.0, 1.0),
        # 1 - (0.93^2 + 0.93^2)
        ("hit-paper-forecast-v0", "hit: 0.07, ordinary: 0.93", 1 - 2 * 0.93**2, 0.0),
        ("hit-paper-forecast-v0", "hit: 0.6, ordinary: 0.4", 0.68, 1.0),
        ("cd-forecast-v0", "0.4", 1.0, 1.0),
        ("cd-forecast-v0", "0.11", 0.71, 1.0),
        ("cd-forecast-v0", "-0.6", 0.0, 0.0),
        ("cd-forecast-v0", "2", -1.0, 0.0),
    ],
)
def test_rewards_by_hand(env_id, text, reward, correct):
    result = step(make(env_id, PAPER), f"Because. <answer>{text}</answer>")
    assert result.reward == pytest.approx(reward)
    assert result.metrics["correct"] == correct
    assert result.episode_done
    assert result.logs["expected"] == make(env_id, PAPER).gold_label


def test_a_tie_of_probabilities_names_no_label():
    result = step(make("hit-paper-forecast-v0", PAPER), "<answer>hit: 0.5, ordinary: 0.5</answer>")
    assert result.reward == 0.5
    assert result.logs["predicted"] == ""
    assert result.metrics == {"correct": 0.0, "format_valid": 1.0}


SINGLE = [env_class.env_id for env_class in specs() if "pairwise" not in env_class.env_id]


@pytest.mark.parametrize("env_id", SINGLE)
def test_a_prompt_shows_what_was_known_and_asks_for_the_format(env_id):
    shown = prompt(make(env_id, PAPER))
    for known in ("On ice", "Water flows uphill", "2003", "Hydrology", "Journal of Ice", "<answer>"):
        assert known in shown
    assert "Foundations of ice" not in shown
    assert "- Foundations of ice" in prompt(make(env_id, PAPER, references=True))


@pytest.mark.parametrize("env_id", SINGLE)
def test_a_short_prompt_is_short(env_id):
    shown = prompt(make(env_id, PAPER, prompt="short"))
    assert shown.startswith("<paper>\nOn ice\nWater flows uphill under it.\n</paper>\n")
    assert len(shown) < 150


def test_the_short_disruption_prompt_is_what_tiny_models_are_pre_trained_on():
    shown = prompt(make("disruption-v0", PAPER, prompt="short"))
    assert shown.endswith("</paper>\ndisruptive consolidating neutral ?")


def test_criteria_follow_the_label_scheme():
    assert "CD index above 0.1" in prompt(make("disruption-v0", PAPER))
    ranked = other(cd_index=0.0, disruption_label="disruptive", label_scheme="quantile", cd_window=3)
    assert "among the third with the highest CD index" in prompt(make("disruption-v0", ranked))
    assert "Look ahead 3 years" in prompt(make("disruption-v0", ranked))
    unlimited = other(cd_index=0.5, cd_window=None)
    assert "Look ahead without limit" in prompt(make("disruption-v0", unlimited))
    by_sign = other(novelty_label="novel", label_scheme="uzzi")
    assert "z < 0" in prompt(make("novelty-v0", by_sign))


@pytest.mark.parametrize("env_id", [env_class.env_id for env_class in specs()])
def test_a_paper_without_the_label_is_refused_with_its_id(env_id):
    papers = [other(openalex_id=f"W7{place}") for place in range(2 if "pairwise" in env_id else 1)]
    with pytest.raises(ValueError, match=r"needs .* but paper 'W70' has none"):
        make(env_id, *papers)


def test_what_is_not_a_paper_is_refused():
    with pytest.raises(TypeError, match="about Paper objects, got dict"):
        make("disruption-v0", {"title": "On ice"})


def test_unknown_options_and_prompts_are_refused():
    with pytest.raises(ValueError, match="has no option 'promt'; it has prompt, references"):
        make("disruption-v0", PAPER, promt="short")
    with pytest.raises(ValueError, match="full or short, got 'long'"):
        make("disruption-v0", PAPER, prompt="long")
    with pytest.raises(ValueError, match="did you mean disruption-v0"):
        make("disruption-v1", PAPER)


def year_of(cd_values, year=2003, field="Hydrology"):
    return [
        Paper(openalex_id=f"W{year}{field}{i}", title=f"T{i}", publication_year=year, primary_field=field, cd_index=cd)
        for i, cd in enumerate(cd_values)
    ]


class TestPairwise:
    env_class = spec("disruption-pairwise-v0")

    def test_pairs_join_the_thirds_of_one_field_and_year(self):
        papers = [
            *year_of([-0.5, -0.4, 0.0, 0.01, 0.4, 0.5]),
            *year_of([-0.2, 0.0, 0.2], year=2004),
            *year_of([-0.2, 0.0, 0.2], field="Botany"),
        ]
        pairs = self.env_class.examples(papers, seed=1)
        assert len(pairs) == 2 + 1 + 1
        for first, second in pairs:
            assert (first.primary_field, first.publication_year) == (second.primary_field, second.publication_year)
            assert abs(first.cd_index - second.cd_index) >= MARGIN
            assert min(first.cd_index, second.cd_index) < 0 < max(first.cd_index, second.cd_index)
        used = [paper.openalex_id for pair in pairs for paper in pair]
        assert len(set(used)) == len(used)

    def test_papers_that_are_too_close_make_no_pair(self):
        assert self.env_class.examples(year_of([0.0, 0.01, 0.02])) == []

    def test_the_seed_decides_the_order_and_the_better_paper_stands_first_half_of_the_time(self):
        papers = [paper for year in range(1900, 2000) for paper in year_of([-0.2, 0.0, 0.2], year=year)]
        firsts = [make("disruption-pairwise-v0", *pair).gold_label for pair in self.env_class.examples(papers, seed=3)]
        assert firsts.count("first") == 50, "exactly half of them: a habit of position earns nothing"
        assert self.env_class.examples(papers, seed=3) != self.env_class.examples(papers, seed=4)

    @pytest.mark.parametrize("habit", ["first", "second"])
    def test_a_habit_of_position_earns_nothing_in_the_benchmark(self, habit):
        papers = [paper for year in range(1950, 1960) for paper in year_of([-0.2, 0.0, 0.2], year=year)]
        results = [
            step(make("disruption-pairwise-v0", *pair), f"<answer>{habit}</answer>")
            for pair in self.env_class.benchmark_examples(papers)
        ]
        assert len(results) == 20
        assert sum(result.reward for result in results) == 0
        assert {result.metrics["said_first"] for result in results} == {float(habit == "first")}

    def test_papers_of_different_years_or_equal_indices_are_refused(self):
        low, high = year_of([-0.2, 0.2])
        with pytest.raises(ValueError, match="same field and year"):
            make("disruption-pairwise-v0", low, year_of([0.2], year=2010)[0])
        with pytest.raises(ValueError, match="different CD indices"):
            make("disruption-pairwise-v0", high, high)


def test_skill_against_a_prior_by_hand():
    prior = (0.5, 0.25, 0.25)
    env = make("disruption-forecast-v1", PAPER, prior=prior)
    truth = env.labels.index(env.gold_label)
    assert step(make("disruption-forecast-v1", PAPER, prior=prior), env.gold_answer()).reward == 1.0
    stated = format_probabilities(prior, env.labels)
    uncertainty = 1 - sum(p * p for p in prior)
    expected = 1 - sum((p - (k == truth)) ** 2 for k, p in enumerate(prior)) / uncertainty
    assert step(env, stated).reward == pytest.approx(expected)
    assert env.reward_range == (pytest.approx(1 - 2 / uncertainty), 1.0)
    assert step(make("disruption-forecast-v1", PAPER, prior=prior), "no answer").reward == env.reward_range[0]
    with pytest.raises(ValueError, match="prior must be one probability for each of"):
        make("disruption-forecast-v1", PAPER, prior=(0.5, 0.5))
    with pytest.raises(ValueError, match="a prior must be probabilities that sum to 1"):
        spec("disruption-forecast-v1").check_options({"prior": [0.5, 0.5, 0.5]})


def test_the_cd_index_by_rank_and_without_ranks_by_distance():
    ranks = (-0.5, -0.01, 0.0, 0.01, 0.4)
    assert step(make("cd-forecast-v1", other(cd_index=0.4), ranks=ranks), "<answer>0.4</answer>").reward == 1.0
    # 0 lies above 2.5 and 0.4 above 4.5 of the five ranks.
    assert step(make("cd-forecast-v1", other(cd_index=0.4), ranks=ranks), "<answer>0</answer>").reward == pytest.approx(
        1 - 2 * (4.5 - 2.5) / 5
    )
    for env_id in ("cd-forecast-v0", "cd-forecast-v1"):
        assert step(make(env_id, other(cd_index=0.4)), "<answer>0.1</answer>").reward == pytest.approx(0.7)
    with pytest.raises(ValueError, match="ascending order"):
        make("cd-forecast-v1", PAPER, ranks=(0.2, 0.1))


def test_an_ordered_label_earns_by_its_distance_from_the_right_one():
    rewards = {
        label: step(make("disruption-v0", other(cd_index=0.4), ordered=True), f"<answer>{label}</answer>").reward
        for label in ("disruptive", "neutral", "consolidating")
    }
    assert rewards == {"disruptive": 1.0, "neutral": 0.0, "consolidating": -1.0}
    assert step(make("disruption-v0", other(cd_index=0.4), ordered=True), "neutral").reward == -1.0


@pytest.mark.parametrize("env_id", ["disruption-v0", "novelty-forecast-v1", "cd-forecast-v0", "impact-v0"])
@pytest.mark.parametrize("shown", ["full", "short"])
def test_facts_are_shown_on_demand_and_count_only_what_was_known(env_id, shown):
    paper = dataclasses.replace(PAPER, authors_count=3, reference_titles=("A", "B"), reference_count=77)
    asked = prompt(make(env_id, paper, prompt=shown, facts=True))
    assert "Authors: 3\nEarlier papers cited: 2" in asked
    assert "77" not in asked
    by_default = env_id == "novelty-forecast-v1" and shown == "full"
    assert ("Authors" in prompt(make(env_id, paper, prompt=shown))) == by_default
    assert "Authors" not in prompt(make(env_id, paper, prompt=shown, facts=False))
    nobody_knows = dataclasses.replace(paper, authors_count=0)
    assert "Authors: unknown\n" in prompt(make(env_id, nobody_knows, prompt=shown, facts=True))
