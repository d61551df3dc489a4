"""All that leans on how the cookbook (0.5.8 to 0.6.1) and chz work inside: what goes wrong without it, and what is
replaced.

`tests/recipes/kit/test_compat.py` names each name and habit of theirs that is used here, and fails by that name when
one is gone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chz
import tinker
from chz.util import MISSING
from tinker.lib.base_url import resolve_base_url
from tinker_cookbook.checkpoint_utils import CHECKPOINTS_BASE_NAME, CheckpointRecord
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.rl import train
from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
from tinker_cookbook.rl.types import EnvGroupBuilder, TrajectoryGroup
from tinker_cookbook.utils.misc_utils import all_same

from ...datasets.atomic_files import write_text_atomically
from ..monitoring.metrics import checkpoint_records, read_metrics


def options_of(config: type) -> dict[str, tuple[Any, str]]:
    """Name, default and description of each option of a chz class, those without a default (`MISSING`) first."""
    fields = {name: (field._default, field._doc) for name, field in chz.chz_fields(config).items()}
    return dict(sorted(fields.items(), key=lambda item: item[1][0] is not MISSING))


def service_url() -> str:
    """The address that the SDK's clients talk to in this environment."""
    return resolve_base_url(None).rstrip("/")


SAMPLED, REMOVED = "groups/sampled", "groups/removed"
ROLLOUT = "do_group_rollout_and_filter_constant_reward"
UPDATE = "do_train_step_and_get_sampling_client"
STREAMING_UPDATE = "do_train_step_streaming_and_get_sampling_client"
DPO_CLIENTS = "create_dpo_clients"


@contextmanager
def metrics_of_all_groups() -> Iterator[None]:
    """Let `train.main` log ``env/...`` over all groups where `remove_constant_reward_groups` leaves some out.

    The cookbook computes its metrics from the groups that are left: the share of groups with equal rewards is then 0 by
    construction, and accuracy is that of papers of middling difficulty. Inside the block, metrics are those of all
    groups (``groups/sampled`` and ``groups/removed`` count them); the updates stay the same. In asynchronous training a
    removed group counts for the first update after it was sampled. All group builders of a run have the same tags.
    """
    constant: list[TrajectoryGroup] = []
    rollout, update, streaming_update = (getattr(train, name) for name in (ROLLOUT, UPDATE, STREAMING_UPDATE))

    async def sample(*args: Any, do_remove_constant_reward_groups: bool, **options: Any) -> TrajectoryGroup | None:
        group = await rollout(*args, do_remove_constant_reward_groups=False, **options)
        if group is None or not all_same(group.get_total_rewards()):
            return group
        constant.append(group)
        return None if do_remove_constant_reward_groups else group

    def add_metrics(metrics: dict[str, Any], kept: Sequence[TrajectoryGroup], builder: EnvGroupBuilder) -> None:
        removed = [group for group in constant if not any(group is other for other in kept)]
        constant.clear()
        groups = [*kept, *removed]
        metrics |= compute_trajectory_metrics(groups, [builder.logging_tags()] * len(groups))
        metrics |= {SAMPLED: float(len(groups)), REMOVED: float(len(removed))}

    async def update_with_metrics(*args: Any) -> Any:
        result = await update(*args)
        builders, groups = args[-2:]
        add_metrics(result[1], groups, builders[0])
        return result

    async def streaming_update_with_metrics(*args: Any) -> Any:
        result = await streaming_update(*args)
        if result is not None:
            add_metrics(result[1], [part.trajectory_group for part in result[2]], result[2][0].env_group_builder)
        return result

    replaced = {ROLLOUT: sample, UPDATE: update_with_metrics, STREAMING_UPDATE: streaming_update_with_metrics}
    with _replaced(train, replaced):
        yield


@contextmanager
def dpo_reference_of_the_start() -> Iterator[None]:
    """Let `train_dpo.main` compare with the weights that training started from, also after a restart.

    The cookbook takes its reference from the weights that it begins with. Those of a resumed run are trained already,
    so its reference, and every later step, would differ from those of a run that was not interrupted.
    """
    create_clients = getattr(train_dpo, DPO_CLIENTS)

    def clients(config: train_dpo.Config, service: tinker.ServiceClient, *args: Any) -> tuple[Any, Any]:
        training_client, _ = create_clients(config, service, *args)
        return training_client, starting_policy(service, config.model_name, config.load_checkpoint_path)

    with _replaced(train_dpo, {DPO_CLIENTS: clients}):
        yield


def starting_policy(service: tinker.ServiceClient, model_name: str, start: str | None) -> tinker.SamplingClient:
    """A sampling client of the weights that training starts from: a ``tinker://`` path, or None for the base model."""
    if start is None:
        return service.create_sampling_client(base_model=model_name)
    return service.create_training_client_from_state(start).result().save_weights_and_get_sampling_client()


def prepare_sft_resume(log_path: str | Path, batches: int) -> None:
    """Make an interrupted SFT run go on after its last checkpoint; call it before the loop reads the records.

    With nothing sent ahead, the cookbook's SFT loop saves checkpoint k after update k and records "batch k", so a
    resumed run would repeat batch k on weights that have seen it. This moves each record on by one of the `batches` of
    an epoch, once (``settled`` marks it). Checkpoints are left out as in `prepare_rl_resume`.
    """

    def moved_on(record: CheckpointRecord, logged: set[int]) -> dict | None:
        if record.extra.get("settled"):
            return record.to_dict()
        if int(record.name) not in logged:
            return None
        epoch, batch = divmod(int(record.name) + 1, batches)
        return {**record.to_dict(), "epoch": epoch, "batch": batch, "settled": True}

    _rewrite_records(log_path, "train_mean_nll", moved_on)


def prepare_rl_resume(log_path: str | Path) -> None:
    """Leave out checkpoints whose last step was not logged before an interrupted run of RL or distillation died.

    The run then goes on from the checkpoint before and repeats that step, so that no step lacks metrics.
    """

    def unchanged_if_logged(record: CheckpointRecord, logged: set[int]) -> dict | None:
        return record.to_dict() if not record.batch or record.batch - 1 in logged else None

    _rewrite_records(log_path, "progress/batch", unchanged_if_logged)


def _rewrite_records(
    log_path: str | Path, metric: str, rewritten: Callable[[CheckpointRecord, set[int]], dict | None]
) -> None:
    """Replace the cookbook's `checkpoints.jsonl`, which has no interface for changing records. Final ones stay."""
    path = Path(log_path) / CHECKPOINTS_BASE_NAME
    if not path.is_file():
        return
    logged = {int(row["step"]) for row in read_metrics(log_path) if metric in row}
    records = [
        record.to_dict() if record.final or not record.name.isdigit() else rewritten(record, logged)
        for record in checkpoint_records(log_path)
    ]
    write_text_atomically(path, "".join(json.dumps(record) + "\n" for record in records if record is not None))


@contextmanager
def _replaced(module: Any, functions: dict[str, Callable]) -> Iterator[None]:
    originals = {name: getattr(module, name) for name in functions}
    try:
        for name, function in functions.items():
            setattr(module, name, function)
        yield
    finally:
        for name, function in originals.items():
            setattr(module, name, function)


def ignore_deprecated_calls() -> None:
    """Leave out warnings of the SDK about deprecated methods: the cookbook calls them, and no user can help it."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="tinker")
