"""Pairs for DPO: the right label is chosen, form and quotes are equal, and no policy of conduct is preferred."""

import asyncio
from collections import Counter
from pathlib import Path

import chz
import pytest
import tinker
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition

from scisci_gym import Paper
from scisci_gym.envs.training.groups import renderer_of
from scisci_gym.recipes.dpo import CLIConfig, build_config, gold_pairs, pairs_of_group

PAPERS = [
    Paper(
        openalex_id=f"W{at}",
        title=f"A study of rivers {at}",
        abstract="We report the first observation of sustained uphill flow. It extends a known result to ice.",
        publication_year=2000,
        cd_index=cd,
    )
    for at, cd in enumerate([0.5, -0.5, 0.0] * 10)
]
EXAMPLES = [(paper,) for paper in PAPERS]


def texts(model: Path, env: str) -> list[tuple[str, str, str]]:
    renderer = renderer_of("qwen3_instruct", str(model))
    pairs = asyncio.run(gold_pairs(env, EXAMPLES, {"prompt": "short"}, renderer, seed=0))
    decode = renderer.tokenizer.decode
    return [(decode(pair.prompt), decode(pair.chosen), decode(pair.rejected)) for pair in pairs]


def test_the_right_label_is_chosen_and_a_wrong_one_rejected(tiny_model: Path) -> None:
    for paper, (prompt, chosen, rejected) in zip(PAPERS, texts(tiny_model, "disruption-v0"), strict=True):
        assert paper.title in prompt
        assert f"<answer>{paper.disruption_label}</answer>" in chosen
        assert f"<answer>{paper.disruption_label}</answer>" not in rejected
        assert rejected.count("<answer>") == 1


def test_under_challenge_neither_holding_nor_flipping_is_preferred_as_such(tiny_model: Path) -> None:
    """Held against flipped where the first answer was right, revised against held where it was wrong."""
    conduct: Counter[str] = Counter()
    for paper, (prompt, chosen, rejected) in zip(PAPERS, texts(tiny_model, "disruption-adversarial-v0"), strict=True):
        first = prompt.split("<answer>")[1].split("</answer>")[0]
        assert f"<answer>{paper.disruption_label}</answer>" in chosen
        if first == paper.disruption_label:
            conduct["hold"] += 1
            assert f"<answer>{first}</answer>" not in rejected
        else:
            conduct["revise"] += 1
            assert f"<answer>{first}</answer>" in rejected, "the rejected answer holds the wrong label"
        assert chosen.split("<answer>")[0] == rejected.split("<answer>")[0], "the same quotes"
    assert min(conduct.values()) >= 8


@pytest.mark.parametrize("env", ["cd-forecast-v0", "disruption-selfplay-v0"])
def test_environments_without_such_pairs_say_what_to_do(tiny_model: Path, env: str) -> None:
    with pytest.raises(ValueError, match=r"sampled.*adversarial"):
        asyncio.run(gold_pairs(env, EXAMPLES, {}, renderer_of("qwen3_instruct", str(tiny_model)), seed=0))


def test_gold_pairs_that_do_not_exist_are_refused_before_anything_starts(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text("{}")
    cfg = CLIConfig(
        env="cd-forecast-v1",
        dataset=str(tmp_path),
        model_name=str(tiny_model),
        renderer_name="qwen3_instruct",
        learning_rate=1e-3,
        log_path=str(tmp_path / "run"),
    )
    with pytest.raises(ValueError, match="cd-forecast-v1 offers no pairs"):
        build_config(cfg)
    assert build_config(chz.replace(cfg, pairs="sampled")).num_epochs == 1


def trajectory(*steps: tuple[list[int], list[int]], reward: float) -> Trajectory:
    transitions = [
        Transition(
            ob=tinker.ModelInput.from_ints(prompt),
            ac=TokensWithLogprobs(tokens=answer, maybe_logprobs=[0.0] * len(answer)),
            reward=0.0 if at + 1 < len(steps) else reward,
            episode_done=at + 1 == len(steps),
        )
        for at, (prompt, answer) in enumerate(steps)
    ]
    return Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())


def test_sampled_pairs_share_the_conversation_they_answer() -> None:
    """Two rollouts with the same first answer face the same challenge [1, 7, 9]: there is a pair of second answers."""
    group = TrajectoryGroup(
        [
            trajectory(([1], [7]), ([1, 7, 9], [7]), reward=1.0),
            trajectory(([1], [7]), ([1, 7, 9], [8]), reward=-1.0),
            trajectory(([1], [8]), ([1, 8, 9], [8]), reward=-1.0),
        ],
        [0.0, 0.0, 0.0],
        [{}, {}, {}],
    )
    found = {tuple(pair.prompt): (pair.chosen, pair.rejected) for pair in pairs_of_group(group)}
    assert found[(1, 7, 9)] == ([7], [8])
    assert (1, 8, 9) not in found


def test_equal_rewards_make_no_pair() -> None:
    group = TrajectoryGroup([trajectory(([1], [at]), reward=1.0) for at in (7, 8)], [0.0, 0.0], [{}, {}])
    assert pairs_of_group(group) == []
