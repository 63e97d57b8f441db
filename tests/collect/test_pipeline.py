"""What waits is bounded and stays in order, however slow the writer is."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Thread

import pytest

from lineage_store.collect.pipeline import Pipeline


class SlowDisk:
    """A writer that waits until it is let go."""

    def __init__(self) -> None:
        self.go = Event()
        self.written: list[int] = []
        self.finished = 0

    def write(self, things: Sequence[int]) -> None:
        self.go.wait()
        self.written += things

    def finish(self) -> None:
        self.finished += 1


def double(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("light", [True, False])
def test_things_are_written_in_the_order_in_which_they_came(light: bool) -> None:
    disk = SlowDisk()
    disk.go.set()
    pipeline = Pipeline(double, disk.write, disk.finish, workers=4)
    for number in range(500):
        pipeline.put(number, 1, light=light and number % 2 == 0)
    pipeline.drain()
    assert disk.written == [2 * number for number in range(500)]
    pipeline.close()
    assert disk.finished == 1


def test_a_slow_disk_makes_the_training_wait_instead_of_filling_memory() -> None:
    disk = SlowDisk()
    pipeline = Pipeline(double, disk.write, disk.finish, workers=1, pending_bytes=100)
    handed_over: list[int] = []

    def train() -> None:
        for number in range(50):
            pipeline.put(number, 30, light=True)
            handed_over.append(number)

    training = Thread(target=train)
    training.start()
    training.join(0.2)
    assert len(handed_over) <= 3  # of 30 bytes each, 100 in all
    disk.go.set()
    training.join()
    pipeline.close()
    assert disk.written == [2 * number for number in range(50)]


def test_one_thing_larger_than_the_bound_waits_alone() -> None:
    disk = SlowDisk()
    disk.go.set()
    pipeline = Pipeline(double, disk.write, disk.finish, workers=1, pending_bytes=10)
    for number in range(5):
        pipeline.put(number, 1000, light=False)
    pipeline.close()
    assert disk.written == [0, 2, 4, 6, 8]


def test_a_writer_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk()
    disk.go.set()
    pipeline = Pipeline(double, disk.write, disk.finish, workers=1, pending_bytes=10)

    def no_more_threads(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", no_more_threads)
        for _ in range(3):  # which would wait for room, had the first been taken
            with pytest.raises(RuntimeError, match="new thread"):
                pipeline.put(1, 10, light=True)
        pipeline.drain()
    pipeline.put(2, 10, light=True)
    pipeline.close()
    assert disk.written == [4]


def test_nothing_is_taken_when_it_is_closed() -> None:
    disk = SlowDisk()
    disk.go.set()
    pipeline = Pipeline(double, disk.write, disk.finish, workers=1)
    pipeline.put(1, 10, light=True)
    pipeline.close()
    with pytest.raises(RuntimeError, match="closed"):
        pipeline.put(2, 10, light=True)
    pipeline.drain()
    assert disk.written == [2]


def test_without_anything_to_write_there_is_nothing_to_finish() -> None:
    disk = SlowDisk()
    pipeline = Pipeline(double, disk.write, disk.finish, workers=1)
    pipeline.close()
    pipeline.close()
    assert disk.finished == 0
