"""The JSON requests of the protocol. Unknown fields are ignored, so that a newer SDK can send more than is used
here.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..compute.adapters import LoraSpec
from ..errors import RequestError


class Message(BaseModel):
    """Base of all requests."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class CreateSession(Message):
    """A new client; a tag ``seed=N`` names the seed of its run."""

    tags: list[str] = []
    user_metadata: dict[str, Any] | None = None


class LoraConfig(Message):
    """What to adapt, see `LoraSpec`."""

    rank: int
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True

    def spec(self) -> LoraSpec:
        """The same as a checked `LoraSpec`."""
        return LoraSpec(**self.model_dump())


class OptimizerConfig(Message):
    """The optimizer; only ``adamw`` is served."""

    type: str = "adamw"


class SessionHeartbeat(Message):
    """A sign of life of a client."""

    session_id: str


class CreateModel(Message):
    """A new adapter; `model_seq_id` is its number in the session."""

    session_id: str
    model_seq_id: int
    base_model: str
    user_metadata: dict[str, Any] | None = None
    lora_config: LoraConfig | None = None
    optimizer_config: OptimizerConfig = OptimizerConfig()


class ModelRef(Message):
    """A model in training, and the number of the request."""

    model_id: str
    seq_id: int | None = None


class AdamParams(Message):
    """The settings of one step of AdamW."""

    learning_rate: float = Field(1e-4, ge=0, allow_inf_nan=False)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    eps: float = Field(1e-12, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    grad_clip_norm: float = 0.0


class OptimStep(ModelRef):
    """A step of the optimizer."""

    adam_params: AdamParams | None = None
    optimizer_params: dict[str, Any] | None = None


class SaveWeights(ModelRef):
    """For training and for sampling; without a `path` a sampler is opened and nothing is saved."""

    path: str | None = None
    ttl_seconds: int | None = Field(None, ge=1)
    overwrite: bool = False
    user_metadata: dict[str, str] | None = None

    def expires_at(self) -> str | None:
        """The time that `ttl_seconds` amounts to, ISO 8601. It is recorded; the engine deletes nothing by itself."""
        if self.ttl_seconds is None:
            return None
        return (datetime.now(UTC) + timedelta(seconds=self.ttl_seconds)).isoformat()


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
    sampling_session_seq_id: int = 0
    base_model: str | None = None
    model_path: str | None = None


class JoinSamplingSession(Message):
    """Another client of a sampling session."""

    sampling_session_id: str


class Chunk(Message):
    """A part of a prompt; `tokens` is None for all but text."""

    type: str = "encoded_text"
    tokens: list[int] | None = None


class ModelInput(Message):
    """A prompt."""

    chunks: list[Chunk]

    def ints(self, what: str) -> list[int]:
        """The token ids; images and audio are refused."""
        tokens: list[int] = []
        for chunk in self.chunks:
            if chunk.tokens is None:
                raise RequestError(f"{what} holds a {chunk.type!r} chunk; the local engine takes text tokens only")
            tokens += chunk.tokens
        return tokens


class SamplingParams(Message):
    """How to choose tokens, and when to stop."""

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
    base_model: str | None = None
    model_path: str | None = None
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = Field(0, ge=0, le=1024)
    topk_sample_logprobs: int = Field(0, ge=0, le=1024)
    target_prompt_logprobs: dict[str, Any] | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None


class RetrieveFuture(Message):
    """A question for the result of a promise."""

    request_id: str


class WeightsInfo(Message):
    """A question for what a checkpoint holds."""

    tinker_path: str


M = TypeVar("M", bound=Message)


def parse(kind: type[M], body: bytes) -> M:
    """Read a JSON body; a `RequestError` names every field that is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors()[:5])
        raise RequestError(f"bad {kind.__name__} request: {faults}") from error
