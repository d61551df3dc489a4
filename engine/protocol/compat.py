"""The protobuf messages of the SDK, internal to it; `tests/engine/protocol/test_compat.py` names what has moved."""

from tinker.proto import tinker_public_pb2 as pb

__all__ = ["pb"]
