"""One worker thread: training in the order it came, sampling in batches of all that wait once no more is expected."""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

logger = logging.getLogger(__name__)

STRETCH = 5
"""How many times its usual wait a batch waits at most on a busy machine."""
SERIES = 4096
"""Series of request numbers that are remembered."""
CLIENT_NUMBERS = 1_000_000_000
"""The SDK numbers the requests of a sampling session's client k from k times this."""


def sampling_client(session_id: str, seq_id: int | None) -> tuple[str, int]:
    """The client of a sampling session that sent the request with this number; the first where it has none."""
    return session_id, (seq_id or 0) // CLIENT_NUMBERS


@dataclass
class Job:
    """Work that runs alone and in order. `report` gets its result, or the exception that ended it, on the worker."""

    run: Callable[[], Any]
    report: Callable[[Any], None]


@dataclass
class SampleJob:
    """A sampling request, served together with the others that wait, unless it is `cancelled` before."""

    session_id: str
    seq_id: int | None
    payload: Any
    report: Callable[[Any], None]
    cancelled: bool = False
    prepared: bool = False
    arrived: float = field(default_factory=time.monotonic)

    @property
    def series(self) -> tuple[str, int]:
        """The session and the client's copy in which `seq_id` counts the requests."""
        return sampling_client(self.session_id, self.seq_id)


class Patience:
    """How long a batch waits for the next request, learnt from the gaps between earlier ones.

    A client sends its requests over some tens of milliseconds, and a batch taken too early leaves the rest to wait for
    a whole decoding run. On a busy machine requests come further apart: the wait is twice the longest gap of late,
    between `quiet` and `STRETCH` times that, in seconds.
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._gap = self._last_arrival = 0.0
        self.batch_done = 0.0
        """When the results of the last batch were there."""

    @property
    def seconds(self) -> float:
        return min(max(self._quiet, 2 * self._gap), STRETCH * self._quiet)

    def batch_taken(self, arrivals: Sequence[float]) -> None:
        """Learn from the times at which the requests of a batch came; older gaps count half with every call."""
        times = sorted(arrivals)
        # A request that came while the batch before it was running did not wait for its results: the same burst.
        if times and times[0] < self.batch_done:
            times.insert(0, self._last_arrival)
        self._gap = max([self._gap / 2, *(later - earlier for earlier, later in pairwise(times))])
        if times:
            self._last_arrival = times[-1]


class WaitingSamples:
    """The sampling requests that wait, and when they make a batch.

    A batch is complete when no request arrived for `quiet_seconds`, or longer on a busy machine; see `Patience`. The
    numbers that clients give to the requests of a sampling session tell whether one is still on its way, so that equal
    prompts are told apart by the client's order and not by the network's: it is awaited for `gap_seconds`.
    """

    def __init__(self, quiet_seconds: float, gap_seconds: float) -> None:
        self.patience = Patience(quiet_seconds)
        self._gap_seconds = gap_seconds
        self._jobs: list[SampleJob] = []
        self._next: OrderedDict[tuple[str, int], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: SampleJob) -> None:
        self._jobs.append(job)

    def remaining_wait(self) -> float:
        """Seconds that the batch still waits for further requests; 0 if there are none to wait with."""
        if not self._jobs:
            return 0.0
        newest = max(job.arrived for job in self._jobs)
        wait = self._gap_seconds if self._is_incomplete() else self.patience.seconds
        return max(0.0, newest + wait - time.monotonic())

    def _is_incomplete(self) -> bool:
        """Whether a number is missing between those served before and the highest that waits."""
        arrived: dict[tuple[str, int], set[int]] = {}
        for job in self._jobs:
            first = self._next.get(job.series, job.series[1] * CLIENT_NUMBERS)
            if job.seq_id is not None and job.seq_id >= first:
                arrived.setdefault(job.series, {first - 1}).add(job.seq_id)
        return any(max(numbers) - min(numbers) >= len(numbers) for numbers in arrived.values())

    def to_prepare(self) -> list[SampleJob]:
        """The requests that were not asked for by this before."""
        fresh = [job for job in self._jobs if not job.prepared and not job.cancelled]
        for job in fresh:
            job.prepared = True
        return fresh

    def take(self) -> list[SampleJob]:
        """The batch, in the client's order."""
        self.patience.batch_taken([job.arrived for job in self._jobs])
        batch = [job for job in self._jobs if not job.cancelled]
        self._jobs.clear()
        batch.sort(key=lambda job: (job.session_id, job.seq_id or 0))
        for job in batch:
            if job.seq_id is not None:
                self._next[job.series] = job.seq_id + 1
                self._next.move_to_end(job.series)
        while len(self._next) > SERIES:
            self._next.popitem(last=False)
        return batch


class Scheduler(threading.Thread):
    """The worker.

    `serve_samples` returns one result or exception for each job; `prepare_samples` gets jobs while others are still
    awaited, for work that can be done ahead of the batch. `WaitingSamples` decides how long that is.
    """

    def __init__(
        self,
        serve_samples: Callable[[Sequence[SampleJob]], list[Any]],
        prepare_samples: Callable[[Sequence[SampleJob]], None],
        quiet_seconds: float,
        gap_seconds: float = 0.5,
    ) -> None:
        super().__init__(name="engine-worker", daemon=True)
        self._serve_samples, self._prepare_samples = serve_samples, prepare_samples
        self._jobs: deque[Job] = deque()
        self._samples = WaitingSamples(quiet_seconds, gap_seconds)
        self._changed = threading.Condition()
        self._stopping = False

    def submit(self, job: Job | SampleJob) -> None:
        """Queue a job; returns at once."""
        with self._changed:
            if isinstance(job, SampleJob):
                self._samples.add(job)
            else:
                self._jobs.append(job)
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def run(self) -> None:
        """The thread: until it is stopped, one training job, then a batch of samples, so that neither kind can starve
        the other.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._samples or self._stopping)
                if self._stopping:
                    return
                job = self._jobs.popleft() if self._jobs else None
            if job is not None:
                try:
                    result = job.run()
                except Exception as error:
                    result = error
                _deliver(job, result)
            if batch := self._next_batch():
                try:
                    results = self._serve_samples(batch)
                except Exception as error:
                    results = [error] * len(batch)
                self._samples.patience.batch_done = time.monotonic()
                for sample, result in zip(batch, results, strict=True):
                    _deliver(sample, result)

    def _next_batch(self) -> list[SampleJob]:
        """All requests that wait, once no more are expected; the wait is used to prepare them."""
        while True:
            with self._changed:
                seconds = self._samples.remaining_wait()
                if seconds == 0 or self._stopping:
                    return self._samples.take()
                fresh = self._samples.to_prepare()
                if not fresh:
                    self._changed.wait(seconds)
                    continue
            try:
                self._prepare_samples(fresh)
            except Exception:
                # What is wrong with a request is reported when the batch is served.
                logger.exception("requests could not be prepared")


def _deliver(job: Job | SampleJob, result: Any) -> None:
    """Report a result; if that fails, report the failure. An exception must not end the worker thread."""
    try:
        job.report(result)
    except Exception as error:
        logger.exception("a result could not be reported")
        job.report(error)
