"""Losses and gradients against a second implementation: merged weights, slopes worked out by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from scisci_gym.engine.compute.adapters import AdapterWeights, DoraPair
from scisci_gym.engine.compute.losses import LOSSES
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.errors import RequestError

CONFIGS = {"ppo": {"clip_low_threshold": 0.9, "clip_high_threshold": 1.05}, "dro": {"beta": 0.3}}


def rollouts(base: BaseModel, seed: int = 0) -> list[TrainingDatum]:
    """Three groups: one with a shared prompt, one of equal rollouts, one lone sequence; one rollout has advantage 0."""
    rng = np.random.default_rng(seed)
    data = []
    for prompt_length, completions in ((40, 4), (25, 3), (5, 1)):
        prompt = rng.integers(3, 300, prompt_length)
        fixed = rng.integers(3, 300, 6)
        for j in range(completions):
            completion = fixed if prompt_length == 25 else rng.integers(3, 300, rng.integers(2, 9))
            tokens = np.concatenate([prompt, completion])
            acting = (np.arange(len(tokens) - 1) >= prompt_length - 1).astype(np.float32)
            inputs = {
                "target_tokens": tokens[1:],
                "weights": acting * np.float32(rng.uniform(0.5, 2)),
                "advantages": acting * np.float32(0 if j == 1 else rng.normal()),
                "logprobs": acting * (rng.normal(size=len(acting)).astype(np.float32) * 0.3 - 5.5),
            }
            data.append(TrainingDatum(tokens[:-1], inputs))
    return data


def merged_logits(base: BaseModel, adapter: AdapterWeights, tokens: np.ndarray) -> Tensor:
    """(T, vocabulary) of one sequence, with the adapted weights as plain weights.

    LoRA: W + alpha/r B A. DoRA: each row of that brought to its magnitude, with no gradient through the norm.
    """
    net = base.net
    weights = {name: p.detach() for name, p in net.named_parameters(remove_duplicate=False)}
    for name, pair in adapter.pairs.items():
        weight = weights[f"{name}.weight"] + 32.0 / pair.a.shape[0] * pair.b @ pair.a
        if isinstance(pair, DoraPair):
            norm = (weight.detach() ** 2).sum(dim=1, keepdim=True).sqrt()
            weight = pair.magnitude[:, None] * weight / norm
        weights[f"{name}.weight"] = weight
    out = torch.func.functional_call(net, weights, (torch.from_numpy(tokens)[None],), tie_weights=False)
    return out.logits[0]


def by_hand(
    name: str, p: np.ndarray, inputs: Mapping[str, np.ndarray], config: dict[str, float]
) -> tuple[float, np.ndarray]:
    """Loss, and its slope in every log p, differentiated on paper: in numpy, without autograd.

    A clipped token of PPO (ratio above the range with A > 0, below it with A < 0) adds a constant and has slope 0.
    """
    w, a, q = (inputs.get(key, np.zeros(len(p))).astype(float) for key in ("weights", "advantages", "logprobs"))
    ratio = np.exp(p - q)
    low, high = config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2)
    bounded = np.minimum(np.maximum(ratio, low), high)
    flat = ((a > 0) & (ratio > high)) | ((a < 0) & (ratio < low))
    beta = config.get("beta", 0.05)
    values, slopes = {
        "cross_entropy": (-w * p, -w),
        "importance_sampling": (-ratio * a, -ratio * a),
        "ppo": (-np.where(flat, bounded, ratio) * a, -np.where(flat, 0, ratio) * a),
        "cispo": (-bounded * a * p, -bounded * a),
        "dro": (beta / 2 * (p - q) ** 2 - a * p, beta * (p - q) - a),
    }[name]
    return float(values.sum()), slopes


# Five tokens: p / q = 0.5, 1, 1.5, 0.5, 1.5 with q = 1/2. Ratios below 0.8 and above 1.2 are clipped.
P, Q = np.log([0.25, 0.5, 0.75, 0.25, 0.75]), np.log([0.5] * 5)
WORKED_INPUTS = {"weights": [1, 2, 0, 0.5, 1], "advantages": [1, 1, 1, -1, -1], "logprobs": Q}
LN2, LN3 = float(np.log(2)), float(np.log(3))
# -(0.5 + 1 + 1.5 - 0.5 - 1.5) = -1; for PPO the third ratio counts as 1.2 and the fourth as 0.8, with slope 0.
WORKED = {
    "cross_entropy": ({}, 5 * LN2 + (2 * LN2 - LN3), [-1, -2, 0, -0.5, -1]),
    "importance_sampling": ({}, -1.0, [-0.5, -1, -1.5, 0.5, 1.5]),
    "ppo": ({}, -(0.5 + 1 + 1.2 - 0.8 - 1.5), [-0.5, -1, 0, 0, 1.5]),
    "ppo, wide above": ({"clip_high_threshold": 2.0}, -(0.5 + 1 + 1.5 - 0.8 - 1.5), [-0.5, -1, -1.5, 0, 1.5]),
    "ppo, wide below": ({"clip_low_threshold": 0.1}, -(0.5 + 1 + 1.2 - 0.5 - 1.5), [-0.5, -1, 0, 0.5, 1.5]),
    # The logarithms of the first and fourth, third and fifth cancel: 1 * ln 2 is left.
    "cispo": ({}, LN2, [-0.8, -1, -1.2, 0.8, 1.2]),
    # beta = 0.5: 0.25 (2 ln(1/2)^2 + 2 ln(3/2)^2) - ln(1/2).
    "dro": (
        {"beta": 0.5},
        LN2 + 0.5 * (LN2**2 + (LN3 - LN2) ** 2),
        [-1 - 0.5 * LN2, -1, -1 + 0.5 * (LN3 - LN2), 1 - 0.5 * LN2, 1 + 0.5 * (LN3 - LN2)],
    ),
}


@pytest.mark.parametrize("case", WORKED)
def test_loss_and_slopes_of_five_tokens(case: str) -> None:
    name, (config, loss, slopes) = case.split(",")[0], WORKED[case]
    logprobs = torch.tensor(P, requires_grad=True)
    inputs = {key: torch.tensor(np.asarray(value, float)) for key, value in WORKED_INPUTS.items()}
    value = LOSSES[name](logprobs, inputs, config)
    value.backward()
    assert value.item() == pytest.approx(loss)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx(slopes)
    arrays = {key: np.asarray(of) for key, of in WORKED_INPUTS.items()}
    of_hand = by_hand(name, P, arrays, config)
    assert (of_hand[0], of_hand[1].tolist()) == (pytest.approx(loss), pytest.approx(slopes)), "the oracle below"


def test_every_loss_has_a_worked_example() -> None:
    assert {case.split(",")[0] for case in WORKED} == set(LOSSES)


def grads(adapter: AdapterWeights) -> list[Tensor]:
    out = []
    for parameter in adapter.parameters():
        assert parameter.grad is not None
        out.append(parameter.grad.clone())
        parameter.grad = None
    return out


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient_equal_the_reference(name: str, base: BaseModel, adapter: AdapterWeights) -> None:
    data, config = rollouts(base), CONFIGS.get(name, {})
    result = forward_backward(base, adapter, data, name, config)
    mine = grads(adapter)
    total, clipped = 0.0, []
    for datum, reported in zip(data, result.logprobs, strict=True):
        table = torch.log_softmax(merged_logits(base, adapter, datum.tokens), dim=-1)
        chosen = table.gather(1, torch.from_numpy(datum.inputs["target_tokens"])[:, None])[:, 0]
        # Before the completion A, q and the weights are 0 and say nothing.
        acting = datum.inputs["weights"] > 0
        chosen, inputs = chosen[torch.from_numpy(acting)], {k: v[acting] for k, v in datum.inputs.items()}
        loss, slopes = by_hand(name, chosen.detach().double().numpy(), inputs, config)
        total += loss
        (chosen * torch.from_numpy(slopes).float()).sum().backward()
        clipped += ((slopes == 0) & (inputs["advantages"] != 0)).tolist()
        np.testing.assert_allclose(reported[acting], chosen.detach().numpy(), atol=2e-5)
    theirs = grads(adapter)
    assert (0 < sum(clipped) < len(clipped)) is (name == "ppo"), "some tokens are clipped, not all"
    assert result.metrics["loss:sum"] == pytest.approx(total, rel=1e-4)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-4)


def test_gradient_by_finite_differences(base: BaseModel, adapter: AdapterWeights) -> None:
    data = rollouts(base, seed=3)
    forward_backward(base, adapter, data, "importance_sampling", {})
    analytic = grads(adapter)
    generator = torch.Generator().manual_seed(0)
    direction = [torch.randn(g.shape, generator=generator) for g in analytic]
    if adapter.spec.kind == "dora":
        # The gradient in A and B takes the norm for a constant; only along the magnitudes is it that of the loss.
        direction = [d if d.ndim == 1 else torch.zeros_like(d) for d in direction]
    step = 1e-3

    def loss_at(distance: float) -> float:
        for parameter, d in zip(adapter.parameters(), direction, strict=True):
            parameter.data += distance * d
        value = forward_backward(base, adapter, data, "importance_sampling", {}, backward=False).metrics["loss:sum"]
        for parameter, d in zip(adapter.parameters(), direction, strict=True):
            parameter.data -= distance * d
        return value

    numeric = (loss_at(step) - loss_at(-step)) / (2 * step)
    along = sum(float((g * d).sum()) for g, d in zip(analytic, direction, strict=True))
    assert numeric == pytest.approx(along, rel=2e-2)


def test_gradients_accumulate_and_a_forward_pass_leaves_none(base: BaseModel, adapter: AdapterWeights) -> None:
    first, second = rollouts(base, 1), rollouts(base, 2)
    forward_backward(base, adapter, first, "ppo", {})
    forward_backward(base, adapter, second, "ppo", {})
    apart = grads(adapter)
    forward_backward(base, adapter, first + second, "ppo", {})
    together = grads(adapter)
    for a, b in zip(apart, together, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    forward_backward(base, adapter, first, "ppo", {}, backward=False)
    assert all(p.grad is None for p in adapter.parameters())


def test_equal_inputs_with_different_advantages_add_up(base: BaseModel, adapter: AdapterWeights) -> None:
    one = rollouts(base)[0]
    twice = TrainingDatum(one.tokens, {**one.inputs, "advantages": one.inputs["advantages"] * -3})
    result = forward_backward(base, adapter, [one, twice], "importance_sampling", {})
    both = grads(adapter)
    forward_backward(base, adapter, [one], "importance_sampling", {})
    single = grads(adapter)
    for a, b in zip(both, single, strict=True):
        torch.testing.assert_close(a, -2 * b, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(result.logprobs[0], result.logprobs[1])


def test_the_order_of_the_data_does_not_matter(base: BaseModel, adapter: AdapterWeights) -> None:
    """Not in the last bit: a client's threads shuffle equal prompts."""
    data = rollouts(base)
    forward_backward(base, adapter, data, "importance_sampling", {})
    first = grads(adapter)
    forward_backward(base, adapter, data[::-1], "importance_sampling", {})
    assert all(torch.equal(a, b) for a, b in zip(first, grads(adapter), strict=True))


def test_soft_targets(base: BaseModel, adapter: AdapterWeights) -> None:
    """target_tokens (T, K): every position scores K candidates."""
    tokens = np.asarray([5, 6, 7, 8])
    targets = np.asarray([[6, 9], [7, 9], [8, 9], [9, 10]])
    weights = np.asarray([[0.5, 0.5]] * 4, np.float32)
    datum = TrainingDatum(tokens, {"target_tokens": targets, "weights": weights})
    result = forward_backward(base, adapter, [datum], "cross_entropy", {}, backward=False)
    table = torch.log_softmax(merged_logits(base, adapter, tokens), dim=-1).detach()
    expected = table.gather(1, torch.from_numpy(targets)).numpy()
    np.testing.assert_allclose(result.logprobs[0], expected, atol=1e-5)
    assert result.metrics["loss:sum"] == pytest.approx(-float((expected * weights).sum()), rel=1e-5)


def bad(**changes: Any) -> TrainingDatum:
    inputs: dict[str, np.ndarray] = {"target_tokens": np.asarray([4, 5]), "weights": np.ones(2, np.float32), **changes}
    return TrainingDatum(np.asarray([3, 4]), {k: v for k, v in inputs.items() if v is not None})


@pytest.mark.parametrize(
    ("loss", "datum", "config", "message"),
    [
        ("stable_reinforce", bad(), {}, "choose one of cross_entropy, importance_sampling"),
        ("cross_entropy", bad(weights=None), {}, "has no loss_fn_inputs\\['weights'\\]"),
        ("cross_entropy", bad(target_tokens=None), {}, "target_tokens"),
        ("cross_entropy", bad(weights=np.ones(3, np.float32)), {}, "shape \\(3,\\)"),
        ("cross_entropy", bad(weights=np.asarray([1, np.nan], np.float32)), {}, "not finite"),
        ("cross_entropy", bad(target_tokens=np.asarray([4, 99999])), {}, "id 99999, outside the vocabulary"),
        ("ppo", bad(), {}, "'advantages'"),
        ("cross_entropy", bad(), {"beta": 1.0}, "unknown keys \\['beta'\\]"),
    ],
)
def test_bad_data_are_refused(
    loss: str, datum: TrainingDatum, config: dict[str, float], message: str, base: BaseModel, adapter: AdapterWeights
) -> None:
    with pytest.raises(RequestError, match=message):
        forward_backward(base, adapter, [datum], loss, config)
    assert all(p.grad is None for p in adapter.parameters())
