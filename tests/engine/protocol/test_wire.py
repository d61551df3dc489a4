"""The SDK's protobuf messages, by name, and the SDK's own converters as the other end of the wire."""

import numpy as np
import pytest
from tinker import types
from tinker.proto import request_conv, response_conv

from scisci_gym.engine.compute.sampling import SampledTokens, SampleResult
from scisci_gym.engine.compute.training import ForwardBackwardResult
from scisci_gym.engine.protocol import wire
from scisci_gym.engine.protocol.wire import pb

FIELDS = {
    "ForwardBackwardRequest": "model_id seq_id data loss_fn loss_fn_config loss_fn_config_v2 forward_only",
    "Datum": "model_input loss_fn_inputs",
    "Tensor": "dtype shape dense sparse_csr",
    "ForwardBackwardOutput": "loss_fn_output_type loss_fn_outputs metrics",
    "SampleResponse": "sequences prompt_logprobs topk_prompt_logprobs",
    "SampledSequence": "stop_reason tokens logprobs topk_sampled_logprobs",
    "TopkLogprobs": "length k token_ids logprobs",
}


@pytest.mark.parametrize("message", FIELDS)
def test_a_message_has_the_fields_that_the_engine_uses(message: str) -> None:
    present = {field.name for field in getattr(pb, message).DESCRIPTOR.fields}
    assert set(FIELDS[message].split()) <= present


@pytest.mark.parametrize(
    "name", ["DTYPE_FLOAT32", "DTYPE_INT64", "DTYPE_INT32", "STOP_REASON_STOP", "STOP_REASON_LENGTH"]
)
def test_a_number_has_its_name(name: str) -> None:
    assert isinstance(getattr(pb, name), int)


def test_what_the_sdk_sends_is_read() -> None:
    targets = {"target_tokens": types.TensorData.from_numpy(np.array([6, 7], np.int64))}
    dense = {**targets, "weights": types.TensorData.from_numpy(np.array([0.5, 1], np.float32))}
    request = types.ForwardBackwardRequest(
        forward_backward_input=types.ForwardBackwardInput(
            data=[types.Datum(model_input=types.ModelInput.from_ints([5, 6]), loss_fn_inputs=dense)],
            loss_fn="cross_entropy",
        ),
        model_id="m",
        seq_id=3,
    )
    sent = request_conv.forward_backward_request_to_proto(request)
    message = wire.parse_forward_backward(sent if isinstance(sent, bytes) else sent.SerializeToString(), None)
    assert (message.model_id, message.seq_id, message.loss_fn) == ("m", 3, "cross_entropy")
    (datum,) = wire.training_data(message)
    assert datum.tokens.tolist() == [5, 6]
    assert {key: value.tolist() for key, value in datum.inputs.items()} == {
        "target_tokens": [6, 7],
        "weights": [0.5, 1.0],
    }


def test_what_the_engine_answers_is_read_by_the_sdk() -> None:
    logprobs = [np.array([-1.5, -2.0], np.float32), np.array([[-0.5, -1.0]], np.float32)]
    output = response_conv.deserialize_forward_backward_output(
        wire.forward_backward_bytes(ForwardBackwardResult(logprobs, {"loss:sum": 3.5}))
    )
    assert output.metrics == {"loss:sum": 3.5}
    assert [list(out["logprobs"].data) for out in output.loss_fn_outputs] == [[-1.5, -2.0], [-0.5, -1.0]]
    sampled = SampledTokens([4, 5], [-0.25, -0.5], stopped=True)
    response = response_conv.deserialize_sample_response(wire.sample_bytes(SampleResult([sampled])))
    (sequence,) = response.sequences
    assert (list(sequence.tokens), list(sequence.logprobs or []), sequence.stop_reason) == (
        [4, 5],
        [-0.25, -0.5],
        "stop",
    )
