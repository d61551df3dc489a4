"""`kernel` compiles a function with numba, `inlined` one that kernels call; `run_chunks` runs one on every core.

`run_chunks` calls a kernel for pieces of its work. Kernels release the GIL and write to places that no other piece
writes to, so plain threads run them side by side and the result does not depend on how many there are. (numba's own
`parallel=True` would do the same, but it aborts the process when it meets `fork` or, with some of its threading layers,
a second calling thread.)
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any

import numba

from .compat import NO_PLACE_FOR_CACHE


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` with numba: no GIL, and cached on disk where there is a place to write to.

    numba looks for that place next to the source, then in the user's cache folder, and raises when it can write to
    neither (a read-only container); then the function is compiled in each process anew. The cache follows the file of
    the function, not those of kernels that it calls: after editing one of those, touch the caller's file too.
    """
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError as error:
        if NO_PLACE_FOR_CACHE not in str(error):
            raise
        return numba.njit(nogil=True)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make `function` a part of the kernels of its file that call it, for one that they call in a loop.

    A call costs a kernel more than a small function does: every array is passed as seven numbers and is counted as in
    use, and LLVM sees a function with some arrays as too large to inline.
    """
    return numba.njit(nogil=True, inline="always")(function)


def thread_count(threads: int | None = None) -> int:
    """Number of threads to use: `threads`, else ``SCISCI_GYM_THREADS``, else the cores this process may use.

    Raises `ValueError` when it is not a positive integer.
    """
    if threads is not None:
        if isinstance(threads, bool) or int(threads) != threads or threads < 1:
            raise ValueError(f"threads must be a positive integer or None, got {threads!r}")
        return int(threads)
    if given := os.environ.get("SCISCI_GYM_THREADS", "").strip():
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"SCISCI_GYM_THREADS must be a positive integer, got {given!r}")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_chunks(work: Callable[..., object], chunks: Iterable[tuple[Any, ...]], threads: int | None = None) -> None:
    """Call ``work(*chunk)`` for every chunk, as many at a time as there are threads; see `thread_count`.

    An exception in `work`, which usually is a kernel, stops the run and is raised here.
    """
    count = thread_count(threads)
    if count == 1:
        for chunk in chunks:
            work(*chunk)
        return
    source = iter(chunks)
    with ThreadPoolExecutor(count) as pool:
        pending = {pool.submit(work, *chunk) for chunk in islice(source, 2 * count)}
        while pending:
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
            pending |= {pool.submit(work, *chunk) for chunk in islice(source, len(finished))}
