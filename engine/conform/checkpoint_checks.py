"""Checkpoints: what was saved comes back, under names that stay in their place."""

import numpy as np

from .client import Client, checkpoint_route, require
from .training_checks import TOKENS, forward, loss_of, train


def _trained(client: Client) -> str:
    model = client.create_model()
    train(client, model)
    return model


def _load(client: Client, path: str, *, optimizer: bool) -> str:
    body = {**client.place(), "path": path, "optimizer": optimizer, "type": "load_weights"}
    return str(client.promised("load_weights", body).get("model_id"))


def training_goes_on_from_a_checkpoint(client: Client, tolerance: float) -> None:
    """save_weights, and load_weights with the optimizer's state into a new model: the next steps are the same."""
    model = _trained(client)
    path = client.save(model, "save_weights", "conform-state")
    require(path.startswith("tinker://") and "/weights/" in path, f"the path is {path!r}")
    losses = []
    for each in (model, _load(client, path, optimizer=True)):
        for _ in range(2):
            train(client, each)
        losses.append(loss_of(forward(client, each)))
    gap = abs(losses[0] - losses[1])
    require(gap <= 8 * tolerance, f"the loss is {losses[0]:.6g} without a break, {losses[1]:.6g} after loading")


def a_saved_sampler_has_the_weights(client: Client, tolerance: float) -> None:
    """save_weights_for_sampler: its path samples with the weights of that moment, also after further steps."""
    model = _trained(client)
    wanted = forward(client, model).logprobs[0]
    path = client.save(model, "save_weights_for_sampler", "conform-sampler")
    train(client, model)
    told = client.sample(client.sampler(path), TOKENS, scored=True, max_tokens=1).prompt_logprobs
    require(told is not None, "no prompt_logprobs came")
    assert told is not None
    gap = float(np.abs(told[1:] - wanted).max())
    require(gap <= tolerance, f"its log-probabilities differ from those at saving by up to {gap:.6g}")


def checkpoints_are_described_listed_and_deleted(client: Client, tolerance: float) -> None:
    """weights_info, the list of a training run, and DELETE, after which the path is gone."""
    model = client.create_model()
    path = client.save(model, "save_weights", "conform-listed")
    info = client.post("weights_info", {"tinker_path": path})
    require((info.get("is_lora"), info.get("lora_rank")) == (True, 4), f"weights_info says {info}")
    run = path.removeprefix("tinker://").partition("/")[0]
    listed = client.get(f"training_runs/{run}/checkpoints").get("checkpoints", [])
    require(path in [each.get("tinker_path") for each in listed], f"it is not in the list of its run: {listed}")
    reply = client.send("DELETE", checkpoint_route(path))
    require(reply.status < 300, f"DELETE: {reply.text}")
    client.saved.remove(path)
    reply = client.send("POST", "weights_info", {"tinker_path": path})
    require(400 <= reply.status < 500, f"after DELETE weights_info answers {reply.text}")


def a_name_stays_in_its_place(client: Client, tolerance: float) -> None:
    """A checkpoint's name that would leave the folder of checkpoints is refused."""
    model = client.create_model()
    body = {"model_id": model, "path": "../../escaped", "seq_id": client.number(), "type": "save_weights"}
    reply = client.send("POST", "save_weights", body)
    if reply.status < 300 and "request_id" in reply.fields:
        reply = client.send("POST", "retrieve_future", {"request_id": reply.fields["request_id"]})
    require(reply.status >= 400 or "error" in reply.fields, f"the name '../../escaped' was taken: {reply.text}")


def copies(client: Client, tolerance: float) -> None:
    """copy_weights gives a checkpoint another path."""
    path = client.save(client.create_model(), "save_weights", "conform-copied")
    copied = client.post("copy_weights", {"source_path": path, "destination_project_id": "conform"}).get("tinker_path")
    require(isinstance(copied, str) and copied != path, f"copy_weights gives {copied!r}")
    client.saved.append(str(copied))
    require(client.post("weights_info", {"tinker_path": copied}).get("is_lora"), "the copy has no weights_info")


def exports(client: Client, tolerance: float) -> None:
    """save_weights_external and the URLs of its files."""
    path = client.save(client.create_model(), "save_weights_external", "conform-export")
    urls = client.get(f"{checkpoint_route(path)}/external_weights_urls").get("urls")
    require(urls, f"external_weights_urls names no file: {urls}")
