"""gzip, decompressed in half the time of zlib where there is a build of ISA-L for the machine."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    from isal import isal_zlib
except ImportError:
    isal_zlib = zlib

DAMAGED_ARCHIVE: tuple[type[Exception], ...] = (EOFError, zlib.error, isal_zlib.error)  # pyright: ignore
"""What reading a damaged archive may raise."""
COMPRESSED_BYTES = 1 << 18
_GZIP = 16 + zlib.MAX_WBITS


def gzip_blocks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Contents of a gzip file of one or more members, at most `size` bytes at a time.

    Everything that comes before damage is handed out before the damage is raised, which the standard library's reader
    does not do.

    Raises
    ------
    EOFError
        If the file ends in the middle of a member.
    """
    member = isal_zlib.decompressobj(_GZIP)
    fresh = True
    while data := stream.read(COMPRESSED_BYTES):
        while data:
            block = member.decompress(data, size)
            fresh = False
            if block:
                yield block
            if member.eof:
                # Some writers pad the end of a file with zeros.
                data, fresh = member.unused_data.lstrip(b"\0"), True
                member = isal_zlib.decompressobj(_GZIP)
            else:
                data = member.unconsumed_tail
    if not fresh:
        raise EOFError("it ends in the middle")


def read_gzip(path: Path) -> bytes:
    """Everything in a gzip file."""
    with path.open("rb") as stream:
        return b"".join(gzip_blocks(stream, 1 << 20))
