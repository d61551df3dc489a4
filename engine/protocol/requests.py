"""From the JSON of an `asample` request to what the sampler works on, with every field checked."""

from ..compute.model import BaseModel
from ..compute.sampling import SampleRequest
from ..compute.token_choice import ChoiceRule, seeded_key
from ..errors import RequestError
from .messages import Sample

UNKEYED = b""
"""Key of a sample whose random numbers the session decides."""


def sample_request(body: Sample, base: BaseModel) -> SampleRequest:
    """Check a request against the model it is for.

    Raises
    ------
    RequestError
        For tokens outside the vocabulary, a prompt that leaves no room for `max_tokens`, bad sampling parameters,
        or a field that the local engine does not serve.
    """
    if body.target_prompt_logprobs is not None or body.prompt_alt_tokens_k:
        raise RequestError(
            "target_prompt_logprobs and prompt_alt_tokens_k are not available on the local engine; "
            "use topk_prompt_logprobs or compute_logprobs"
        )
    params = body.sampling_params
    prompt = body.prompt.ints("the prompt")
    base.check_tokens(prompt, "the prompt", extra=params.max_tokens or 1)
    last_n = body.prompt_logprobs_last_n
    if last_n is not None and not 1 <= last_n < len(prompt):
        raise RequestError(
            f"prompt_logprobs_last_n must be between 1 and len(prompt) - 1 = {len(prompt) - 1}, got {last_n}"
        )
    stop_ids, stop_strings = stop_conditions(params.stop, base)
    if params.seed is None:
        keys = (UNKEYED,) * body.num_samples
    else:
        keys = tuple(seeded_key(params.seed, i) for i in range(body.num_samples))
    return SampleRequest(
        prompt=tuple(prompt),
        keys=keys,
        max_tokens=params.max_tokens or base.context_length - len(prompt),
        rule=ChoiceRule(params.temperature, params.top_k, params.top_p),
        stop_ids=stop_ids,
        stop_strings=stop_strings,
        prompt_logprobs=bool(body.prompt_logprobs),
        score_last=last_n,
        topk_prompt=body.topk_prompt_logprobs,
        topk_sampled=body.topk_sample_logprobs,
    )


def stop_conditions(
    stop: str | list[int] | list[str] | None, base: BaseModel
) -> tuple[frozenset[int], tuple[str, ...]]:
    """Token ids and strings that end a sample: None means the model's own end-of-text tokens, an empty list nothing."""
    if stop is None:
        return base.eos_ids, ()
    if isinstance(stop, str):
        stop = [stop]
    strings = tuple(s for s in stop if isinstance(s, str))
    if "" in strings:
        raise RequestError("sampling_params.stop holds an empty string, which would stop everywhere; leave it out")
    return frozenset(s for s in stop if isinstance(s, int)), strings
