"""Routes that every client calls before it trains, and how errors look."""

from .client import Client, Reply, require


def health(client: Client, tolerance: float) -> None:
    """GET healthz answers."""
    client.get("healthz")


def client_config(client: Client, tolerance: float) -> None:
    """POST client/config answers with the flags of this client."""
    client.post("client/config", {"sdk_version": "0.38.0"})


def dynamic_config(client: Client, tolerance: float) -> None:
    """POST client/dynamic_config answers with the flags that may change."""
    client.post("client/dynamic_config", {"sdk_version": "0.38.0"})


def capabilities(client: Client, tolerance: float) -> None:
    """GET get_server_capabilities lists models by name."""
    models = client.get("get_server_capabilities").get("supported_models")
    require(isinstance(models, list), f"supported_models is {models!r}, not a list")


def session(client: Client, tolerance: float) -> None:
    """create_session gives an id, which session_heartbeat takes."""
    client.post("session_heartbeat", {"session_id": client.session, "type": "session_heartbeat"})


def telemetry(client: Client, tolerance: float) -> None:
    """POST telemetry takes what it gets."""
    body = {"events": [], "platform": "", "sdk_version": "0.38.0", "session_id": client.session}
    client.post("telemetry", body)


def model_info(client: Client, tolerance: float) -> None:
    """create_model promises a LoRA adapter, and get_info describes it."""
    model = client.create_model()
    info = client.post("get_info", {"model_id": model, "type": "get_info"})
    for name in ("model_data", "model_id"):
        require(name in info, f"get_info has no {name}: {info}")
    require(info["model_data"].get("model_name"), f"get_info names no model: {info}")


def sampler_info(client: Client, tolerance: float) -> None:
    """GET samplers/{id} names the base model, from which the SDK gets its tokenizer."""
    sampler = client.sampler()
    require(client.get(f"samplers/{sampler}").get("base_model"), "it names no base_model")


def training_run(client: Client, tolerance: float) -> None:
    """GET training_runs/{id} describes a model in training."""
    model = client.create_model()
    run = client.get(f"training_runs/{model}")
    for name in ("training_run_id", "base_model", "is_lora", "last_request_time"):
        require(name in run, f"training_runs/{model} has no {name}: {run}")


def bad_requests(client: Client, tolerance: float) -> None:
    """A body that is no JSON, a session and a future that are not there get a 4xx answer, and the server goes on."""
    bodies = (("asample", b"\xff no json"), ("session_heartbeat", {"session_id": "no-such"}))
    for path, body in (*bodies, ("retrieve_future", {"request_id": "no-such"})):
        reply = client.send("POST", path, body)
        require(400 <= reply.status < 500, f"POST {path}: {reply.text}, wanted a status of 4xx")
        _has_error_form(reply, path)
    client.get("healthz")


def unknown_route(client: Client, tolerance: float) -> None:
    """A route that is not there answers 404 with an error in JSON."""
    reply = client.send("POST", "no_such_route", {})
    require(reply.status == 404, f"POST no_such_route: {reply.text}, wanted 404")
    _has_error_form(reply, "no_such_route")


def _has_error_form(reply: Reply, path: str) -> None:
    told = reply.fields.get("error") or reply.fields.get("detail")
    require(told, f"POST {path}: the answer says nothing under 'error' or 'detail': {reply.text}")


def sessions(client: Client, tolerance: float) -> None:
    """GET sessions lists sessions, and sessions/{id} their training runs and samplers."""
    mine = client.session
    require(mine in client.get("sessions").get("sessions", []), "the session of these checks is not in the list")
    answer = client.get(f"sessions/{mine}")
    require({"training_run_ids", "sampler_ids"} <= answer.keys(), f"sessions/{mine} answers {answer}")


def identity(client: Client, tolerance: float) -> None:
    """POST auth/token gives the token from which whoami reads."""
    require(str(client.post("auth/token", {}).get("jwt")).count(".") == 2, "it gives no token (jwt)")


def polls_together(client: Client, tolerance: float) -> None:
    """POST retrieve_futures names the finished requests of a sampling session."""
    sampler = client.sampler()
    client.sample(sampler, [11, 7, 23], max_tokens=2)
    target = {"type": "sampling_session", "sampling_session_id": sampler, "cloned_sampler_id": 0}
    answer = client.post("retrieve_futures", {"target": target, "prev_cursor": 0, "timeout": 0})
    states = [each.get("state") for each in answer.get("completions", [])]
    require((states, "cursor" in answer) == (["finished"], True), f"after one sample: {answer}")
