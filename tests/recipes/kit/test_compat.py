"""What the recipes need of the inside of the cookbook and of chz, by name: a test that fails says what has moved.

`tests/recipes/test_resume.py` and `tests/envs/training/test_training.py` show by training that `recipes.kit.compat`
still does what it is for.
"""

import ast
import inspect
from pathlib import Path
from types import ModuleType

import chz
import pytest
from tinker_cookbook import checkpoint_utils
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.rl import train
from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
from tinker_cookbook.rl.types import TrajectoryGroup
from tinker_cookbook.supervised import train as train_sft
from tinker_cookbook.utils.misc_utils import all_same
from tinker_cookbook.utils.ml_log import MultiplexLogger

from scisci_gym.recipes.kit.compat import (
    DPO_CLIENTS,
    MISSING,
    ROLLOUT,
    STREAMING_UPDATE,
    UPDATE,
    dpo_reference_of_the_start,
    metrics_of_all_groups,
    options_of,
    service_url,
)


def calls(module: ModuleType, name: str) -> list[ast.Call]:
    """Calls of a module-level name in a module: what a replaced attribute of the module catches."""
    found = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
    return [call for call in found if isinstance(call.func, ast.Name) and call.func.id == name]


@pytest.mark.parametrize(
    ("module", "name"), [(train, ROLLOUT), (train, UPDATE), (train, STREAMING_UPDATE), (train_dpo, DPO_CLIENTS)]
)
def test_the_loop_calls_the_function_that_is_replaced(module: ModuleType, name: str) -> None:
    assert callable(getattr(module, name))
    assert calls(module, name), f"{module.__name__} no longer calls {name}"


def test_group_rollouts_are_told_by_keyword_whether_to_remove_constant_groups() -> None:
    for call in calls(train, ROLLOUT):
        assert "do_remove_constant_reward_groups" in {keyword.arg for keyword in call.keywords}


def test_an_update_ends_with_builders_and_groups_and_returns_metrics_second() -> None:
    signature = inspect.signature(getattr(train, UPDATE))
    assert list(signature.parameters)[-2:] == ["env_group_builders_P", "trajectory_groups_P"]
    assert str(signature.return_annotation) == "tuple[tinker.SamplingClient, dict[str, Any]]"
    for call in calls(train, UPDATE):
        assert (len(call.args), call.keywords) == (len(signature.parameters), []), "arguments are positional"


def test_a_streaming_update_returns_metrics_second_and_wrapped_groups_third() -> None:
    returned = str(inspect.signature(getattr(train, STREAMING_UPDATE)).return_annotation)
    assert returned == "tuple[tinker.SamplingClient, dict[str, Any], list[WrappedTrajectoryGroup]] | None"
    assert {"trajectory_group", "env_group_builder"} <= train.WrappedTrajectoryGroup.__annotations__.keys()


def test_the_address_of_the_service_is_that_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    assert service_url().startswith("https://")
    monkeypatch.setenv("TINKER_BASE_URL", "http://127.0.0.1:8765/")
    assert service_url() == "http://127.0.0.1:8765"


def test_metrics_of_groups_are_computed_from_groups_and_tags() -> None:
    assert len(inspect.signature(compute_trajectory_metrics).parameters) == 2
    assert all_same([1.0, 1.0])
    assert not all_same([1.0, 2.0])
    assert callable(TrajectoryGroup.get_total_rewards)


def test_dpo_takes_its_clients_from_configuration_and_service() -> None:
    assert list(inspect.signature(getattr(train_dpo, DPO_CLIENTS)).parameters)[:2] == ["config", "service_client"]
    for call in calls(train_dpo, DPO_CLIENTS):
        assert call.keywords == []


def test_functions_are_put_back() -> None:
    before = [getattr(train, name) for name in (ROLLOUT, UPDATE, STREAMING_UPDATE)], getattr(train_dpo, DPO_CLIENTS)
    with metrics_of_all_groups(), dpo_reference_of_the_start():
        assert getattr(train, ROLLOUT) is not before[0][0]
        assert getattr(train_dpo, DPO_CLIENTS) is not before[1]
    after = [getattr(train, name) for name in (ROLLOUT, UPDATE, STREAMING_UPDATE)], getattr(train_dpo, DPO_CLIENTS)
    assert after == before


def test_checkpoint_records_keep_what_they_do_not_know(tmp_path: Path) -> None:
    record = {"name": "000003", "batch": 3, "epoch": 0, "state_path": "tinker://s", "settled": True}
    read = checkpoint_utils.CheckpointRecord.from_dict(record)
    assert (read.batch, read.epoch, read.final, read.extra) == (3, 0, None, {"settled": True})
    assert read.to_dict() == record
    assert checkpoint_utils.CHECKPOINTS_BASE_NAME == "checkpoints.jsonl"


def test_the_sft_loop_saves_the_batch_that_it_has_trained_on() -> None:
    """`prepare_sft_resume` moves the record on by one: the loop records the batch of the update before the save."""
    assert "submit_ahead" in train_sft.Config.__annotations__
    saves = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(train_sft)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "maybe_save_async"
    ]
    [state] = [ast.unparse(keyword.value) for save in saves for keyword in save.keywords if keyword.arg == "loop_state"]
    assert "'batch': submitted.batch_idx" in state, state


def test_every_metric_goes_through_one_logger() -> None:
    assert list(inspect.signature(MultiplexLogger.log_metrics).parameters) == ["self", "metrics", "step"]


def test_chz_fields_keep_their_default_and_description() -> None:
    @chz.chz
    class Options:
        steps: int = chz.field(default=3, doc="Updates.")
        folder: str

    assert options_of(Options) == {"folder": (MISSING, ""), "steps": (3, "Updates.")}
