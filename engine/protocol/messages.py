"""The JSON requests of the protocol, named after its routes.

Unknown fields are ignored, so that a newer SDK can send more than is used here.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel as PydanticModel
from pydantic import ConfigDict, Field, ValidationError

from ..compute.adapters import LoraSpec
from ..compute.model import BaseModel
from ..compute.optimizer import AdamSettings
from ..compute.sampling import SampleRequest
from ..compute.token_choice import ChoiceRule, seeded_key
from ..errors import RequestError


class Message(PydanticModel):
    """Base of all requests."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class CreateSession(Message):
    """A new client; a tag ``seed=N`` names the seed of its run."""

    tags: list[str] = []
    user_metadata: dict[str, Any] | None = None
    display_name: str | None = None


class SessionHeartbeat(Message):
    """A sign of life of a client."""

    session_id: str


class OptimizerConfig(Message):
    """The optimizer; only ``adamw`` is served."""

    type: str = "adamw"


class CreateModel(Message):
    """A new adapter; `model_seq_id` is its number in the session."""

    session_id: str
    model_seq_id: int
    base_model: str
    user_metadata: dict[str, Any] | None = None
    lora_config: LoraSpec | None = None
    optimizer_config: OptimizerConfig = OptimizerConfig()


class ModelRef(Message):
    """A model in training, and the number of the request."""

    model_id: str
    seq_id: int | None = None


class OptimStep(ModelRef):
    """A step of the optimizer; only `adam_params` are served."""

    adam_params: AdamSettings | None = None
    optimizer_params: dict[str, Any] | None = None


def expiry(ttl_seconds: int | None) -> str | None:
    """The time that a `ttl_seconds` amounts to, ISO 8601. It is recorded; the engine deletes nothing by itself."""
    return None if ttl_seconds is None else (datetime.now(UTC) + timedelta(seconds=ttl_seconds)).isoformat()


class SaveWeights(ModelRef):
    """For training and for sampling; without a `path` a sampler is opened and nothing is saved."""

    path: str | None = None
    ttl_seconds: int | None = Field(None, ge=1)
    overwrite: bool = False
    user_metadata: dict[str, str] | None = None


class SaveWeightsExternal(SaveWeights):
    """For download: `path` is its name, and the files are encrypted to the recipients."""

    path: str | None = Field(...)
    age_encryption_recipients: list[str] | None = Field(None, max_length=10)


class CopyWeights(Message):
    """A checkpoint to copy to model `model_seq_id` of a session; without a session, to a run of its own."""

    source_path: str
    session_id: str | None = None
    model_seq_id: int | None = None
    ttl_seconds: int | None = Field(None, ge=1)


class LoadWeights(Message):
    """A checkpoint for a model in training, or for a new one in `session_id`."""

    model_id: str | None = None
    seq_id: int | None = None
    session_id: str | None = None
    model_seq_id: int | None = None
    base_model: str | None = None
    user_metadata: dict[str, Any] | None = None
    path: str
    optimizer: bool = False


class CreateSamplingSession(Message):
    """A sampling session on a checkpoint or on a base model."""

    session_id: str
    base_model: str | None = None
    model_path: str | None = None


class JoinSamplingSession(Message):
    """A client in another process that samples from a session."""

    sampling_session_id: str


class Chunk(Message):
    """A part of a prompt; `tokens` is None for all but text."""

    type: str = "encoded_text"
    tokens: list[int] | None = None


class ModelInput(Message):
    """A prompt."""

    chunks: list[Chunk]


class SamplingParams(Message):
    """How to choose tokens, and when to stop: at token ids, at strings, or (None) at the model's end-of-text tokens."""

    max_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    stop: str | list[int] | list[str] | None = None
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0


class Sample(Message):
    """A request for samples of one prompt."""

    num_samples: int = Field(1, ge=1, le=4096)
    prompt: ModelInput
    sampling_params: SamplingParams = SamplingParams()
    sampling_session_id: str | None = None
    seq_id: int | None = None
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = Field(0, ge=0, le=1024)
    topk_sample_logprobs: int = Field(0, ge=0, le=1024)
    target_prompt_logprobs: dict[str, Any] | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None

    def for_model(self, base: BaseModel) -> SampleRequest:
        """What the sampler works on. Samples without a seed have an empty key: the sampling session gives them one.

        Refused are tokens outside the vocabulary, a prompt that leaves no room for `max_tokens`, bad sampling
        parameters, and fields that the local engine does not serve.
        """
        if self.target_prompt_logprobs is not None or self.prompt_alt_tokens_k:
            raise RequestError(
                "target_prompt_logprobs and prompt_alt_tokens_k are not available on the local engine; "
                "use topk_prompt_logprobs or compute_logprobs"
            )
        prompt: list[int] = []
        for chunk in self.prompt.chunks:
            if chunk.tokens is None:
                raise RequestError(f"the prompt holds a {chunk.type!r} chunk; the local engine takes text tokens only")
            prompt += chunk.tokens
        params, last_n = self.sampling_params, self.prompt_logprobs_last_n
        base.check_tokens(prompt, "the prompt", extra=params.max_tokens or 1)
        if last_n is not None and not 1 <= last_n < len(prompt):
            raise RequestError(
                f"prompt_logprobs_last_n must be between 1 and len(prompt) - 1 = {len(prompt) - 1}, got {last_n}"
            )
        stop = [params.stop] if isinstance(params.stop, str) else params.stop
        if stop is not None and "" in stop:
            raise RequestError("sampling_params.stop holds an empty string, which would stop everywhere; leave it out")
        samples = range(self.num_samples)
        return SampleRequest(
            prompt=tuple(prompt),
            keys=tuple(b"" if params.seed is None else seeded_key(params.seed, i) for i in samples),
            max_tokens=params.max_tokens or base.context_length - len(prompt),
            rule=ChoiceRule(params.temperature, params.top_k, params.top_p),
            stop_ids=base.eos_ids if stop is None else frozenset(s for s in stop if isinstance(s, int)),
            stop_strings=tuple(s for s in stop or () if isinstance(s, str)),
            prompt_logprobs=bool(self.prompt_logprobs),
            score_last=last_n,
            topk_prompt=self.topk_prompt_logprobs,
            topk_sampled=self.topk_sample_logprobs,
        )


class RetrieveFuture(Message):
    """A question for the result of a request."""

    request_id: str


class SamplingSessionTarget(Message):
    """A sampling session's client: the one that opened it has number 0."""

    sampling_session_id: str
    cloned_sampler_id: int = 0


class RetrieveFutures(Message):
    """A question which requests of a sampling session's client have finished since `prev_cursor`."""

    target: SamplingSessionTarget
    prev_cursor: int = 0
    timeout: float | None = Field(None, ge=0)
    retrieved_request_ids: list[str] = []


class WeightsInfo(Message):
    """A question about a checkpoint."""

    tinker_path: str


M = TypeVar("M", bound=Message)
Default = TypeVar("Default", int, None)


def parse(kind: type[M], body: bytes) -> M:
    """Read a JSON body; a `RequestError` names every field that is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors()[:5])
        raise RequestError(f"bad {kind.__name__} request: {faults}") from error


def number(query: Mapping[str, str], name: str, default: Default) -> int | Default:
    """A whole number of at least 0 from the query of a request; a `RequestError` if it is anything else."""
    text = query.get(name)
    if text is None:
        return default
    if not text.isdigit():
        raise RequestError(f"query parameter {name!r} must be a whole number of at least 0, got {text!r}")
    return int(text)
