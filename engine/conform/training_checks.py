"""Losses against values computed by hand, and what steps do to them."""

import numpy as np

from .client import Client, Datum, Passed, require

TOKENS = [11, 7, 23, 42, 5, 16, 31, 9, 27, 13]
"""Ids that every vocabulary has."""
RATIOS, ADVANTAGES = (0.5, 1.0, 1.5, 2.0), (1.0, -1.0, 1.0, -1.0)
"""Of the last four tokens: the policy's probability over the sampler's, and the advantage."""
IMPORTANCE_SAMPLING = 1.0
"""-(0.5 - 1 + 1.5 - 2)."""
PPO = 1.3
"""-(min(0.5, 0.8) + min(-1, -1) + min(1.5, 1.2) + min(-2, -1.2)), with the ratio clipped to 0.8 and 1.2."""
CLIPPED, BETA = (0.8, 1.0, 1.2, 1.2), 0.05


def supervised(tokens: list[int] = TOKENS) -> Datum:
    """Every token predicts the next; all count once but the first, which counts for nothing."""
    return Datum(tokens[:-1], tokens[1:], {"weights": [0.0, *[1.0] * (len(tokens) - 2)]})


def of_policy(logprobs: np.ndarray, ratios: tuple[float, ...], advantages: tuple[float, ...]) -> Datum:
    """The last tokens were sampled by a policy with these ratios to the one in training."""
    first = len(logprobs) - len(ratios)
    sampled = np.concatenate([np.zeros(first), logprobs[first:] - np.log(ratios)])
    return Datum(TOKENS[:-1], TOKENS[1:], {"logprobs": list(sampled), "advantages": [0.0] * first + list(advantages)})


def forward(client: Client, model: str) -> Passed:
    """The log-probabilities of `TOKENS`."""
    return client.run_pass(model, [supervised()], "cross_entropy", backward=False)


def train(client: Client, model: str) -> None:
    """A pass on `TOKENS` and a step."""
    client.run_pass(model, [supervised()], "cross_entropy")
    client.step(model)


def loss_of(done: Passed) -> float:
    """The sum of a pass's losses."""
    require("loss:sum" in done.metrics, f"metrics have no loss:sum, but {sorted(done.metrics)}")
    return float(done.metrics["loss:sum"])


def close(found: float, wanted: float, tolerance: float, what: str) -> None:
    """Refuse a number that is further from another one than the tolerance."""
    require(abs(found - wanted) <= tolerance, f"{what} is {found:.6g}, and {wanted:.6g} by hand")


def one_logprob_for_every_target(client: Client, tolerance: float) -> None:
    """Log-probabilities: one for every target token, none above 0."""
    (values,) = forward(client, client.create_model()).logprobs
    require(len(values) == len(TOKENS) - 1, f"{len(values)} log-probabilities for {len(TOKENS) - 1} targets")
    require(np.isfinite(values).all() and (values <= 0).all(), f"not all are finite and at most 0: {values}")


def cross_entropy(client: Client, tolerance: float) -> None:
    """cross_entropy is minus the weighted sum of the log-probabilities."""
    done = forward(client, client.create_model())
    close(loss_of(done), -float(done.logprobs[0][1:].sum()), tolerance * len(TOKENS), "loss:sum")


def _policy_loss(client: Client, loss: str, tolerance: float, wanted: float | None = None) -> None:
    model = client.create_model()
    logprobs = forward(client, model).logprobs[0]
    done = client.run_pass(model, [of_policy(logprobs, RATIOS, ADVANTAGES)], loss)
    last, advantages, ratios = logprobs[-len(RATIOS) :], np.array(ADVANTAGES), np.array(RATIOS)
    if loss == "cispo":
        wanted = -float((np.array(CLIPPED) * advantages * last).sum())
    if loss == "dro":
        wanted = -float((advantages * last - BETA / 2 * np.log(ratios) ** 2).sum())
    assert wanted is not None
    close(loss_of(done), wanted, 8 * tolerance * max(1.0, abs(wanted)), "loss:sum")


def importance_sampling(client: Client, tolerance: float) -> None:
    """importance_sampling is minus the sum of ratio times advantage."""
    _policy_loss(client, "importance_sampling", tolerance, IMPORTANCE_SAMPLING)


def ppo(client: Client, tolerance: float) -> None:
    """ppo takes the smaller of the ratio and the clipped ratio times the advantage."""
    _policy_loss(client, "ppo", tolerance, PPO)


def cispo(client: Client, tolerance: float) -> None:
    """cispo weighs the log-probability with the clipped ratio and the advantage."""
    _policy_loss(client, "cispo", tolerance)


def dro(client: Client, tolerance: float) -> None:
    """dro has a quadratic penalty of half of beta = 0.05."""
    _policy_loss(client, "dro", tolerance)


def a_step_lowers_the_loss(client: Client, tolerance: float) -> None:
    """A step of AdamW on a text makes it more probable."""
    model = client.create_model()
    before = loss_of(client.run_pass(model, [supervised()], "cross_entropy"))
    client.step(model)
    after = loss_of(forward(client, model))
    require(after < before, f"the loss was {before:.6g} before the step, and is {after:.6g} after it")


def clipped_tokens_have_no_gradient(client: Client, tolerance: float) -> None:
    """ppo: a token whose ratio is clipped moves nothing, one whose ratio is 1 does."""
    moved = {}
    for ratio in (1.0, 2.0):
        model = client.create_model()
        before = forward(client, model).logprobs[0]
        client.run_pass(model, [of_policy(before, (ratio,) * 4, (1.0,) * 4)], "ppo")
        client.step(model, 0.05)
        moved[ratio] = float(np.abs(forward(client, model).logprobs[0] - before).max())
    require(moved[1.0] > tolerance, f"with a ratio of 1 a step moves log-probabilities by {moved[1.0]:.6g} at most")
    require(moved[2.0] <= tolerance, f"with a clipped ratio a step moves a log-probability by {moved[2.0]:.6g}")


def a_forward_pass_leaves_no_gradient(client: Client, tolerance: float) -> None:
    """A forward pass alone changes nothing at the next step."""
    model = client.create_model()
    before = forward(client, model).logprobs[0]
    client.step(model)
    moved = float(np.abs(forward(client, model).logprobs[0] - before).max())
    require(moved <= tolerance, f"a log-probability moved by {moved:.6g}")


def gradients_accumulate(client: Client, tolerance: float) -> None:
    """Two passes and a step move the weights as one pass on both data and a step."""
    one, other = supervised(), supervised(TOKENS[::-1])
    losses = []
    for parts in ([[one], [other]], [[one, other]]):
        model = client.create_model()
        for part in parts:
            client.run_pass(model, part, "cross_entropy")
        client.step(model)
        losses.append(loss_of(client.run_pass(model, [one, other], "cross_entropy", backward=False)))
    close(losses[0], losses[1], 8 * tolerance * max(1.0, losses[1] / 10), "the loss after two passes")


def requests_are_done_in_order(client: Client, tolerance: float) -> None:
    """Passes and steps that are sent without waiting are done in the order in which they came."""
    waited, sent = client.create_model(), client.create_model()
    for _ in range(3):
        train(client, waited)
    promises = []
    for _ in range(3):
        promises += [client.send_pass(sent, [supervised()], "cross_entropy"), client.send_step(sent, 1e-2)]
    for promise in promises:
        client.result(promise, "forward_backward or optim_step")
    wanted = loss_of(forward(client, waited))
    close(loss_of(forward(client, sent)), wanted, 8 * tolerance * max(1.0, wanted / 10), "the loss after three steps")


def a_repeated_request_is_done_once(client: Client, tolerance: float) -> None:
    """A pass that is sent twice with the same number adds its gradient once: its reply may have been lost."""
    model = client.create_model()
    number = client.number()
    promises = [client.send_pass(model, [supervised()], "cross_entropy", number=number) for _ in range(2)]
    for promise in promises:
        client.passed(promise)
    require(len({promise["request_id"] for promise in promises}) == 1, "the second one got a request_id of its own")
