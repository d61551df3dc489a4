"""Batches are made of what is waiting, in the client's order; training keeps its order."""

import threading
import time

import pytest

from scisci_gym.engine.serve.scheduler import Job, Patience, SampleJob, Scheduler


class Recorder:
    """Serves samples by noting the numbers of each batch."""

    def __init__(self) -> None:
        self.batches: list[list[int | None]] = []
        self.results: list[object] = []
        self.done = threading.Semaphore(0)

    def serve(self, jobs: list[SampleJob]) -> list[object]:
        self.batches.append([job.seq_id for job in jobs])
        return [job.seq_id for job in jobs]

    def report(self, result: object) -> None:
        self.results.append(result)
        self.done.release()

    def sample(self, seq: int | None, session: str = "s") -> SampleJob:
        return SampleJob(session, seq, None, self.report)

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.done.acquire(timeout=10)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def running(recorder: Recorder, quiet: float = 0.05, gap: float = 1.0) -> Scheduler:
    scheduler = Scheduler(recorder.serve, lambda _: None, quiet, gap)  # pyright: ignore[reportArgumentType]
    scheduler.start()
    return scheduler


def test_requests_that_arrive_close_together_are_one_batch(recorder: Recorder) -> None:
    scheduler = running(recorder, quiet=0.2)
    for seq in (2, 0, 1, 3):
        scheduler.submit(recorder.sample(seq))
        time.sleep(0.02)
    recorder.wait(4)
    scheduler.stop()
    assert recorder.batches == [[0, 1, 2, 3]]


def test_a_missing_number_is_waited_for(recorder: Recorder) -> None:
    scheduler = running(recorder, quiet=0.01, gap=2.0)
    scheduler.submit(recorder.sample(0))
    scheduler.submit(recorder.sample(2))
    time.sleep(0.2)
    scheduler.submit(recorder.sample(1))
    recorder.wait(3)
    scheduler.stop()
    assert recorder.batches == [[0, 1, 2]]


def test_but_not_for_ever(recorder: Recorder) -> None:
    scheduler = running(recorder, quiet=0.01, gap=0.1)
    scheduler.submit(recorder.sample(0))
    scheduler.submit(recorder.sample(7))
    recorder.wait(2)
    scheduler.submit(recorder.sample(8))
    recorder.wait(1)
    scheduler.stop()
    assert recorder.batches == [[0, 7], [8]]


def test_cancelled_requests_are_left_out(recorder: Recorder) -> None:
    scheduler = running(recorder, quiet=0.1)
    job = recorder.sample(None)
    scheduler.submit(job)
    job.cancelled = True
    scheduler.submit(recorder.sample(None))
    recorder.wait(1)
    scheduler.stop()
    assert recorder.batches == [[None]]


def test_training_jobs_keep_their_order_and_failures_are_reported(recorder: Recorder) -> None:
    scheduler = running(recorder)

    def fail() -> None:
        raise ValueError("no")

    for i in range(20):
        scheduler.submit(Job(fail if i == 10 else lambda i=i: i, recorder.report))
    recorder.wait(20)
    scheduler.stop()
    assert [r for r in recorder.results if isinstance(r, int)] == [i for i in range(20) if i != 10]
    assert isinstance(recorder.results[10], ValueError)


def test_a_slow_client_is_given_more_time(recorder: Recorder) -> None:
    """Gaps longer than the usual wait split the first burst; the second is waited for."""
    scheduler = running(recorder, quiet=0.05)
    scheduler._samples.patience._gap = 0.1
    for seq in range(4):
        scheduler.submit(recorder.sample(seq))
        time.sleep(0.1)
    recorder.wait(4)
    scheduler.stop()
    assert recorder.batches == [[0, 1, 2, 3]]


def test_gaps_are_measured_within_a_burst_only() -> None:
    """A request that came after the results of the batch before it began a new burst; one that came earlier did not."""
    patience = Patience(0.04)
    for batch_done, arrivals, seconds in ((0.0, [0.0, 0.09], 0.18), (4.0, [5.0], 0.09), (6.0, [5.08], 0.16)):
        patience.batch_done = batch_done
        patience.batch_taken(arrivals)
        assert patience.seconds == pytest.approx(seconds)
    patience.batch_taken([7.0, 8.0])
    assert patience.seconds == pytest.approx(5 * 0.04)
    for _ in range(10):
        patience.batch_taken([])
    assert patience.seconds == pytest.approx(0.04)


def test_requests_are_prepared_while_others_are_awaited(recorder: Recorder) -> None:
    """Each once, before the batch; a fault there does not keep the batch from being served."""
    prepared: list[int | None] = []

    def prepare(jobs: list[SampleJob]) -> None:
        prepared.extend(job.seq_id for job in jobs)
        assert not recorder.batches
        raise ValueError("no matter")

    scheduler = Scheduler(recorder.serve, prepare, 0.1)  # pyright: ignore[reportArgumentType]
    scheduler.start()
    for seq in range(3):
        scheduler.submit(recorder.sample(seq))
        time.sleep(0.02)
    recorder.wait(3)
    scheduler.stop()
    assert sorted(prepared, key=str) == [0, 1, 2]
    assert recorder.results == [0, 1, 2]
