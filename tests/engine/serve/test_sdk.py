"""The unmodified tinker SDK over HTTP."""

import asyncio
import pickle
from pathlib import Path

import numpy as np
import pytest
import tinker
import torch
from tinker import types
from toy_data import random_tokens, supervised

from scisci_gym.engine import Engine


@pytest.fixture
def rest(engine: Engine) -> tinker.RestClient:
    """Named by its address: the SDK keeps one for all that are not, even if the environment has changed since."""
    return tinker.RestClient(base_url=engine.url, api_key=engine.api_key)


def prompt_of(tokens: list[int]) -> types.ModelInput:
    return types.ModelInput.from_ints(tokens)


def test_training_lowers_the_loss_and_steps_are_pipelined(trainer: tinker.TrainingClient) -> None:
    data = [supervised(random_tokens(30, seed)) for seed in range(4)]
    pairs = [
        (trainer.forward_backward(data, "cross_entropy"), trainer.optim_step(types.AdamParams(learning_rate=5e-3)))
        for _ in range(6)
    ]
    losses = []
    for done, step in pairs:
        losses.append(done.result().metrics["loss:sum"])
        assert step.result().metrics["grad_norm:mean"] > 0
    assert losses[-1] < 0.9 * losses[0]
    out = trainer.forward(data, "cross_entropy").result()
    assert [len(o["logprobs"].data) for o in out.loss_fn_outputs] == [29] * 4
    assert out.metrics["loss:sum"] == pytest.approx(
        -sum(sum(o["logprobs"].data) for o in out.loss_fn_outputs), rel=1e-4
    )


def test_a_step_is_adamw(trainer: tinker.TrainingClient, service: tinker.ServiceClient, tiny_model: Path) -> None:
    """Two accumulated passes and clipping move the weights as one pass on both data does."""
    one, two = supervised(random_tokens(20, 1)), supervised(random_tokens(25, 2))
    twin = service.create_lora_training_client(base_model=str(tiny_model), rank=4, seed=7).result()
    settings = types.AdamParams(learning_rate=1e-2, grad_clip_norm=0.5, weight_decay=0.01)
    for _ in range(3):
        trainer.forward_backward([one], "cross_entropy").result()
        trainer.forward_backward([two], "cross_entropy").result()
        trainer.optim_step(settings).result()
        twin.forward_backward([one, two], "cross_entropy").result()
        twin.optim_step(settings).result()
    losses = [client.forward([one, two], "cross_entropy").result().metrics["loss:sum"] for client in (trainer, twin)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_custom_losses(trainer: tinker.TrainingClient) -> None:
    """forward_backward_custom with the cross-entropy written by hand moves the weights as cross_entropy does."""
    data = [supervised(random_tokens(20, 3), first=10)]

    def by_hand(data: list[types.Datum], logprobs: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        weights = [d.loss_fn_inputs["weights"].to_torch() for d in data]
        return -sum((w * p).sum() for w, p in zip(weights, logprobs, strict=True)), {"mine": 1.0}  # pyright: ignore

    custom = trainer.forward_backward_custom(data, by_hand).result()
    first = trainer.optim_step(types.AdamParams(learning_rate=0.0)).result().metrics["grad_norm:mean"]
    builtin = trainer.forward_backward(data, "cross_entropy").result()
    second = trainer.optim_step(types.AdamParams(learning_rate=0.0)).result().metrics["grad_norm:mean"]
    assert custom.metrics["mine"] == 1.0
    assert custom.metrics["loss:sum"] == pytest.approx(builtin.metrics["loss:sum"], rel=1e-5)
    assert first == pytest.approx(second, rel=1e-4)


def test_sampling(trainer: tinker.TrainingClient) -> None:
    sampler = trainer.save_weights_and_get_sampling_client().result()
    prompt = random_tokens(12, 0)
    params = types.SamplingParams(max_tokens=9, seed=3, stop=[])
    first = sampler.sample(prompt_of(prompt), 4, params, include_prompt_logprobs=True).result()
    again = sampler.sample(prompt_of(prompt), 4, params).result()
    assert [s.tokens for s in first.sequences] == [s.tokens for s in again.sequences]
    assert len({tuple(s.tokens) for s in first.sequences}) == 4
    assert [len(s.tokens) for s in first.sequences] == [9] * 4
    assert {s.stop_reason for s in first.sequences} == {"length"}
    assert first.prompt_logprobs is not None
    assert first.prompt_logprobs[0] is None
    assert first.prompt_logprobs == sampler.compute_logprobs(prompt_of(prompt)).result()
    last = sampler.compute_logprobs(prompt_of(prompt), prompt_logprobs_last_n=3).result()
    assert last[:-3] == [None] * 9
    assert last[-3:] == pytest.approx(first.prompt_logprobs[-3:], abs=1e-5)
    tokens = first.sequences[0].tokens
    scored = trainer.forward([supervised([*prompt, *tokens])], "cross_entropy").result().loss_fn_outputs[0]["logprobs"]
    np.testing.assert_allclose(first.sequences[0].logprobs, scored.data[11:], atol=1e-4)


def test_stops(trainer: tinker.TrainingClient) -> None:
    sampler = trainer.save_weights_and_get_sampling_client().result()
    tokenizer = trainer.get_tokenizer()
    prompt = prompt_of(random_tokens(12, 0))
    free = sampler.sample(prompt, 1, types.SamplingParams(max_tokens=20, seed=3, stop=[])).result().sequences[0]
    token = free.tokens[7]
    by_id = sampler.sample(prompt, 1, types.SamplingParams(max_tokens=20, seed=3, stop=[token])).result().sequences[0]
    assert by_id.tokens == free.tokens[: free.tokens.index(token) + 1]
    assert by_id.stop_reason == "stop"
    wanted = tokenizer.decode(free.tokens)[5:8]
    for stop in (wanted, [wanted, "never seen"]):
        sample = sampler.sample(prompt, 1, types.SamplingParams(max_tokens=20, seed=3, stop=stop)).result().sequences[0]
        assert sample.stop_reason == "stop"
        assert wanted in tokenizer.decode(sample.tokens)
        assert sample.tokens == free.tokens[: len(sample.tokens)]


def test_requests_without_a_seed_repeat_in_a_new_session(trainer: tinker.TrainingClient) -> None:
    """Equal weights, prompt and order give equal samples; equal prompts within a session differ."""
    prompt = prompt_of(random_tokens(10, 4))

    def group() -> list[tuple[int, ...]]:
        sampler = trainer.save_weights_and_get_sampling_client().result()
        futures = [sampler.sample(prompt, 1, types.SamplingParams(max_tokens=8)) for _ in range(8)]
        return [tuple(f.result().sequences[0].tokens) for f in futures]

    first = group()
    assert group() == first
    assert len(set(first)) > 4


def test_weights_are_frozen_in_a_sampler(trainer: tinker.TrainingClient) -> None:
    prompt = prompt_of(random_tokens(10, 5))
    before = trainer.save_weights_and_get_sampling_client().result()
    scores = before.compute_logprobs(prompt).result()
    trainer.forward_backward([supervised(random_tokens(20, 6))], "cross_entropy").result()
    trainer.optim_step(types.AdamParams(learning_rate=1e-1)).result()
    assert before.compute_logprobs(prompt).result() == scores
    assert trainer.save_weights_and_get_sampling_client().result().compute_logprobs(prompt).result() != scores


def test_many_samplers(trainer: tinker.TrainingClient) -> None:
    """More sessions than stay in memory: the first is read back from disk."""
    prompt = prompt_of(random_tokens(10, 5))
    first = trainer.save_weights_and_get_sampling_client().result()
    scores = first.compute_logprobs(prompt).result()
    for _ in range(20):
        trainer.save_weights_and_get_sampling_client().result()
    assert first.compute_logprobs(prompt).result() == scores


def test_state_is_restored_exactly(trainer: tinker.TrainingClient, service: tinker.ServiceClient) -> None:
    data = [supervised(random_tokens(30, seed)) for seed in range(3)]
    settings = types.AdamParams(learning_rate=1e-2)

    def step(client: tinker.TrainingClient) -> float:
        loss = client.forward_backward(data, "cross_entropy").result().metrics["loss:sum"]
        client.optim_step(settings).result()
        return loss

    step(trainer)
    step(trainer)
    path = trainer.save_state("middle", ttl_seconds=3600).result().path
    uninterrupted = [step(trainer) for _ in range(3)]
    resumed = service.create_training_client_from_state_with_optimizer(path).result()
    assert [step(resumed) for _ in range(3)] == uninterrupted
    weights_only = service.create_training_client_from_state(path).result()
    fresh = [step(weights_only) for _ in range(3)]
    assert fresh[0] == uninterrupted[0]
    assert fresh[2] != uninterrupted[2]


def test_checkpoints_over_rest(
    trainer: tinker.TrainingClient, service: tinker.ServiceClient, rest: tinker.RestClient
) -> None:
    path = trainer.save_state("one").result().path
    sampler_path = trainer.save_weights_for_sampler("two").result().path
    info = rest.get_weights_info_by_tinker_path(path).result()
    assert (info.is_lora, info.lora_rank, info.train_mlp) == (True, 4, True)
    run = rest.get_training_run_by_tinker_path(path).result()
    assert run.lora_rank == 4
    assert run.last_checkpoint is not None
    assert run.last_checkpoint.tinker_path == path
    listed = rest.list_checkpoints(run.training_run_id).result().checkpoints
    assert {c.tinker_path for c in listed} == {path, sampler_path}
    assert run.training_run_id in {
        r.training_run_id for r in rest.list_training_runs(limit=1000).result().training_runs
    }
    prompt = prompt_of(random_tokens(10, 8))
    from_path = service.create_sampling_client(model_path=sampler_path).result()
    assert from_path.compute_logprobs(prompt).result() == (
        trainer.save_weights_and_get_sampling_client().result().compute_logprobs(prompt).result()
    )
    assert from_path.get_tokenizer().eos_token == "<|im_end|>"
    rest.delete_checkpoint_from_tinker_path(path).result()
    with pytest.raises(tinker.NotFoundError, match="no checkpoint"):
        rest.get_weights_info_by_tinker_path(path).result()
    with pytest.raises(tinker.RequestFailedError, match="no optimizer state"):
        service.create_training_client_from_state_with_optimizer(sampler_path).result()


def test_names(service: tinker.ServiceClient, rest: tinker.RestClient, tiny_model: Path) -> None:
    """A mapped name, the folder itself, and a name that means nothing."""
    prompt = prompt_of(random_tokens(10, 8))
    by_name = service.create_sampling_client(base_model="tiny").result()
    by_path = service.create_sampling_client(base_model=str(tiny_model)).result()
    assert by_name.compute_logprobs(prompt).result() == by_path.compute_logprobs(prompt).result()
    with pytest.raises(tinker.NotFoundError, match="this server has 'tiny'"):
        service.create_sampling_client(base_model="Qwen/Qwen3-8B").result()
    models = rest.get_server_capabilities().result().supported_models
    assert [m.model_name for m in models] == ["tiny"]


def test_partial_adapters_and_several_models(service: tinker.ServiceClient, tiny_model: Path) -> None:
    data = [supervised(random_tokens(20, 9))]
    norms = set()
    for parts in ({"train_mlp": False}, {"train_attn": False}, {"train_unembed": False}):
        client = service.create_lora_training_client(base_model=str(tiny_model), rank=2, seed=1, **parts).result()
        client.forward_backward(data, "cross_entropy").result()
        norms.add(client.optim_step(types.AdamParams()).result().metrics["grad_norm:mean"])
    assert len(norms) == 3


def test_errors_reach_the_client(trainer: tinker.TrainingClient) -> None:
    with pytest.raises(tinker.RequestFailedError, match="choose one of cross_entropy") as error:
        trainer.forward_backward([supervised([3, 4, 5])], "stable_reinforce").result()
    assert error.value.category == types.RequestErrorCategory.User
    sampler = trainer.save_weights_and_get_sampling_client().result()
    with pytest.raises(tinker.BadRequestError, match="more than the context"):
        sampler.sample(prompt_of([3] * 2100), 1, types.SamplingParams(max_tokens=1)).result()
    with pytest.raises(tinker.BadRequestError, match="token id 99999"):
        sampler.sample(prompt_of([99999]), 1, types.SamplingParams(max_tokens=1)).result()
    with pytest.raises(tinker.BadRequestError, match="top_p"):
        sampler.sample(prompt_of([5]), 1, types.SamplingParams(max_tokens=1, top_p=0.0)).result()
    # The engine goes on.
    assert trainer.forward([supervised([3, 4, 5])], "cross_entropy").result().metrics["loss:sum"] > 0


def test_concurrent_clients(service: tinker.ServiceClient, tiny_model: Path) -> None:
    """Four training clients and their samplers at once give what each gives alone."""

    async def work(seed: int) -> tuple[list[float], list[int]]:
        client = await service.create_lora_training_client(base_model=str(tiny_model), rank=4, seed=seed)
        losses = []
        for i in range(3):
            done = client.forward_backward([supervised(random_tokens(20, 10 * seed + i))], "cross_entropy")
            step = client.optim_step(types.AdamParams(learning_rate=1e-2))
            losses.append((await done).metrics["loss:sum"])
            await step
        sampler = await client.save_weights_and_get_sampling_client()
        sample = await sampler.sample(prompt_of([5, 6, 7]), 1, types.SamplingParams(max_tokens=8, seed=0))
        return losses, list(sample.sequences[0].tokens)

    async def all_at_once() -> list[tuple[list[float], list[int]]]:
        return await asyncio.gather(*(work(seed) for seed in range(4)))

    async def one_by_one() -> list[tuple[list[float], list[int]]]:
        return [await work(seed) for seed in range(4)]

    assert asyncio.run(all_at_once()) == asyncio.run(one_by_one())


def test_a_pickled_sampler_works(trainer: tinker.TrainingClient, engine: Engine) -> None:
    sampler = trainer.save_weights_and_get_sampling_client().result()
    copy = pickle.loads(pickle.dumps(sampler))
    params = types.SamplingParams(max_tokens=8, seed=0)
    samples = [s.sample(prompt_of([5, 6, 7]), 1, params).result().sequences[0].tokens for s in (sampler, copy)]
    assert samples[0] == samples[1]
