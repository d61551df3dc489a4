"""Samples: seeds, stops, and log-probabilities that are those of training."""

import numpy as np

from .client import Client, Datum, require
from .training_checks import TOKENS

MANY, LONG = 8, 12
"""Samples of a request, and tokens of a sample."""


def a_seed_decides_the_samples(client: Client, tolerance: float) -> None:
    """The same seed gives the same samples in a new sampling session, another seed gives others."""
    drawn = [
        [tokens for tokens, _, _ in client.sample(client.sampler(), TOKENS, MANY, seed=seed, max_tokens=LONG).sequences]
        for seed in (1, 1, 2)
    ]
    require(drawn[0] == drawn[1], "seed 1 gave other samples the second time")
    require(drawn[0] != drawn[2], "seeds 1 and 2 gave the same samples")
    require(len({tuple(tokens) for tokens in drawn[0]}) > 1, f"the {MANY} samples of one request are all the same")


def temperature_0_is_greedy(client: Client, tolerance: float) -> None:
    """Without temperature the same answer comes whatever the seed."""
    drawn = [
        client.sample(client.sampler(), TOKENS, temperature=0.0, seed=seed, max_tokens=LONG).sequences[0][0]
        for seed in (1, 2)
    ]
    require(drawn[0] == drawn[1], f"two greedy answers differ: {drawn[0]} and {drawn[1]}")


def sampled_logprobs_are_those_of_training(client: Client, tolerance: float) -> None:
    """The log-probabilities of sampled tokens are those that a forward pass gives them."""
    model = client.create_model()
    sampled = client.sample(client.sampler_of(model), TOKENS, seed=3, max_tokens=LONG)
    tokens, logprobs, _ = sampled.sequences[0]
    require(len(tokens) == len(logprobs), f"{len(logprobs)} log-probabilities for {len(tokens)} sampled tokens")
    whole = [*TOKENS, *tokens]
    scored = client.run_pass(
        model, [Datum(whole[:-1], whole[1:], {"weights": [1.0] * (len(whole) - 1)})], "cross_entropy", backward=False
    )
    gap = float(np.abs(scored.logprobs[0][-len(tokens) :] - logprobs).max())
    require(gap <= tolerance, f"they differ by up to {gap:.6g}; RL needs at most {tolerance:g}")


def prompt_logprobs_are_those_of_training(client: Client, tolerance: float) -> None:
    """compute_logprobs gives one value for every token of the prompt, none for the first."""
    model = client.create_model()
    told = client.sample(client.sampler_of(model), TOKENS, scored=True, max_tokens=1).prompt_logprobs
    require(told is not None and len(told) == len(TOKENS), f"prompt_logprobs is {told}")
    assert told is not None
    require(np.isnan(told[0]), f"the first token has the log-probability {told[0]}, and should have none (NaN)")
    data = [Datum(TOKENS[:-1], TOKENS[1:], {"weights": [1.0] * (len(TOKENS) - 1)})]
    gap = float(np.abs(client.run_pass(model, data, "cross_entropy", backward=False).logprobs[0] - told[1:]).max())
    require(gap <= tolerance, f"they differ from those of training by up to {gap:.6g}")


def limits_and_stops(client: Client, tolerance: float) -> None:
    """max_tokens ends an answer with "length"; a stop token ends it with "stop" and belongs to it."""
    sampler = client.sampler()
    free, _, reason = client.sample(sampler, TOKENS, temperature=0.0, stop=[], max_tokens=LONG).sequences[0]
    require((len(free), reason) == (LONG, "length"), f"{len(free)} tokens, {reason!r}; wanted {LONG} and 'length'")
    stop = free[3]
    wanted = free[: free.index(stop) + 1]
    ended, _, reason = client.sample(sampler, TOKENS, temperature=0.0, stop=[stop], max_tokens=LONG).sequences[0]
    require((ended, reason) == (wanted, "stop"), f"with stop=[{stop}]: {ended}, {reason!r}; wanted {wanted} and 'stop'")


def many_requests_at_once(client: Client, tolerance: float) -> None:
    """A sample with a seed does not depend on what else was asked for."""
    sampler = client.sampler()
    alone = client.sample(sampler, TOKENS, seed=5, max_tokens=LONG).sequences[0][0]
    client.sample(sampler, TOKENS[:4], MANY, seed=6, max_tokens=LONG)
    again = client.sample(sampler, TOKENS, 3, seed=5, max_tokens=LONG).sequences[0][0]
    require(alone == again, f"{alone} by itself, {again} as the first of three")
