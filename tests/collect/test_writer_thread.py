"""Events are written one at a time, in the order in which they were recorded, however slow the writer is."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from lineage_store.collect.writing import WriterThread


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
    writer = WriterThread(disk.write, disk.finish)
    for number in range(500):
        writer.put(number, light=light and number % 2 == 0)
    writer.drain()
    assert disk.written == list(range(500))
    writer.close()
    assert disk.finished == 1


def test_what_is_light_is_written_when_it_has_been_taken(disk: SlowDisk) -> None:
    writer = WriterThread(disk.write, disk.finish)
    for number in range(100):
        writer.put(number, light=True)
        assert disk.written[-1] == number
    writer.close()


def test_a_thing_is_taken_when_the_one_before_it_has_been_written() -> None:
    disk = SlowDisk()
    writer = WriterThread(disk.write, disk.finish)
    taken: list[int] = []

    def train() -> None:
        for number in range(50):
            writer.put(number, light=number % 2 == 1)
            taken.append(number)

    training = Thread(target=train)
    training.start()
    training.join(0.2)
    assert taken == [0]
    disk.go.set()
    training.join()
    writer.close()
    assert disk.written == list(range(50))


def test_a_writer_that_cannot_be_started_is_started_later(
    disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WriterThread(disk.write, disk.finish)

    def no_more_threads(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", no_more_threads)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="new thread"):
                writer.put(1, light=True)
        writer.drain()
    writer.put(2, light=True)
    writer.close()
    assert disk.written == [2]


def test_nothing_is_taken_when_it_is_closed(disk: SlowDisk) -> None:
    writer = WriterThread(disk.write, disk.finish)
    writer.put(1, light=True)
    writer.close()
    with pytest.raises(RuntimeError, match="closed"):
        writer.put(2, light=True)
    writer.drain()
    assert disk.written == [1]


def test_without_anything_to_write_there_is_nothing_to_finish(disk: SlowDisk) -> None:
    writer = WriterThread(disk.write, disk.finish)
    writer.close()
    writer.close()
    assert disk.finished == 0
