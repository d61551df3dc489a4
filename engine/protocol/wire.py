"""Protobuf on the wire: training requests in, samples and training results out.

The mirror image of the SDK's `tinker.proto.request_conv` and `response_conv`. The messages are internal to the SDK;
`tests/engine/protocol/test_wire.py` names what has moved.
"""

from itertools import groupby

import numpy as np
import zstandard
from google.protobuf.message import DecodeError
from tinker.proto import tinker_public_pb2 as pb

from ..compute.sampling import SampleResult, TopK
from ..compute.training import ForwardBackwardResult, TrainingDatum
from ..errors import RequestError

_DTYPES: dict[int, type[np.generic]] = {
    pb.DTYPE_FLOAT32: np.float32,
    pb.DTYPE_INT64: np.int64,
    pb.DTYPE_INT32: np.int32,
}
MAX_BODY = 1 << 30
"""Bytes of a request after decompression."""


def parse_forward_backward(body: bytes, encoding: str | None) -> pb.ForwardBackwardRequest:
    """Decode the envelope, which may be compressed by zstd; the data are read by `training_data`."""
    if encoding not in (None, "", "identity"):
        body = _decompressed(body, encoding)
    message = pb.ForwardBackwardRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise RequestError(f"the body is not a ForwardBackwardRequest protobuf: {error}") from error
    if not message.model_id:
        raise RequestError("forward_backward needs a model_id")
    if not message.data:
        raise RequestError("forward_backward needs at least one datum")
    return message


def _decompressed(body: bytes, encoding: str) -> bytes:
    if encoding != "zstd":
        raise RequestError(f"Content-Encoding {encoding!r} is not supported; send zstd or none", status=415)
    try:
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            plain = reader.read(MAX_BODY + 1)
    except zstandard.ZstdError as error:
        raise RequestError(f"the body is not valid zstd: {error}") from error
    if len(plain) > MAX_BODY:
        raise RequestError(f"the body is larger than {MAX_BODY} bytes when decompressed", status=413)
    return plain


def loss_config(message: pb.ForwardBackwardRequest) -> dict[str, float]:
    """The numbers of the loss's configuration; text values belong to losses that are refused anyway."""
    for key, value in message.loss_fn_config_v2.items():
        if value.WhichOneof("value") != "number":
            raise RequestError(
                f"loss_fn_config[{key!r}] is {value.text!r}; the local engine's losses take numbers only"
            )
    return {key: value.number for key, value in message.loss_fn_config_v2.items()} or dict(message.loss_fn_config)


def training_data(message: pb.ForwardBackwardRequest) -> list[TrainingDatum]:
    """The data of a request as arrays (see `TrainingDatum`)."""
    out = []
    for i, datum in enumerate(message.data):
        what = f"datum[{i}].model_input"
        chunks = [np.zeros(0, np.int64)]
        for chunk in datum.model_input:
            kind = chunk.WhichOneof("chunk")
            if kind != "encoded_text":
                raise RequestError(f"{what} holds a {kind!r} chunk; the local engine takes text tokens only")
            chunks.append(_array(chunk.encoded_text.tokens, np.int32, what))
        inputs = {}
        for key, value in datum.loss_fn_inputs.items():
            array = _tensor(value, f"datum[{i}].loss_fn_inputs[{key!r}]")
            inputs[key] = array.astype(np.int64 if key == "target_tokens" else np.float32, copy=False)
        out.append(TrainingDatum(np.concatenate(chunks), inputs))
    return out


def _array(data: bytes, dtype: type[np.generic], what: str) -> np.ndarray:
    if len(data) % np.dtype(dtype).itemsize:
        raise RequestError(f"{what} has {len(data)} bytes, not a whole number of {np.dtype(dtype).name}")
    return np.frombuffer(data, dtype).copy()


def _tensor(message: pb.Tensor, what: str) -> np.ndarray:
    """A dense array; unlisted entries of a sparse one are zero."""
    dtype = _DTYPES.get(message.dtype)
    if dtype is None:
        raise RequestError(f"{what} has dtype number {message.dtype}; float32, int32 and int64 are supported")
    shape = list(message.shape)
    if not message.HasField("sparse_csr"):
        flat = _array(message.dense, dtype, what)
        if shape and int(np.prod(shape)) != flat.size:
            raise RequestError(f"{what} has shape {shape} but {flat.size} values")
        return flat.reshape(shape) if shape else flat
    values = _array(message.sparse_csr.values, dtype, what)
    rows = _array(message.sparse_csr.crow_indices, np.int64, what)
    columns = _array(message.sparse_csr.col_indices, np.int64, what)
    if len(shape) != 2 or len(rows) != shape[0] + 1 or len(columns) != len(values):
        raise RequestError(f"{what} is not a valid sparse CSR tensor of shape {shape}")
    counts = np.diff(rows)
    if rows[0] != 0 or (counts < 0).any() or rows[-1] != len(values):
        raise RequestError(f"{what} has inconsistent CSR row pointers")
    if len(columns) and (columns.min() < 0 or columns.max() >= shape[1]):
        raise RequestError(f"{what} has a CSR column index outside 0 to {shape[1] - 1}")
    if shape[0] * shape[1] > MAX_BODY // 4:
        raise RequestError(f"{what} is too large when made dense: shape {shape}")
    dense = np.zeros(shape, dtype)
    dense[np.repeat(np.arange(shape[0]), counts), columns] = values
    return dense


def forward_backward_bytes(result: ForwardBackwardResult) -> bytes:
    """A serialised `ForwardBackwardOutput`; neighbours of equal trailing shape share a record."""
    message = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", metrics=result.metrics)
    for trailing, group in groupby(result.logprobs, lambda logprobs: logprobs.shape[1:]):
        part = list(group)
        record = message.loss_fn_outputs.add()
        record.num_datums = len(part)
        tensor = record.fields["logprobs"]
        tensor.dtype = pb.DTYPE_FLOAT32
        tensor.data = np.concatenate([p.ravel() for p in part]).astype(np.float32).tobytes()
        tensor.offsets = (np.cumsum([0, *(p.size for p in part)]) * 4).astype(np.int64).tobytes()
        tensor.trailing_shape.extend(trailing)
    return message.SerializeToString()


def sample_bytes(result: SampleResult) -> bytes:
    """A serialised `SampleResponse`."""
    message = pb.SampleResponse()
    for sample in result.sequences:
        sequence = message.sequences.add()
        sequence.stop_reason = pb.STOP_REASON_STOP if sample.stopped else pb.STOP_REASON_LENGTH
        sequence.tokens = np.asarray(sample.tokens, np.int32).tobytes()
        sequence.logprobs = np.asarray(sample.logprobs, np.float32).tobytes()
        if sample.alternatives:
            ids, values = (np.stack(part) for part in zip(*sample.alternatives, strict=True))
            _fill_topk(sequence.topk_sampled_logprobs, (ids, values))
    if result.prompt_logprobs is not None:
        message.prompt_logprobs = result.prompt_logprobs.astype(np.float32).tobytes()
    if result.topk_prompt is not None:
        _fill_topk(message.topk_prompt_logprobs, result.topk_prompt)
    return message.SerializeToString()


def _fill_topk(message: pb.TopkLogprobs, topk: TopK) -> None:
    ids, values = topk
    message.length, message.k = ids.shape
    message.token_ids = ids.astype(np.int32).tobytes()
    message.logprobs = values.astype(np.float32).tobytes()
