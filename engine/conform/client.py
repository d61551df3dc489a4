"""A client of Tinker's protocol that sends what the SDK sends, and says what was wrong with an answer.

The SDK itself repeats failed requests for minutes and knows no unfinished server; this client asks once.
"""

import itertools
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinker import types
from tinker.proto import tinker_public_pb2 as pb
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response


class Nonconformity(Exception):
    """What a server did that the protocol does not have."""


def require(condition: object, message: str) -> None:
    """Raise `Nonconformity` with this message unless the condition holds."""
    if not condition:
        raise Nonconformity(message)


@dataclass(frozen=True)
class Reply:
    """Status and body of an answer; `data` is its JSON, None for another body."""

    status: int
    body: bytes
    data: Any

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON object; empty for another body."""
        return self.data if isinstance(self.data, dict) else {}

    @property
    def text(self) -> str:
        """Status and body in one line."""
        return f"HTTP {self.status} {self.body[:200].decode(errors='replace').strip()}"


def checkpoint_route(path: str) -> str:
    """The route of a checkpoint with this path."""
    run, _, rest = path.removeprefix("tinker://").partition("/")
    return f"training_runs/{run}/checkpoints/{rest}"


@dataclass(frozen=True)
class Passed:
    """A forward (and backward) pass: metrics, and for each datum the log-probabilities of its targets."""

    metrics: Mapping[str, float]
    logprobs: list[np.ndarray]


@dataclass(frozen=True)
class Sampled:
    """Samples as (tokens, log-probabilities, stop reason); log-probabilities of the prompt if they were asked for."""

    sequences: list[tuple[list[int], np.ndarray, str]]
    prompt_logprobs: np.ndarray | None


@dataclass(frozen=True)
class Datum:
    """A sequence to train on: tokens, and the inputs of the loss, each as long as the tokens."""

    tokens: Sequence[int]
    targets: Sequence[int]
    inputs: Mapping[str, Sequence[float]]


class Client:
    """A client session of a server, with `url` and `key` as in TINKER_BASE_URL and TINKER_API_KEY.

    `model` is the base model's name (None: the first that the server lists), and `seconds` how long a result may take.
    """

    def __init__(self, url: str, key: str, model: str | None = None, seconds: float = 300.0) -> None:
        self.url, self.key, self.seconds = url.rstrip("/"), key, seconds
        self._model, self._session = model, ""
        self._models, self._requests, self._samplers = itertools.count(), itertools.count(1), itertools.count()
        self.saved: list[str] = []

    def send(self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None) -> Reply:
        """A request below ``/api/v1/``, and whatever comes back."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = "application/x-protobuf" if isinstance(body, bytes) else "application/json"
        headers = {"X-API-Key": self.key, "Content-Type": kind, "Accept": "*/*", "User-Agent": "scisci-gym-conform"}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        except OSError as error:
            raise Nonconformity(f"{method} {path}: no answer ({getattr(error, 'reason', error)})") from error
        try:
            return Reply(status, content, json.loads(content))
        except ValueError:
            return Reply(status, content, None)

    def get(self, path: str) -> dict[str, Any]:
        """The JSON object of a GET request that succeeds."""
        return self._object(f"GET {path}", self.send("GET", path))

    def post(self, path: str, body: bytes | Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object of a POST request that succeeds."""
        return self._object(f"POST {path}", self.send("POST", path, body))

    def _object(self, request: str, reply: Reply) -> dict[str, Any]:
        require(reply.status < 300, f"{request}: {reply.text}")
        require(isinstance(reply.data, dict), f"{request}: the answer is no JSON object: {reply.text}")
        return reply.data

    def result(self, promise: Mapping[str, Any], what: str) -> Reply:
        """The promised result; a `Nonconformity` if it is an error or does not come."""
        require("request_id" in promise, f"{what}: the answer has no request_id: {promise}")
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            reply = self.send("POST", "retrieve_future", {"request_id": promise["request_id"]})
            if reply.status == 408 or reply.fields.get("type") == "try_again":
                continue
            require(reply.status < 300 and "error" not in reply.fields, f"{what}: {reply.text}")
            return reply
        raise Nonconformity(f"{what}: no result within {self.seconds:.0f} s")

    def promised(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The promised JSON object of a POST request."""
        return self._object(path, self.result(self.post(path, body), path))

    @property
    def model_name(self) -> str:
        if self._model is None:
            models = self.get("get_server_capabilities").get("supported_models") or []
            require(models, "get_server_capabilities names no model; name one with --model")
            self._model = str(models[0].get("model_name"))
        return self._model

    @property
    def session(self) -> str:
        """The id of the client session, which is created at first use."""
        if not self._session:
            body = {"tags": [], "user_metadata": None, "sdk_version": "0.38.0", "type": "create_session"}
            answer = self.post("create_session", body)
            require(isinstance(answer.get("session_id"), str), f"create_session gives no session_id: {answer}")
            self._session = answer["session_id"]
        return self._session

    def place(self) -> dict[str, Any]:
        """The fields that name a new model in training: session and number."""
        return {"session_id": self.session, "model_seq_id": next(self._models)}

    def create_model(self) -> str:
        """The id of a new LoRA adapter of rank 4."""
        lora = {"rank": 4, "seed": 1, "train_unembed": True, "train_mlp": True, "train_attn": True}
        body = {**self.place(), "base_model": self.model_name, "lora_config": lora, "type": "create_model"}
        answer = self.promised("create_model", body)
        require(isinstance(answer.get("model_id"), str), f"create_model gives no model_id: {answer}")
        return answer["model_id"]

    def number(self) -> int:
        """The number of the next request."""
        return next(self._requests)

    def send_pass(
        self, model_id: str, data: Sequence[Datum], loss: str, *, backward: bool = True, number: int | None = None
    ) -> dict[str, Any]:
        """Send a forward or forward-backward request, and return its promise."""
        message = pb.ForwardBackwardRequest(
            model_id=model_id, seq_id=number or self.number(), loss_fn=loss, forward_only=not backward
        )
        for datum in data:
            part = message.data.add()
            part.model_input.add().encoded_text.tokens = np.asarray(datum.tokens, np.int32).tobytes()
            _fill(part.loss_fn_inputs["target_tokens"], np.asarray(datum.targets, np.int64), pb.DTYPE_INT64)
            for name, values in datum.inputs.items():
                _fill(part.loss_fn_inputs[name], np.asarray(values, np.float32), pb.DTYPE_FLOAT32)
        return self.post("forward_backward", message.SerializeToString())

    def passed(self, promise: Mapping[str, Any]) -> Passed:
        reply = self.result(promise, "forward_backward")
        if reply.data is None:
            output = deserialize_forward_backward_output(reply.body)
            outputs = [np.asarray(one["logprobs"].data, float) for one in output.loss_fn_outputs]
            return Passed(output.metrics, outputs)
        outputs = [np.asarray(one["logprobs"]["data"], float) for one in reply.data.get("loss_fn_outputs", [])]
        return Passed(reply.data.get("metrics", {}), outputs)

    def run_pass(self, model_id: str, data: Sequence[Datum], loss: str, *, backward: bool = True) -> Passed:
        return self.passed(self.send_pass(model_id, data, loss, backward=backward))

    def send_step(self, model_id: str, learning_rate: float) -> dict[str, Any]:
        """Send an optimizer step, and return its promise."""
        adam = {"learning_rate": learning_rate, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}
        body = {"model_id": model_id, "adam_params": adam, "seq_id": self.number(), "type": "optim_step"}
        return self.post("optim_step", body)

    def step(self, model_id: str, learning_rate: float = 1e-2) -> None:
        self.result(self.send_step(model_id, learning_rate), "optim_step")

    def save(self, model_id: str, route: str, name: str) -> str:
        """Save a checkpoint, and return its path."""
        body = {"model_id": model_id, "path": name, "seq_id": self.number(), "type": route}
        path = str(self.promised(route, body).get("path"))
        self.saved.append(path)
        return path

    def sampler(self, model_path: str | None = None) -> str:
        """The id of a sampling session on a checkpoint, or on the base model."""
        source = {"base_model": self.model_name} if model_path is None else {"model_path": model_path}
        body = {"session_id": self.session, "sampling_session_seq_id": next(self._samplers), **source}
        answer = self.post("create_sampling_session", {**body, "type": "create_sampling_session"})
        require(isinstance(answer.get("sampling_session_id"), str), f"create_sampling_session: no id: {answer}")
        return answer["sampling_session_id"]

    def sampler_of(self, model_id: str) -> str:
        """The id of a sampling session on the present weights of a model in training."""
        route = "save_weights_for_sampler"
        body = {"model_id": model_id, "seq_id": self.number(), "sampling_session_seq_id": next(self._samplers)}
        answer = self.promised(route, {**body, "type": route})
        require(answer.get("sampling_session_id"), f"{route} without a path gives no sampling_session_id: {answer}")
        return answer["sampling_session_id"]

    def sample(
        self, sampler: str, prompt: Sequence[int], count: int = 1, *, scored: bool = False, **params: Any
    ) -> Sampled:
        """Samples of a prompt; `params` are those of `tinker.SamplingParams`."""
        body = {
            "sampling_session_id": sampler,
            "seq_id": self.number(),
            "num_samples": count,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": list(prompt)}]},
            "sampling_params": types.SamplingParams(**params).model_dump(mode="json", exclude_none=True),
            "prompt_logprobs": scored,
            "type": "sample",
        }
        promise = self.post("asample", body)
        ids = promise.get("sample_sequence_ids")
        require(isinstance(ids, list) and len(ids) == count, f"asample: sample_sequence_ids is {ids}, wanted {count}")
        reply = self.result(promise, "asample")
        if reply.data is None:
            answer = deserialize_sample_response(reply.body)
            sequences = [(list(s.tokens), np.asarray(s.logprobs, float), str(s.stop_reason)) for s in answer.sequences]
            return Sampled(sequences, answer.prompt_logprobs_np)
        sequences = [(s["tokens"], np.asarray(s["logprobs"], float), s["stop_reason"]) for s in reply.data["sequences"]]
        told = reply.data.get("prompt_logprobs")
        return Sampled(sequences, None if told is None else np.array(told, float))


def _fill(tensor: Any, values: np.ndarray, dtype: Any) -> None:
    tensor.dtype = dtype
    tensor.dense = values.tobytes()
    tensor.shape.extend(values.shape)
