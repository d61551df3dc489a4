"""Sampling: reproducible to the last bit whatever else is in the batch, and faithful to the model."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from scisci_gym.engine.compute import token_choice
from scisci_gym.engine.compute.adapters import AdapterWeights
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.sampling import Sampler, SampleRequest, padded_width
from scisci_gym.engine.compute.token_choice import ChoiceRule, OccurrenceKeys, choose_tokens, uniforms
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.errors import RequestError


def request_pool(base: BaseModel, count: int, seed: int) -> list[SampleRequest]:
    """Requests of all kinds: lengths around the padding steps, groups, greedy, truncated, early and late stops."""
    rng = random.Random(seed)
    pool = []
    for i in range(count):
        length = rng.choice([1, 2, 15, 16, 17, 40, 64, 66, 70, 129, 200])
        pool.append(
            SampleRequest(
                prompt=tuple(rng.randrange(base.vocab_size) for _ in range(length)),
                keys=tuple(f"{seed}:{i}:{j}".encode() for j in range(rng.choice([1, 1, 2, 8, 11]))),
                max_tokens=rng.choice([1, 3, 8, 30, 70]),
                rule=ChoiceRule(rng.choice([0, 1, 1, 0.7]), rng.choice([-1, -1, 5]), rng.choice([1, 1, 0.9])),
                stop_ids=frozenset(rng.sample(range(base.vocab_size), rng.choice([0, 5, 40]))),
                prompt_logprobs=rng.random() < 0.2,
            )
        )
    return pool


@pytest.mark.parametrize(
    ("block_rows", "sizes"),
    [
        (8, (4, 8)),
        (32, (4, 8)),
        pytest.param(8, (2, 5, 10, 20, 30), marks=pytest.mark.slow),
        pytest.param(32, (2, 5, 10, 20, 30), marks=pytest.mark.slow),
    ],
)
def test_a_sample_does_not_depend_on_its_batch(
    block_rows: int, sizes: tuple[int, ...], base: BaseModel, adapter: AdapterWeights
) -> None:
    """Tokens and log-probabilities are equal bit by bit, alone and in random batches, greedy or not."""
    sampler = Sampler(base, block_rows, 256)
    adapter = adapter.snapshot()
    pool = request_pool(base, max(sizes), seed=block_rows)
    alone = [sampler.sample(adapter, [request])[0] for request in pool]
    rng = random.Random(1)
    for size in sizes:
        chosen = rng.sample(range(len(pool)), size)
        # Some prompts were read before the batch was complete.
        sampler.read_ahead(adapter, [pool[i].prompt for i in chosen[::2]])
        together = sampler.sample(adapter, [pool[i] for i in chosen])
        sampler.forget()
        for i, result in zip(chosen, together, strict=True):
            for a, b in zip(result.sequences, alone[i].sequences, strict=True):
                assert (a.tokens, a.logprobs, a.stopped) == (b.tokens, b.logprobs, b.stopped)
            if alone[i].prompt_logprobs is not None:
                np.testing.assert_array_equal(result.prompt_logprobs, alone[i].prompt_logprobs)


def test_two_threads_are_as_exact(base: BaseModel, adapter: AdapterWeights) -> None:
    sampler = Sampler(base, 16, 1)
    pool = [replace(request, max_tokens=2) for request in request_pool(base, 6, seed=5)]
    torch.set_num_threads(2)
    try:
        alone = [sampler.sample(adapter, [request])[0] for request in pool]
        together = sampler.sample(adapter, pool)
    finally:
        torch.set_num_threads(1)
    for a, b in zip(alone, together, strict=True):
        assert [(s.tokens, s.logprobs) for s in a.sequences] == [(s.tokens, s.logprobs) for s in b.sequences]


def test_more_rows_than_fit_at_once(base: BaseModel, adapter: AdapterWeights) -> None:
    request = SampleRequest((5, 6, 7), tuple(str(i).encode() for i in range(300)), 3)
    result = Sampler(base, 32, 256).sample(adapter, [request])[0]
    assert [len(s.tokens) for s in result.sequences] == [3] * 300
    assert len({tuple(s.tokens) for s in result.sequences}) > 50


def test_sampled_logprobs_are_the_trainers(base: BaseModel, adapter: AdapterWeights) -> None:
    """At temperature 0.7 as well: what is reported is the untempered model."""
    rng = np.random.default_rng(0)
    for temperature in (1.0, 0.7):
        prompt = tuple(rng.integers(3, 300, 50).tolist())
        keys = tuple(str(i).encode() for i in range(4))
        request = SampleRequest(prompt, keys, 20, ChoiceRule(temperature), prompt_logprobs=True)
        result = Sampler(base, 8, 256).sample(adapter.snapshot(), [request])[0]
        for sample in result.sequences:
            tokens = np.asarray([*prompt, *sample.tokens])
            inputs = {"target_tokens": tokens[1:], "weights": np.ones(len(tokens) - 1, np.float32)}
            scored = forward_backward(
                base, adapter, [TrainingDatum(tokens[:-1], inputs)], "cross_entropy", {}, backward=False
            ).logprobs[0]
            np.testing.assert_allclose(sample.logprobs, scored[len(prompt) - 1 :], atol=1e-4)
            assert result.prompt_logprobs is not None
            assert np.isnan(result.prompt_logprobs[0])
            np.testing.assert_allclose(result.prompt_logprobs[1:], scored[: len(prompt) - 1], atol=1e-4)


@pytest.mark.parametrize("length", [2, 129, 300])
def test_a_prompt_is_scored_in_one_pass(length: int, base: BaseModel, adapter: AdapterWeights) -> None:
    """The network runs once, the head once per 128 positions; the values are those of all logits at once."""
    prompt = tuple(np.random.default_rng(length).integers(3, base.vocab_size, length).tolist())
    request = SampleRequest(prompt, (), 1, prompt_logprobs=True, topk_prompt=2)
    passes, heads = [], []
    hooks = [
        base.net.model.layers[0].register_forward_hook(lambda *_: passes.append(1)),
        base.net.lm_head.register_forward_hook(lambda *_: heads.append(1)),
    ]
    try:
        (result,) = Sampler(base, 8, 256).sample(adapter.snapshot(), [request])
    finally:
        for hook in hooks:
            hook.remove()
    assert (len(passes), len(heads)) == (1, -(-(length - 1) // 128))
    tokens = torch.tensor([prompt])
    with torch.no_grad(), base.using(adapter.snapshot()):
        expected = base.logits(tokens, torch.arange(length - 1)).log_softmax(-1).gather(1, tokens[0, 1:, None])[:, 0]
    assert result.prompt_logprobs is not None
    np.testing.assert_allclose(result.prompt_logprobs[1:], expected, rtol=1e-5, atol=1e-5)
    assert "forward" not in vars(base.net.model)


def test_samples_follow_the_distribution(base: BaseModel, adapter: AdapterWeights) -> None:
    """4,000 first tokens against the model's probabilities (chi-square, 5 standard deviations)."""
    prompt, count = (9, 8, 7), 4000
    request = SampleRequest(prompt, tuple(str(i).encode() for i in range(count)), 1)
    result = Sampler(base, 32, 256).sample(adapter, [request])[0]
    with torch.no_grad(), base.using(adapter):
        p = torch.softmax(base.logits(torch.tensor([prompt]), torch.tensor([2]))[0], -1).double().numpy()
    seen = np.bincount([s.tokens[0] for s in result.sequences], minlength=len(p))
    common = p * count >= 5
    expected = np.append(p[common], p[~common].sum()) * count
    observed = np.append(seen[common], seen[~common].sum())
    chi2 = ((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum()
    degrees = len(expected) - 1
    assert chi2 < degrees + 5 * np.sqrt(2 * degrees)


def test_stop_tokens_and_strings_belong_to_the_sample(base: BaseModel, adapter: AdapterWeights) -> None:
    sampler = Sampler(base, 8, 256)
    free = SampleRequest((5, 6, 7), (b"a",), 30)
    tokens = sampler.sample(adapter, [free])[0].sequences[0].tokens
    stop = tokens[6]
    by_id = SampleRequest((5, 6, 7), (b"a",), 30, stop_ids=frozenset([stop]))
    sample = sampler.sample(adapter, [by_id])[0].sequences[0]
    assert sample.tokens == tokens[: tokens.index(stop) + 1]
    assert sample.stopped
    text = str(base.tokenizer.decode(tokens))
    wanted = text[8:11]
    by_string = SampleRequest((5, 6, 7), (b"a",), 30, stop_strings=(wanted,))
    sample = sampler.sample(adapter, [by_string])[0].sequences[0]
    assert sample.stopped
    assert wanted in str(base.tokenizer.decode(sample.tokens))
    assert wanted not in str(base.tokenizer.decode(sample.tokens[:-1]))


def test_top_alternatives(base: BaseModel, adapter: AdapterWeights) -> None:
    request = SampleRequest((5, 6, 7), (b"a",), 5, ChoiceRule(0), topk_sampled=3, topk_prompt=2)
    result = Sampler(base, 8, 256).sample(adapter, [request])[0]
    sample = result.sequences[0]
    for token, logprob, (ids, values) in zip(sample.tokens, sample.logprobs, sample.alternatives, strict=True):
        assert ids[0] == token
        assert values[0] == pytest.approx(logprob)
        assert (np.diff(values) <= 0).all()
    assert result.topk_prompt is not None
    assert result.topk_prompt[0].shape == (3, 2)


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (ChoiceRule(0), {2}),
        (ChoiceRule(1, top_k=1), {2}),
        (ChoiceRule(1, top_k=2), {2, 0}),
        (ChoiceRule(1, top_p=0.5), {2}),
        (ChoiceRule(1, top_p=0.51), {2, 0}),
        (ChoiceRule(1), {0, 1, 2, 3}),
    ],
)
def test_truncation(rule: ChoiceRule, allowed: set[int]) -> None:
    logprobs = torch.log(torch.tensor([[0.3, 0.15, 0.5, 0.05]])).expand(400, -1)
    randoms = np.append(np.linspace(0, 1, 399, endpoint=False), np.nextafter(1, 0))
    assert set(choose_tokens(logprobs, randoms, [rule] * 400).tolist()) == allowed


@pytest.mark.parametrize("part", [1, 3, 4, 7, 100])
def test_a_token_is_the_first_whose_running_sum_exceeds_the_random_number(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the vocabulary is cut into parts, of which some add nothing."""
    monkeypatch.setattr(token_choice, "PART", part)
    eighths = [0, 2, 0, 0, 0, 0, 0, 1, 4, 0, 1, 0, 0]
    expected = [token for token, count in enumerate(eighths) for _ in range(count)]
    logprobs = torch.log(torch.tensor([eighths]) / 8).expand(10, -1)
    randoms = np.concatenate([[0], np.arange(8) / 8 + 1 / 16, [np.nextafter(1, 0)]])
    for rule in (ChoiceRule(), ChoiceRule(1, top_k=4)):
        assert choose_tokens(logprobs, randoms, [rule] * 10).tolist() == [1, *expected, 10]


def test_tokens_of_probability_zero_are_never_chosen() -> None:
    logprobs = torch.tensor([[float("-inf"), 0.0, float("-inf")]])
    for u in (0.0, 0.5, np.nextafter(1, 0)):
        assert choose_tokens(logprobs, np.asarray([u]), [ChoiceRule()]).tolist() == [1]


@pytest.mark.parametrize("bad", [{"temperature": -1}, {"top_k": -2}, {"top_p": 0}, {"top_p": 1.5}])
def test_bad_rules_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(RequestError, match=next(iter(bad))):
        ChoiceRule(**bad)  # pyright: ignore[reportArgumentType]


def test_random_streams() -> None:
    assert (uniforms(b"k", 10)[:4] == uniforms(b"k", 4)).all()
    assert (uniforms(b"k", 4) != uniforms(b"l", 4)).any()
    first, again = OccurrenceKeys(0, "w"), OccurrenceKeys(0, "w")
    keys = [first.next((1, 2)) for _ in range(8)]
    assert len(set(keys)) == 8
    assert [again.next((1, 2)) for _ in range(8)] == keys
    assert OccurrenceKeys(1, "w").next((1, 2)) != keys[0]
    assert OccurrenceKeys(0, "v").next((1, 2)) != keys[0]
    assert OccurrenceKeys(None, "w").next((1, 2)) != OccurrenceKeys(None, "w").next((1, 2))


def test_padded_width_is_monotone_and_tight() -> None:
    widths = [padded_width(n) for n in range(1, 3000)]
    assert widths == sorted(widths)
    assert all(n <= w < 1.35 * n + 16 for n, w in zip(range(1, 3000), widths, strict=True))
