"""Pages of an API, kept on disk: a page that was paid for is not fetched a second time, even after a crash."""

import hashlib
from contextlib import suppress
from pathlib import Path

import orjson
import zstandard

from ...atomic_files import aside, remove_unfinished

DAMAGED = zstandard.ZstdError, orjson.JSONDecodeError, KeyError, TypeError, AttributeError
"""What reading a file raises that is damaged, or no page."""


class PageStore:
    """A folder of answers, one file each, found by the request they answer.

    A page appears whole or not at all: it is written beside its place, flushed to the disk, and then renamed. A file
    that cannot be read back counts as absent. A page that is known to be wrong or incomplete is marked by `forget`: a
    build asks for it again, and `data verify` still finds what the last build was made from. The folder is made if it
    is not there.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for below in folder.iterdir():
            if below.is_dir():
                remove_unfinished(below)

    def get(self, request: str, *, forgotten: bool = False) -> bytes | None:
        """Body of the answer to `request` (path and query of its address, without any key), or None.

        A page that `forget` has marked counts only if `forgotten` is true.
        """
        place = self._place(request)
        for path in (place, _marked(place)) if forgotten else (place,):
            with suppress(FileNotFoundError, *DAMAGED):
                page = orjson.loads(zstandard.decompress(path.read_bytes()))
                return page["body"].encode() if page["request"] == request else None
        return None

    def put(self, request: str, body: bytes) -> None:
        """Keep an answer; on the disk when this returns."""
        page = orjson.dumps({"request": request, "body": body.decode()})
        data = zstandard.ZstdCompressor(write_checksum=True).compress(page)
        with aside(self._place(request), durable=True) as unfinished:
            unfinished.write_bytes(data)
        _marked(self._place(request)).unlink(missing_ok=True)

    def forget(self, request: str) -> None:
        """Mark a page as known to be wrong or incomplete: the next build asks for it again."""
        place = self._place(request)
        with suppress(FileNotFoundError):
            place.replace(_marked(place))

    def _place(self, request: str) -> Path:
        name = hashlib.sha256(request.encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:34]}.json.zst"


def _marked(place: Path) -> Path:
    return place.with_name(f"{place.name}.forgotten")
