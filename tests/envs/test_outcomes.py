"""What a group says most often."""

import pytest
import tinker
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.types import Trajectory, Transition

from scisci_gym.envs.outcomes import majority_metrics

LABELS = ("up", "down")


def answered(label: str) -> Trajectory:
    action = TokensWithLogprobs(tokens=[1], maybe_logprobs=[0.0])
    step = Transition(tinker.ModelInput.empty(), action, reward=0.0, episode_done=True, logs={"predicted": label})
    return Trajectory(transitions=[step], final_ob=tinker.ModelInput.empty())


@pytest.mark.parametrize(
    ("answers", "up", "down"),
    [
        (["up", "up", "down"], 1.0, 0.0),
        (["up", "down"], 0.5, 0.5),
        (["", "", "down"], 0.0, 1.0),
        (["", ""], 0.0, 0.0),
    ],
)
def test_the_most_frequent_label_of_a_group_and_ties_share(answers: list[str], up: float, down: float) -> None:
    found = majority_metrics([answered(label) for label in answers], LABELS)
    assert found == {"majority/up": up, "majority/down": down}


def test_without_labels_there_is_no_majority() -> None:
    assert majority_metrics([answered("3.2")], ()) == {}
