"""One worker thread: training in the order it came, sampling in batches of whatever is waiting."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .gathering import SampleJob, WaitingSamples

logger = logging.getLogger(__name__)


@dataclass
class Job:
    """Work that runs alone and in order. `report` gets its result, or the exception that ended it, on the worker."""

    run: Callable[[], Any]
    report: Callable[[Any], None]


class Scheduler(threading.Thread):
    """The worker.

    Parameters
    ----------
    serve_samples
        Takes sample jobs, returns one result or exception for each.
    prepare_samples
        Takes sample jobs while others are still awaited: work that can be done ahead of the batch.
    quiet_seconds, gap_seconds
        How long a batch waits for further requests; see `WaitingSamples`.
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
        self._samples.patience.batch_done = time.monotonic()
        for job, result in zip(batch, results, strict=True):
            _deliver(job, result)

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
