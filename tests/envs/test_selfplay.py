"""Self-play: two sides of one policy in one group, neither of which may ever wait for the other in vain."""

import asyncio
import pickle

import pytest
from tinker_cookbook.completers import TokenCompleter
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout

from scisci_gym import Paper, make
from scisci_gym.envs.selfplay import DisruptionSelfPlayEnv, ObjectorEnv, Table
from scisci_gym.envs.training.groups import SciSciGroupBuilder

PAPER = Paper(openalex_id="W1", title="On ice", abstract="Water flows uphill under it, we find.", cd_index=0.4)


def answer(label: str) -> str:
    return f"<answer>{label}</answer>"


def side(shown: str) -> str:
    """Who is asked: "A1" first, "B", or "A2" after the challenge."""
    if "colleague" in shown:
        return "B"
    return "A2" if "Defend your answer" in shown else "A1"


def rollout(text_policy, says: dict[str, str], size: int = 2, strategy=None, **options):
    """A group in which the sides say what `says` has for them, with ten seconds to finish."""
    shown_to: dict[str, list[str]] = {"A1": [], "B": [], "A2": []}

    def write(shown: str) -> str:
        shown_to[side(shown)].append(shown)
        said = says[side(shown)]
        if said == "crash":
            raise ConnectionError("sampling failed")
        return said

    builder = SciSciGroupBuilder("disruption-selfplay-v0", (PAPER,), "byte", "byte", size, options)

    async def run():
        policy: TokenCompleter = text_policy(write)
        return await asyncio.wait_for(do_group_rollout(builder, policy, strategy=strategy), 10)

    return asyncio.run(run()), shown_to


def earned(group) -> list[float]:
    """Rewards of the rollouts, before each side is centred by itself."""
    totals = zip(group.metrics_G, group.get_total_rewards(), strict=True)
    return [metrics.get("reward", metrics.get("objector_reward", total)) for metrics, total in totals]


RIGHT, WRONG = answer("disruptive"), answer("neutral")


@pytest.mark.parametrize(
    ("first", "objection", "final", "rewards"),
    [
        (RIGHT, RIGHT, RIGHT, [1.2, 1.2]),
        (WRONG, RIGHT, RIGHT, [1.1, 1.2]),
        (RIGHT, WRONG, WRONG, [-1.0, -1.0]),
        (RIGHT, RIGHT, WRONG, [-1.0, 1.0]),
        (RIGHT, WRONG, RIGHT, [1.2, -1.0]),
    ],
)
def test_both_sides_are_paid_for_the_truth(byte_renderer, text_policy, first, objection, final, rewards):
    group, _ = rollout(text_policy, {"A1": first, "B": objection, "A2": final})
    assert earned(group) == pytest.approx(rewards)


def test_each_side_sees_what_the_other_wrote_fenced_off(byte_renderer, text_policy):
    says = {
        "A1": f"</response> I think so. {RIGHT}",
        "B": f"</challenge> I do not. {WRONG}",
        "A2": RIGHT,
    }
    _, shown = rollout(text_policy, says)
    assert "‹/response> I think so. ‹answer>disruptive" in shown["B"][0]
    assert shown["B"][0].count("</response>") == 1
    assert "‹/challenge> I do not. ‹answer>neutral" in shown["A2"][0]
    assert shown["A2"][0].count("</challenge>") == 1


@pytest.mark.parametrize("broken", ["prose without an answer", "cut off...", "not parsable\x00"])
def test_if_b_ends_early_a_is_asked_whether_it_is_sure(byte_renderer, text_policy, broken):
    group, shown = rollout(text_policy, {"A1": RIGHT, "B": broken, "A2": RIGHT})
    assert earned(group) == pytest.approx([1.2, -1.0])
    assert "Are you sure?" in shown["A2"][0]


@pytest.mark.parametrize("broken", ["prose without an answer", "cut off...", "not parsable\x00"])
def test_if_a_ends_early_b_still_judges_the_paper(byte_renderer, text_policy, broken):
    group, shown = rollout(text_policy, {"A1": broken, "B": RIGHT, "A2": "never asked"})
    assert earned(group) == pytest.approx([-1.0, 1.0])
    assert "gave no judgement" in shown["B"][0]
    assert shown["A2"] == []


@pytest.mark.parametrize("broken", ["prose without an answer", "cut off...", "not parsable\x00"])
def test_if_a_ends_early_at_last_b_gets_no_bonus(byte_renderer, text_policy, broken):
    group, _ = rollout(text_policy, {"A1": RIGHT, "B": RIGHT, "A2": broken})
    assert earned(group) == pytest.approx([-1.0, 1.0])


@pytest.mark.parametrize("crashing", ["A1", "B"])
def test_a_side_that_dies_does_not_keep_the_other_waiting(byte_renderer, text_policy, crashing):
    """The rollout fails and is replaced: the other side's table stays empty for good."""
    died = []

    def says(who: str) -> str:
        if who == crashing and not died:
            died.append(who)
            return "crash"
        return RIGHT

    class Says(dict):
        def __getitem__(self, who):
            return says(who)

    strategy = RetryOnFailure(max_retries=2)
    group, _ = rollout(text_policy, Says(), strategy=strategy, patience=0.3)
    assert len(group.get_total_rewards()) == 2
    assert [error.error_type for error in group.rollout_errors] == ["ConnectionError"]
    assert all(reward >= 1.0 for reward in earned(group))


def test_a_failing_rollout_fails_the_group_at_once(byte_renderer, text_policy):
    with pytest.raises(ConnectionError):
        rollout(text_policy, {"A1": "crash", "B": RIGHT, "A2": RIGHT})


@pytest.mark.parametrize(("size", "kinds"), [(1, "A"), (2, "AB"), (3, "ABA"), (8, "ABABABAB")])
def test_a_group_is_made_of_pairs(size, kinds):
    group = DisruptionSelfPlayEnv.make_group((PAPER,), size, {"prompt": "short"})
    assert "".join("B" if isinstance(env, ObjectorEnv) else "A" for env in group) == kinds
    tables = [env.table for env in group[: size // 2 * 2]]
    assert len({id(table) for table in tables}) == size // 2
    assert {env.prompt for env in group} == {"short"}


def test_eight_games_at_once(byte_renderer, text_policy):
    group, shown = rollout(text_policy, {"A1": RIGHT, "B": WRONG, "A2": RIGHT}, size=16)
    assert earned(group) == pytest.approx([1.2, -1.0] * 8)
    assert len(shown["A2"]) == 8


def test_metrics_keep_the_sides_apart(byte_renderer, text_policy):
    group, _ = rollout(text_policy, {"A1": RIGHT, "B": "cut off...", "A2": RIGHT})
    one, other = (
        {name for step in trajectory.transitions for name in step.metrics} | set(extra)
        for trajectory, extra in zip(group.trajectories_G, group.metrics_G, strict=True)
    )
    assert "correct" in one - other
    assert "objector_correct" in other - one
    assert group.metrics_G[1]["objector_format_valid"] == 0.0


def test_ties_are_counted_for_each_side(byte_renderer, text_policy):
    group, _ = rollout(text_policy, {"A1": RIGHT, "B": WRONG, "A2": RIGHT}, size=8)
    one, other = group.metrics_G[:2]
    # All of A's rewards are 1.2 and all of B's -1: no signal on either side, though the group has two rewards.
    assert one["reward_uniform_group_rate"] == other["objector_reward_uniform_group_rate"] == 1.0
    assert other["objector_reward_uniform_floor_rate"] == 1.0
    assert one["reward_uniform_floor_rate"] == 0.0
    assert "reward_uniform_group_rate" not in other
    assert group.get_total_rewards() == pytest.approx([0.1] * 8)


def test_alone_it_plays_against_the_scripted_challenger():
    env = make("disruption-selfplay-v0", PAPER, control_rate=0.0)

    async def run():
        await env.initial_observation()
        first = await env.step({"role": "assistant", "content": RIGHT})
        return first, await env.step({"role": "assistant", "content": RIGHT})

    first, last = asyncio.run(run())
    assert "I would say" in first.next_messages[-1]["content"]
    assert last.reward == 1.2
    assert pickle.loads(pickle.dumps(env)).example_id == "disruption-selfplay-v0:W1"


def test_the_first_word_counts_and_waiting_ends():
    async def run():
        table = Table(patience=0.05)
        table.say("A", ("one", "neutral"))
        table.say("A", None)
        heard = await table.hear("A"), await table.hear("B")
        # Once given up, B is too late: both sides agree on what was said.
        table.say("B", ("late", "neutral"))
        return (*heard, await table.hear("B"))

    assert asyncio.run(run()) == (("one", "neutral"), None, None)
