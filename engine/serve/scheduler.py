"""One worker thread: training in the order it came, sampling in batches of whatever is waiting."""

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
_CLONE_BLOCK = 1_000_000_000
"""Every copy of a sampling client numbers its requests within a block of its own."""


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
        return self.session_id, (self.seq_id or 0) // _CLONE_BLOCK


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
        """The wait after the newest request."""
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


class RequestNumbers:
    """The numbers that clients give to the requests of a sampling session: they tell whether one is still on its way,
    so that equal prompts are told apart by the client's order and not by the network's.
    """

    def __init__(self) -> None:
        self._next: OrderedDict[tuple[str, int], int] = OrderedDict()

    def incomplete(self, jobs: Sequence[SampleJob]) -> bool:
        """Whether a number is missing between those served before and the highest of `jobs`."""
        arrived: dict[tuple[str, int], set[int]] = {}
        for job in jobs:
            first = self._next.get(job.series, job.series[1] * _CLONE_BLOCK)
            if job.seq_id is not None and job.seq_id >= first:
                arrived.setdefault(job.series, {first - 1}).add(job.seq_id)
        return any(max(numbers) - min(numbers) >= len(numbers) for numbers in arrived.values())

    def served(self, jobs: Sequence[SampleJob]) -> None:
        """Count on from the numbers of `jobs`, which are in order."""
        for job in jobs:
            if job.seq_id is not None:
                self._next[job.series] = job.seq_id + 1
                self._next.move_to_end(job.series)
        while len(self._next) > SERIES:
            self._next.popitem(last=False)


class Scheduler(threading.Thread):
    """The worker.

    Parameters
    ----------
    serve_samples
        Takes sample jobs, returns one result or exception for each.
    prepare_samples
        Takes sample jobs while others are still awaited: work that can be done ahead of the batch.
    quiet_seconds
        A batch is taken when no request arrived for this long, or longer on a busy machine; see `Patience`.
    gap_seconds
        How long a batch waits for a request whose number is missing between those that arrived.
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
        self.patience = Patience(quiet_seconds)
        self._gap_seconds = gap_seconds
        self._jobs: deque[Job] = deque()
        self._samples: list[SampleJob] = []
        self._numbers = RequestNumbers()
        self._changed = threading.Condition()
        self._stopping = False

    def submit(self, job: Job | SampleJob) -> None:
        """Queue a job; returns at once."""
        with self._changed:
            if isinstance(job, SampleJob):
                self._samples.append(job)
            else:
                self._jobs.append(job)
            self._changed.notify()

    def stop(self) -> None:
        """Finish the present job and end the thread."""
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
                self._run_samples(batch)

    def _run_samples(self, batch: list[SampleJob]) -> None:
        try:
            results = self._serve_samples(batch)
        except Exception as error:
            results = [error] * len(batch)
        self.patience.batch_done = time.monotonic()
        for job, result in zip(batch, results, strict=True):
            _deliver(job, result)

    def _next_batch(self) -> list[SampleJob]:
        """All requests that wait, once no more are expected; the wait is used to prepare them."""
        while True:
            with self._changed:
                seconds = self._remaining_wait()
                if seconds <= 0 or self._stopping:
                    return self._take_batch()
                fresh = [job for job in self._samples if not job.prepared and not job.cancelled]
                if not fresh:
                    self._changed.wait(seconds)
                    continue
                for job in fresh:
                    job.prepared = True
            try:
                self._prepare_samples(fresh)
            except Exception:
                # What is wrong with a request is reported when the batch is served.
                logger.exception("requests could not be prepared")

    def _remaining_wait(self) -> float:
        """Seconds that the batch still waits for further requests; 0 if there are none."""
        if not self._samples:
            return 0.0
        newest = max(job.arrived for job in self._samples)
        wait = self._gap_seconds if self._numbers.incomplete(self._samples) else self.patience.seconds
        return newest + wait - time.monotonic()

    def _take_batch(self) -> list[SampleJob]:
        self.patience.batch_taken([job.arrived for job in self._samples])
        batch = [job for job in self._samples if not job.cancelled]
        self._samples.clear()
        batch.sort(key=lambda job: (job.session_id, job.seq_id or 0))
        self._numbers.served(batch)
        return batch


def _deliver(job: Job | SampleJob, result: Any) -> None:
    """Report a result; if that fails, report the failure. An exception must not end the worker thread."""
    try:
        job.report(result)
    except Exception as error:
        logger.exception("a result could not be reported")
        job.report(error)
