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

Report = Callable[[Any], None]
"""Receives a job's result, or the exception that ended it. Called from the worker thread."""

STRETCH = 5
"""How many times its usual wait a batch waits at most on a busy machine."""
SERIES = 4096
"""Series of request numbers that are remembered."""
_CLONE_BLOCK = 1_000_000_000
"""Every copy of a sampling client numbers its requests within a block of its own."""


@dataclass
class Job:
    """Work that runs alone and in order."""

    run: Callable[[], Any]
    report: Report


@dataclass
class SampleJob:
    """A sampling request, served together with the others that wait."""

    session_id: str
    seq_id: int | None
    payload: Any
    report: Report
    cancelled: bool = False
    prepared: bool = False
    arrived: float = field(default_factory=time.monotonic)


class Patience:
    """How long a batch waits for the next request, learnt from the gaps between earlier ones.

    A client sends its requests over some tens of milliseconds, and a batch taken too early leaves the rest to wait for
    a whole decoding run. On a busy machine requests come further apart: the wait is twice the longest gap of late,
    between `quiet` and `STRETCH` times that, in seconds.
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._gap = 0.0
        self._last_arrival = self._batch_done = 0.0

    @property
    def seconds(self) -> float:
        """The wait after the newest request."""
        return min(max(self._quiet, 2 * self._gap), STRETCH * self._quiet)

    def batch_taken(self, arrivals: Sequence[float]) -> None:
        """Learn from the times at which the requests of a batch came; older gaps count half with every call."""
        times = sorted(arrivals)
        # A request that came while the batch before it was running did not wait for its results: the same burst.
        if times and times[0] < self._batch_done:
            times.insert(0, self._last_arrival)
        self._gap = max([self._gap / 2, *(later - earlier for earlier, later in pairwise(times))])
        if times:
            self._last_arrival = times[-1]

    def batch_done(self, time: float) -> None:
        """Note when the results of a batch were there."""
        self._batch_done = time


class RequestNumbers:
    """The numbers that clients give to the requests of a sampling session.

    They tell whether a request is still on its way: equal prompts are told apart by the client's order and not by the
    network's.
    """

    def __init__(self) -> None:
        self._next: OrderedDict[tuple[str, int], int] = OrderedDict()

    def incomplete(self, jobs: Sequence[SampleJob]) -> bool:
        """Whether a number is missing between those served before and the highest of `jobs`."""
        series: dict[tuple[str, int], set[int]] = {}
        for job in jobs:
            if job.seq_id is not None:
                series.setdefault(_series(job.session_id, job.seq_id), set()).add(job.seq_id)
        for key, numbers in series.items():
            first = self._next.get(key, key[1] * _CLONE_BLOCK)
            new = [number for number in numbers if number >= first]
            if new and max(new) - first + 1 > len(new):
                return True
        return False

    def served(self, jobs: Sequence[SampleJob]) -> None:
        """Count on from the numbers of `jobs`, which are in order."""
        for job in jobs:
            if job.seq_id is not None:
                key = _series(job.session_id, job.seq_id)
                self._next[key] = job.seq_id + 1
                self._next.move_to_end(key)
        while len(self._next) > SERIES:
            self._next.popitem(last=False)


def _series(session_id: str, number: int) -> tuple[str, int]:
    return session_id, number // _CLONE_BLOCK


class Scheduler(threading.Thread):
    """The worker.

    Parameters
    ----------
    serve_samples
        Takes sample jobs, returns one result or exception for each.
    quiet_seconds
        A batch is taken when no request arrived for this long, or longer on a busy machine; see `Patience`.
    gap_seconds
        How long a batch waits for a request whose number is missing between those that arrived.
    prepare_samples
        Takes sample jobs while others are still awaited: work that can be done ahead of the batch.
    """

    def __init__(
        self,
        serve_samples: Callable[[Sequence[SampleJob]], list[Any]],
        quiet_seconds: float = 0.04,
        gap_seconds: float = 0.5,
        prepare_samples: Callable[[Sequence[SampleJob]], None] | None = None,
    ) -> None:
        super().__init__(name="engine-worker", daemon=True)
        self._serve_samples = serve_samples
        self._prepare_samples = prepare_samples
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

    def cancel(self, job: SampleJob) -> None:
        """Drop a sampling job that still waits; nothing is reported for it."""
        with self._changed:
            job.cancelled = True

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
                while not (self._jobs or self._samples or self._stopping):
                    self._changed.wait()
                if self._stopping:
                    return
                job = self._jobs.popleft() if self._jobs else None
            if job is not None:
                self._run_job(job)
            if batch := self._next_batch():
                self._run_samples(batch)

    def _run_job(self, job: Job) -> None:
        try:
            result = job.run()
        except Exception as error:
            result = error
        _deliver(job, result)

    def _run_samples(self, batch: list[SampleJob]) -> None:
        try:
            results = self._serve_samples(batch)
        except Exception as error:
            results = [error] * len(batch)
        self.patience.batch_done(time.monotonic())
        for job, result in zip(batch, results, strict=True):
            _deliver(job, result)

    def _next_batch(self) -> list[SampleJob]:
        """All requests that wait, once no more are expected; the wait is used to prepare them."""
        with self._changed:
            while self._samples and not self._stopping and (seconds := self._remaining_wait()) > 0:
                if not self._prepare():
                    self._changed.wait(seconds)
            self.patience.batch_taken([job.arrived for job in self._samples])
            batch = [job for job in self._samples if not job.cancelled]
            self._samples.clear()
            batch.sort(key=lambda job: (job.session_id, job.seq_id or 0))
            self._numbers.served(batch)
            return batch

    def _remaining_wait(self) -> float:
        """Seconds that the batch still waits for further requests."""
        newest = max(job.arrived for job in self._samples)
        wait = self._gap_seconds if self._numbers.incomplete(self._samples) else self.patience.seconds
        return newest + wait - time.monotonic()

    def _prepare(self) -> bool:
        """Prepare what has arrived, with the lock released; False if all of it is prepared."""
        fresh = [job for job in self._samples if not job.prepared and not job.cancelled]
        if self._prepare_samples is None or not fresh:
            return False
        for job in fresh:
            job.prepared = True
        self._changed.release()
        try:
            self._prepare_samples(fresh)
        except Exception:
            # What is wrong with a request is reported when the batch is served.
            logger.exception("requests could not be prepared")
        finally:
            self._changed.acquire()
        return True


def _deliver(job: Job | SampleJob, result: Any) -> None:
    """Report a result; if that fails, report the failure. An exception must not end the worker thread."""
    try:
        job.report(result)
    except Exception as error:
        logger.exception("a result could not be reported")
        job.report(error)
