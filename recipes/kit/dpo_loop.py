"""The DPO loop around the cookbook's `do_update`, with a reference that survives a restart.

`train_dpo.main` (0.5.8 and 0.6.1) takes its reference from the weights it starts with. A resumed run starts with
weights that are trained already, so its reference, and every later step, would differ from those of one that was not.
"""

from __future__ import annotations

import tinker
from tinker_cookbook import checkpoint_utils
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.tokenizer_utils import get_tokenizer
from tinker_cookbook.utils import ml_log
from tinker_cookbook.utils.git_rev import recipe_user_metadata


def reference_client(service: tinker.ServiceClient, model_name: str, start: str | None) -> tinker.SamplingClient:
    """A sampling client of the weights that training starts from.

    Parameters
    ----------
    start : str or None
        ``tinker://`` path of a training state; None for the base model.
    """
    if start is None:
        return service.create_sampling_client(base_model=model_name)
    return service.create_training_client_from_state(start).result().save_weights_and_get_sampling_client()


def dpo_loop(config: train_dpo.Config) -> None:
    """Train to the end, from the last checkpoint in `log_path` if there is one."""
    last = checkpoint_utils.get_last_checkpoint(config.log_path)
    logger = ml_log.setup_logging(
        log_dir=config.log_path,
        wandb_project=config.wandb_project,
        wandb_name=config.wandb_name,
        config=config,
        do_configure_logging_module=True,
    )
    service = tinker.ServiceClient(base_url=config.base_url, user_metadata=recipe_user_metadata(config.recipe_name))
    metadata: dict[str, str] = {}
    checkpoint_utils.add_renderer_name_to_user_metadata(metadata, config.renderer_name)
    client = _training_client(config, service, last, metadata)
    reference = reference_client(service, config.model_name, config.load_checkpoint_path)
    saves = checkpoint_utils.CheckpointManager(
        training_client=client,
        service_client=service,
        log_path=config.log_path,
        save_every=config.save_every,
        ttl_seconds=config.ttl_seconds,
        store=logger.store,
    )
    dataset, _ = config.dataset_builder()
    batches = len(dataset)
    total = batches * config.num_epochs
    evaluators = [build() for build in config.evaluator_builders]
    first = 0 if last is None else (last.epoch or 0) * batches + (last.batch or 0)
    epoch = -1
    for step in range(first, total):
        if step // batches != epoch:
            epoch = step // batches
            dataset.set_epoch(seed=epoch)
        train_dpo.do_update(
            epoch_idx=epoch,
            batch_idx=step % batches,
            n_batches=batches,
            total_steps=total,
            config=config,
            training_client=client,
            reference_client=reference,
            evaluators=evaluators,
            infrequent_evaluators=[],
            dataset=dataset,
            ml_logger=logger,
            log_path=config.log_path,
            tokenizer=get_tokenizer(config.model_name),
            checkpoint_mgr=saves,
        )
    if first < total:
        saves.save_final(loop_state={"epoch": config.num_epochs, "batch": 0})
    else:
        saves.finalize()
    logger.close()


def _training_client(
    config: train_dpo.Config,
    service: tinker.ServiceClient,
    last: checkpoint_utils.CheckpointRecord | None,
    metadata: dict[str, str],
) -> tinker.TrainingClient:
    if last is not None and last.state_path is not None:
        return service.create_training_client_from_state_with_optimizer(
            last.state_path, user_metadata=metadata
        ).result()
    if config.load_checkpoint_path:
        return service.create_training_client_from_state(config.load_checkpoint_path, user_metadata=metadata).result()
    return service.create_lora_training_client(
        base_model=config.model_name, rank=config.lora_rank, user_metadata=metadata
    ).result()
