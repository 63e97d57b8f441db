"""Events are written one at a time, in the order in which they were recorded, however slow the writer is."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from lineage_store.collect.pipeline import Pipeline


class SlowDisk:
    """A writer that waits until it is let go."""

    def __init__(self) -> None:
        self.go = Event()
        self.written: list[int] = []
        self.finished = 0

    def write(self, thing: int) -> None:
        self.go.wait()
        self.written.append(thing)

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture
def disk() -> SlowDisk:
    disk = SlowDisk()
    disk.go.set()
    return disk


@pytest.mark.parametrize("light", [True, False])
def test_things_are_written_in_the_order_in_which_they_came(light: bool, disk: SlowDisk) -> None:
    pipeline = Pipeline(disk.write, disk.finish)
    for number in range(500):
        pipeline.put(number, light=light and number % 2 == 0)
    pipeline.drain()
    assert disk.written == list(range(500))
    pipeline.close()
    assert disk.finished == 1


def test_what_is_light_is_written_when_it_has_been_taken(disk: SlowDisk) -> None:
    pipeline = Pipeline(disk.write, disk.finish)
    for number in range(100):
        pipeline.put(number, light=True)
        assert disk.written[-1] == number
    pipeline.close()


def test_a_thing_is_taken_when_the_one_before_it_has_been_written() -> None:
    disk = SlowDisk()
    pipeline = Pipeline(disk.write, disk.finish)
    taken: list[int] = []

    def train() -> None:
        for number in range(50):
            pipeline.put(number, light=number % 2 == 1)
            taken.append(number)

    training = Thread(target=train)
    training.start()
    training.join(0.2)
    assert taken == [0]
    disk.go.set()
    training.join()
    pipeline.close()
    assert disk.written == list(range(50))


def test_a_writer_that_cannot_be_started_is_started_later(
    disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(disk.write, disk.finish)

    def no_more_threads(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", no_more_threads)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="new thread"):
                pipeline.put(1, light=True)
        pipeline.drain()
    pipeline.put(2, light=True)
    pipeline.close()
    assert disk.written == [2]


def test_nothing_is_taken_when_it_is_closed(disk: SlowDisk) -> None:
    pipeline = Pipeline(disk.write, disk.finish)
    pipeline.put(1, light=True)
    pipeline.close()
    with pytest.raises(RuntimeError, match="closed"):
        pipeline.put(2, light=True)
    pipeline.drain()
    assert disk.written == [1]


def test_without_anything_to_write_there_is_nothing_to_finish(disk: SlowDisk) -> None:
    pipeline = Pipeline(disk.write, disk.finish)
    pipeline.close()
    pipeline.close()
    assert disk.finished == 0
