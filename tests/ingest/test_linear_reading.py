"""Twice the bytes take twice the work, whatever they are: reads, checksums and searches are counted, not timed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, ledger_is_closed
from helpers.known_files import unread
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.eventlog import tfrecord
from lineage_store.eventlog.mindspore import filenames
from lineage_store.eventlog.tfrecord import encode_frame, encode_header
from lineage_store.ingest.decode import rows
from lineage_store.ingest.decode.rows import Chunk
from lineage_store.store.records import FileSight

GOOD = Log().scalar(1, "loss", 0.5).content


def damaged(payload: bytes) -> bytes:
    """A frame whose payload has another checksum."""
    return encode_frame(payload)[:-1] + b"?"


def repeated(part: bytes) -> Callable[[int], bytes]:
    return lambda size: part * (size // len(part))


def up_to_the_end(between: bytes = b"") -> Callable[[int], bytes]:
    """Headers each of which claims all that follows it."""

    def content(size: int) -> bytes:
        part_bytes = tfrecord.HEADER_BYTES + len(between)
        begins = range(0, size - 100, part_bytes)
        return b"".join(
            encode_header(size - begin - tfrecord.OVERHEAD_BYTES) + between for begin in begins
        ) + bytes(100)

    return content


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "good": repeated(GOOD),
    "undecodable": repeated(encode_frame(b"\xff")),
    "undecodable, in turn with good ones": repeated(encode_frame(b"\xff") + GOOD),
    "empty": repeated(encode_frame(b"")),
    "every other damaged": repeated(damaged(b"x") + GOOD),
    "every fortieth damaged": repeated(damaged(b"x") + 39 * GOOD),
    "claims up to the end": up_to_the_end(),
    "claims up to the end, in turn with good ones": up_to_the_end(GOOD),
    "claims beyond the end": repeated(encode_header(2**25)),
    "claims beyond the end, in turn with good ones": repeated(encode_header(2**25) + GOOD),
    "claims of much": repeated(encode_header(20_000)),
    "claims of almost a chunk": repeated(encode_header(4_060)),
    "no frame": repeated(b"\xa5" * 100),
    "a hole": repeated(bytes(100)),
}
contents = pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)


@dataclass
class Work:
    """What reading took."""

    checked_bytes: int = 0
    places: int = 0
    searched_bytes: int = 0
    together_bytes: int = 0
    passes: int = 0
    read_bytes: int = 0

    def is_linear(self, half: Work) -> bool:
        """Whether it is about twice that of half the bytes."""
        both = zip(vars(self).values(), vars(half).values(), strict=True)
        return all(twice <= 2.5 * once + 10_000 for twice, once in both)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Work]:
    """Begins to count."""

    def begin() -> Work:
        work = Work()
        monkeypatch.undo()

        def value(content: bytes, call: Any = google_crc32c.value) -> Any:
            work.checked_bytes += len(content)
            return call(content)

        def extend(crc: int, content: bytes, call: Any = google_crc32c.extend) -> Any:
            work.checked_bytes += len(content)
            return call(crc, content)

        def following(*given: Any, call: Any = tfrecord.FrameReader.next) -> Any:
            work.places += 1
            return call(*given)

        def searched(
            view: memoryview, first: int, last: int, most: int, call: Any = tfrecord._valid_headers_between
        ) -> Any:
            work.searched_bytes += last - first
            return call(view, first, last, most)

        def together(
            buffer: bytes, segments: Sequence[tuple[int, int]], call: Any = tfrecord.read_frames, **most: int
        ) -> Any:
            work.together_bytes += sum(end - start for start, end in segments)
            return call(buffer, segments, **most)

        found_at = vars(tfrecord.Frames)["payload_start"].fget

        def payload_starts(frames: Any) -> Any:
            work.passes += len(frames.start)
            return found_at(frames)

        def read(*given: Any, call: Any = os.pread) -> bytes:
            found: bytes = call(*given)
            work.read_bytes += len(found)
            return found

        monkeypatch.setattr(google_crc32c, "value", value)
        monkeypatch.setattr(google_crc32c, "extend", extend)
        monkeypatch.setattr(tfrecord.FrameReader, "next", following)
        monkeypatch.setattr(tfrecord, "_valid_headers_between", searched)
        monkeypatch.setattr(tfrecord, "read_frames", together)
        monkeypatch.setattr(tfrecord.Frames, "payload_start", property(payload_starts))
        monkeypatch.setattr(os, "pread", read)
        return work

    return begin


@contents
@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.slow
def test_a_chunk_takes_work_by_its_bytes(
    vectorised: bool, content: Callable[[int], bytes], counted: Callable[[], Work]
) -> None:
    works = []
    for size in (2**16, 2**17):
        whole = content(size)
        file = unread(filenames.compose("events", 1_700_000_000, 0, "host", "_MS"), train_id="./a")
        sight = FileSight(len(whole), 0, closed=True, stat_stamp="")
        chunk = Chunk(file, sight, b"", whole, give_up_before=len(whole))
        works.append(counted())
        rows.from_chunks([chunk], Settings(vectorised=vectorised))
    half, twice = works
    assert twice.is_linear(half), works


@contents
@pytest.mark.parametrize("mode", [0o600, 0o400])
@pytest.mark.slow
def test_a_file_takes_work_by_its_bytes_however_many_chunks_it_has(
    mode: int,
    content: Callable[[int], bytes],
    counted: Callable[[], Work],
    sqlite_engine: Engine,
    base_dir: Path,
) -> None:
    works = []
    for number, size in enumerate((2**17, 2**18)):
        whole = GOOD + content(size)
        path = base_dir / str(number) / filenames.compose("events", 1_700_000_000, 0, "host", "_MS")
        path.parent.mkdir()
        path.write_bytes(whole)
        path.chmod(mode)
        works.append(counted())
        for _ in range(2):
            ingest(
                sqlite_engine,
                base_dir,
                chunk_bytes=4096,
                max_frame_bytes=2**16,
                suspect_grace_s=0,
                most_damages=10**6,
            )
    half, twice = works
    assert twice.is_linear(half), works
    assert twice.read_bytes < 40 * 2**18
    assert ledger_is_closed(sqlite_engine)
    events = column(sqlite_engine, "SELECT event_count FROM log_file ORDER BY job_id")
    good = [1 + content(size).count(GOOD) for size in (2**17, 2**18)]
    assert [counted >= least for counted, least in zip(events, good, strict=True)] == [True, True]
