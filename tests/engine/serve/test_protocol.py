"""The server against clients that are not the SDK: garbage, repeats, wrong keys, names that try to escape."""

import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tinker.proto import tinker_public_pb2 as pb

from scisci_gym.engine import Engine
from scisci_gym.engine.options import EngineOptions
from scisci_gym.engine.serve.server import ServerThread
from scisci_gym.engine.serve.service import start_engine


@pytest.fixture(scope="module")
def threaded(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine in this process, so that its insides can be looked at."""
    engine = start_engine(
        {"tiny": tiny_model}, checkpoints=tmp_path_factory.mktemp("ck"), process=False, gather_seconds=0
    )
    yield engine
    engine.close()


class Client:
    """Plain HTTP."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def send(
        self, method: str, path: str, body: bytes | dict[str, Any] | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Status and decoded JSON."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(f"{self.engine.url}/api/v1/{path}", data, method=method)
        for name, value in {"X-API-Key": self.engine.api_key, **headers}.items():
            request.add_header(name.replace("_", "-"), value)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as reply:
                raw = reply.read()
                return reply.status, json.loads(raw or b"{}") if "json" in reply.headers["Content-Type"] else {
                    "raw": raw
                }
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def post(self, path: str, body: bytes | dict[str, Any] | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
        return self.send("POST", path, body, **headers)

    def done(self, reply: tuple[int, dict[str, Any]]) -> dict[str, Any]:
        """Wait for a promise."""
        assert reply[0] == 200, reply
        return self.post("retrieve_future", {"request_id": reply[1]["request_id"]})[1]

    def model(self) -> str:
        """A new training model."""
        session = self.post("create_session", {"tags": []})[1]["session_id"]
        lora = {"rank": 2, "seed": 0}
        body = {"session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": lora}
        return self.done(self.post("create_model", body))["model_id"]


@pytest.fixture
def client(threaded: Engine) -> Client:
    return Client(threaded)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("asample", b"\xff\xfe not json", 400, "bad Sample request"),
        ("asample", {"prompt": {"chunks": []}}, 400, "needs a sampling_session_id"),
        ("asample", {"prompt": {"chunks": []}, "sampling_session_id": "nope"}, 404, "'nope' is not known"),
        ("create_session", b"[]", 400, "bad CreateSession request"),
        ("create_model", {"session_id": "x"}, 400, "model_seq_id: Field required"),
        (
            "create_model",
            {"session_id": "../x", "model_seq_id": 0, "base_model": "tiny", "lora_config": {"rank": 2}},
            404,
            "not known",
        ),
        ("optim_step", {"model_id": "nope", "adam_params": {}}, 404, "'nope' is not in training here"),
        ("forward_backward", b"\x00\x01garbage", 400, "protobuf"),
        ("forward_backward", b"", 400, "needs a model_id"),
        ("retrieve_future", {"request_id": "nope"}, 404, "'nope' is not known"),
        ("weights_info", {"tinker_path": "tinker://a/b/../../etc"}, 400, "not of the form"),
        ("weights_info", {"tinker_path": "tinker://../weights/x"}, 400, "model id"),
        ("weights_info", {"tinker_path": "tinker://a/weights/.."}, 400, "'..'"),
        ("weights_info", {"tinker_path": "tinker://a/weights/b"}, 404, "no checkpoint"),
        ("no_such_route", {}, 404, "Not Found"),
    ],
)
def test_bad_requests(path: str, body: bytes | dict[str, Any], status: int, message: str, client: Client) -> None:
    got, answer = client.post(path, body)
    assert (got, answer["category"]) == (status, "user")
    assert message in answer["error"]
    assert client.send("GET", "healthz") == (200, {"status": "ok"})


def test_bad_zstd(client: Client) -> None:
    status, answer = client.post("forward_backward", b"not zstd", Content_Encoding="zstd")
    assert status == 400
    assert "zstd" in answer["error"]


@pytest.mark.parametrize("name", ["../escape", "/etc/passwd", "a/b", ".hidden", "..", "a\x00b", "", "x" * 300])
def test_names_stay_in_the_folder(name: str, client: Client, threaded: Engine) -> None:
    model = client.model()
    answer = client.done(client.post("save_weights", {"model_id": model, "path": name, "seq_id": 1}))
    if name == "":
        assert answer["path"].startswith("tinker://")
        return
    assert answer["category"] == "user"
    assert "use letters" in answer["error"]


def test_a_taken_name(client: Client) -> None:
    model = client.model()
    body = {"model_id": model, "path": "same"}
    assert "path" in client.done(client.post("save_weights", {**body, "seq_id": 1}))
    assert "exists already" in client.done(client.post("save_weights", {**body, "seq_id": 2}))["error"]
    assert "path" in client.done(client.post("save_weights", {**body, "seq_id": 3, "overwrite": True}))


def forward_backward(model: str, seq: int, loss: str = "cross_entropy") -> bytes:
    message = pb.ForwardBackwardRequest(model_id=model, seq_id=seq, loss_fn=loss)
    datum = message.data.add()
    datum.model_input.add().encoded_text.tokens = b"\x05\x00\x00\x00\x06\x00\x00\x00"
    for name, dtype, values in (
        ("target_tokens", pb.DTYPE_INT64, b"\x07" + b"\0" * 15),
        ("weights", 1, b"\0\0\x80?" * 2),
    ):
        tensor = datum.loss_fn_inputs[name]
        tensor.dtype = dtype if name == "target_tokens" else pb.DTYPE_FLOAT32
        tensor.dense = values
    return message.SerializeToString()


def test_a_repeated_request_is_done_once(client: Client) -> None:
    """A client that lost the reply sends again with the same number."""
    model = client.model()
    step = {"model_id": model, "adam_params": {"learning_rate": 0.1}}
    first = client.post("forward_backward", zstandard.compress(forward_backward(model, 1)), Content_Encoding="zstd")
    second = client.post("forward_backward", forward_backward(model, 1))
    assert first == second
    client.done(client.post("optim_step", {**step, "seq_id": 2}))
    norm = client.done(client.post("optim_step", {**step, "seq_id": 3}))["metrics"]["grad_norm:mean"]
    assert norm == 0.0


def test_a_pass_whose_reply_cannot_be_encoded_adds_no_gradient(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sees a failed pass and repeats it: the step then has the gradient of one pass, not of two."""
    norms = []
    for failures in (0, 1):
        model = client.model()
        with monkeypatch.context() as patch:
            for seq in range(1, failures + 1):
                patch.setattr("scisci_gym.engine.protocol.wire.forward_backward_bytes", lambda _: 1 / 0)
                assert (
                    "ZeroDivision"
                    in client.done(client.post("forward_backward", forward_backward(model, seq)))["error"]
                )
        client.done(client.post("forward_backward", forward_backward(model, failures + 1)))
        step = {"model_id": model, "adam_params": {}, "seq_id": failures + 2}
        norms.append(client.done(client.post("optim_step", step))["metrics"]["grad_norm:mean"])
    assert norms[0] == norms[1] > 0


def test_sparse_tensors_and_other_types(client: Client) -> None:
    model = client.model()
    message = pb.ForwardBackwardRequest.FromString(forward_backward(model, 1))
    weights = message.data[0].loss_fn_inputs["weights"]
    weights.shape.extend([2, 9])
    answer = client.done(client.post("forward_backward", message.SerializeToString()))
    assert "shape [2, 9] but 2 values" in answer["error"]
    message.data[0].model_input.add().image.data = b"png"
    message.seq_id = 2
    answer = client.done(client.post("forward_backward", message.SerializeToString()))
    assert "'image' chunk" in answer["error"]


def test_the_key_is_checked(client: Client) -> None:
    for key in ("", "tml-wrong"):
        status, answer = client.send("GET", "get_server_capabilities", X_API_Key=key)
        assert (status, "X-API-Key" in answer["error"]) == (401, True)
    assert client.engine.api_key not in json.dumps(answer)


def test_other_machines_need_a_key(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="set an API key"):
        EngineOptions({}, tmp_path, host="0.0.0.0")
    with pytest.raises(ValueError, match="start with 'tml-'"):
        EngineOptions({}, tmp_path, api_key="abc")
    with pytest.raises(ValueError, match=r"no config\.json"):
        EngineOptions({"x": str(tmp_path)}, tmp_path)


def test_a_server_for_others_wants_its_key_from_everybody(tiny_model: Path, tmp_path: Path) -> None:
    """And lets nobody name a model by a path of its machine."""
    server = ServerThread(EngineOptions({}, tmp_path, host="0.0.0.0", api_key="tml-right"))
    try:
        url = f"http://127.0.0.1:{urllib.parse.urlsplit(server.start()).port}"
        assert Client(Engine(url, "tml-wrong")).send("GET", "get_server_capabilities")[0] == 401
        right = Client(Engine(url, "tml-right"))
        assert right.send("GET", "get_server_capabilities")[0] == 200
        session = right.post("create_session", {})[1]["session_id"]
        status, answer = right.post("create_sampling_session", {"session_id": session, "base_model": str(tiny_model)})
        assert (status, "is not known" in answer["error"]) == (404, True)
    finally:
        server.stop()


def test_it_listens_on_this_machine_only(threaded: Engine) -> None:
    """Another address of the same machine does not reach it."""
    port = urllib.parse.urlsplit(threaded.url).port
    with socket.create_connection(("127.0.0.1", port or 0), timeout=5):
        pass
    with (
        pytest.raises((ConnectionRefusedError, TimeoutError)),
        socket.create_connection(("127.0.0.2", port or 0), timeout=5),
    ):
        pass


def test_fetched_promises_are_forgotten(client: Client, threaded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert threaded.thread is not None
    promises = threaded.thread.server.promises
    model = client.model()
    for seq in range(20):
        client.done(client.post("forward_backward", forward_backward(model, seq + 1)))
    assert len(promises) >= 20
    monkeypatch.setattr("scisci_gym.engine.serve.promises.KEEP_FETCHED", -1.0)
    monkeypatch.setattr("scisci_gym.engine.serve.promises.KEEP_UNFETCHED", -1.0)
    promises.sweep()
    assert len(promises) == 0
    assert not promises._by_key


def test_a_finished_session_frees_its_models(client: Client, threaded: Engine) -> None:
    assert threaded.thread is not None
    model = client.model()
    session = model.split(":")[0]
    assert model in threaded.thread.server.backend.models
    client.post(f"sessions/{session}/finish", {})
    status, _ = client.post("session_heartbeat", {"session_id": session})
    assert status == 410
    client.model()  # queued after the clean-up
    assert model not in threaded.thread.server.backend.models
