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


class Scheduler(threading.Thread):
    """The worker.

    Parameters
    ----------
    serve_samples
        Takes sample jobs, returns one result or exception for each.
    prepare_samples
        Takes sample jobs while others are still awaited: work that can be done ahead of the batch.
    quiet_seconds
        A batch is taken when no request arrived for this long: an RL client sends its requests over some tens of
        milliseconds, and a batch taken too early leaves the rest to wait for a whole decoding run. On a busy machine
        requests come further apart: the wait grows with the gaps that were seen, up to `STRETCH` times.
    gap_seconds
        Requests of a session are numbered. While a number is missing between those that arrived, the batch waits
        this long for it, so that equal prompts are told apart by the client's order and not by the network's.
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
        self._quiet = quiet_seconds
        self._gap = gap_seconds
        self._jobs: deque[Job] = deque()
        self._samples: list[SampleJob] = []
        self._next_seq: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._spread = 0.0
        self._last_arrival = self._last_done = 0.0
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
        while True:
            with self._changed:
                while not (self._jobs or self._samples or self._stopping):
                    self._changed.wait()
                if self._stopping:
                    return
                job = self._jobs.popleft() if self._jobs else None
            if job is not None:
                self._run_job(job)
            # Samples are served between training jobs, so that neither kind can starve the other.
            if batch := self._gather():
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
        self._last_done = time.monotonic()
        for job, result in zip(batch, results, strict=True):
            _deliver(job, result)

    def _gather(self) -> list[SampleJob]:
        with self._changed:
            while self._samples and not self._stopping:
                now = time.monotonic()
                newest = max(job.arrived for job in self._samples)
                patience = self._gap if self._missing() else self._patience()
                if now - newest >= patience:
                    break
                if not self._prepare():
                    self._changed.wait(newest + patience - now)
            batch = [job for job in self._samples if not job.cancelled]
            self._note_gaps()
            self._samples.clear()
            batch.sort(key=lambda job: (job.session_id, job.seq_id or 0))
            for job in batch:
                if job.seq_id is not None:
                    key = (job.session_id, job.seq_id // _CLONE_BLOCK)
                    self._next_seq[key] = job.seq_id + 1
                    self._next_seq.move_to_end(key)
            while len(self._next_seq) > 4096:
                self._next_seq.popitem(last=False)
            return batch

    def _patience(self) -> float:
        return min(max(self._quiet, 2 * self._spread), STRETCH * self._quiet)

    def _note_gaps(self) -> None:
        """Remember the longest gap within a burst of requests; older ones count half as much with every batch."""
        arrivals = sorted(job.arrived for job in self._samples)
        # A request that came while the batch before it was running did not wait for its results: the same burst.
        if arrivals and arrivals[0] < self._last_done:
            arrivals.insert(0, self._last_arrival)
        gaps = [later - earlier for earlier, later in pairwise(arrivals)]
        self._spread = max([self._spread / 2, *gaps])
        if arrivals:
            self._last_arrival = arrivals[-1]

    def _prepare(self) -> bool:
        """Use the wait: prepare what has arrived, with the lock released; False if all of it is prepared."""
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

    def _missing(self) -> bool:
        """Whether a request is missing between those that arrived."""
        waiting: dict[tuple[str, int], set[int]] = {}
        for job in self._samples:
            if job.seq_id is not None:
                waiting.setdefault((job.session_id, job.seq_id // _CLONE_BLOCK), set()).add(job.seq_id)
        for key, numbers in waiting.items():
            first = self._next_seq.get(key, key[1] * _CLONE_BLOCK)
            ahead = [n for n in numbers if n >= first]
            if ahead and max(ahead) - first + 1 > len(ahead):
                return True
        return False


def _deliver(job: Job | SampleJob, result: Any) -> None:
    """Report a result; if that fails, report the failure. An exception must not end the worker thread."""
    try:
        job.report(result)
    except Exception as error:
        logger.exception("a result could not be reported")
        job.report(error)
