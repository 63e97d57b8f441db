"""A sample is ingested when its frame is complete, and not before.

A file is looked at after each byte of its frames, once as it grows, and once as network filesystems show it: in full
size, with zeros where bytes have not arrived. Then a writer appends a few bytes at a time, sometimes the later ones
first, while a store follows: after each pass it must have what was complete before the pass, nothing that was not
complete after it, and every value as written. The control believes every checksum.
"""

from __future__ import annotations

import mmap
import os
import random
import struct
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, product
from pathlib import Path

from helpers.engines import opened
from helpers.ingesting import ingest, rows
from helpers.log_writer import FIRST_WALL_TIME, Log
from lineage_store.config import Settings
from proofs import ledger
from proofs.children import forked
from proofs.following import Followed, Taken, believing
from proofs.proof import KINDS, Control, Outcome, Proof, Run

FRAMES = 200
NAME = "events.out.events.summary.1700000000.0.host_{}"
APPENDS_PER_S = 5_000
FEWEST_APPENDS = 500
"""Fewer might be over before the first look."""
_PROGRESS = struct.Struct("<QQ")
_NEW = (
    "SELECT step, value FROM scalar_sample JOIN series USING (job_id, series_no) WHERE tag = 'loss' AND step >= :step"
    " ORDER BY step"
)


def _prove(run: Run) -> Outcome:
    frames, looks = min(FRAMES, run.size), 0
    logs = list(_logs(frames, run.chance("frames")))
    for kind, log, taken in logs:
        for vectorised, zeros in product((True, False), repeat=2):
            path = run.directory(f"{kind}_{vectorised}_{zeros}") / "job" / NAME.format(kind)
            looks += _by_bytes(path, log, taken, Settings(vectorised=vectorised), zeros=zeros)
    with believing():
        early = sum(
            _count_early(run.directory(f"{kind}_control") / "job" / NAME.format(kind), log)
            for kind, log, _ in logs
        )
    passes, accounted, appends = 0, ledger.Ledger(), max(FEWEST_APPENDS, -(-run.size // len(KINDS)))
    for kind in KINDS:
        with run.store(kind) as url:
            passes += _race(url, run.directory(kind), appends, run.chance(kind))
            with opened(url) as engine:
                accounted += ledger.check(engine)
    tried = (
        f"{looks:,} looks byte by byte at {frames} frames",
        f"{appends * len(KINDS):,} appends during {passes:,} passes",
    )
    return Outcome(
        (*tried, "0 samples early, wrong or missing", str(accounted)), (Control("checksums", early),)
    )


# --- byte by byte ---


def _logs(frames: int, chance: random.Random) -> Iterator[tuple[str, Log, list[list[Taken]]]]:
    """A summary and a lineage file, and what is to be taken from each of their frames."""
    log = Log()
    yield "MS", log, [_add(log, step, chance) for step in range(frames)]
    log = Log()
    for number in range(min(frames, 20)):
        log.train(network="Net", loss=chance.random()) if number % 2 else log.evaluation({"acc": number})
    kinds = ("eval", "train")
    yield (
        "lineage",
        log,
        [[(kinds[n % 2], span[0], _time(n))] for n, span in enumerate(log.spans)],
    )


def _add(log: Log, step: int, chance: random.Random) -> list[Taken]:
    """Add a frame of some kind; what is to be taken from it."""
    position, at = len(log.buffer), _time(len(log.spans))
    match chance.randrange(8):
        case 0:
            log.version()
            return []
        case 1:
            log.histogram(step, "weights", [chance.random() for _ in range(4)])
            return [("histogram", "weights", step, at, position)]
        case 2:
            log.tensor(step, "t", [chance.random() for _ in range(4)])
            return [("tensor", "t", step, at, position)]
        case 3:
            values = {tag: float(chance.randrange(1 << 20)) for tag in ("a", "b", "c")}
            log.scalars(step, values)
            return [("scalar", tag, step, at, value.hex()) for tag, value in values.items()]
        case _:
            value = float(chance.randrange(1 << 20))
            log.scalar(step, "loss", value)
            return [("scalar", "loss", step, at, value.hex())]


def _time(number: int) -> str:
    return (FIRST_WALL_TIME + number).hex()


def _by_bytes(path: Path, log: Log, taken: Sequence[list[Taken]], settings: Settings, *, zeros: bool) -> int:
    """Look after each byte; with `zeros` the frame has its full size from the beginning. How many looks."""
    followed, looks = Followed(path, settings), 0
    with _empty(path) as descriptor:
        for (start, length), waiting in zip(log.spans, taken, strict=True):
            end = start + length
            if zeros:
                os.truncate(descriptor, end)
            for position in range(start, end):
                os.pwrite(descriptor, log.content[position : position + 1], position)
                is_whole = position + 1 == end or (zeros and not any(log.content[position + 1 : end]))
                found, looks = followed.read(), looks + 1
                expected = waiting if is_whole else []
                assert sorted(found) == sorted(expected), f"after byte {position}: {found}, not {expected}"
                waiting = [] if is_whole else waiting
            assert followed.known.byte_offset == end, f"the frame at {start} was not taken"
    return looks


def _count_early(path: Path, log: Log) -> int:
    """How many frames are taken of which half has not arrived."""
    early = 0
    with _empty(path) as descriptor:
        for start, length in log.spans:
            os.pwrite(descriptor, log.content[start : start + length // 2], start)
            os.truncate(descriptor, start + length)
            followed = Followed(path, Settings(vectorised=False))
            followed.read()
            early += followed.known.byte_offset > start
            os.pwrite(descriptor, log.content[start : start + length], start)
    return early


@contextmanager
def _empty(path: Path) -> Iterator[int]:
    """A new file, open for writing."""
    path.parent.mkdir(parents=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- racing ---


@dataclass(frozen=True, slots=True)
class _Appends:
    """Where each append ends, and how much of the file a writer has dealt with, shared between two processes."""

    path: Path
    content: bytes
    ends: Sequence[int]
    progress: mmap.mmap

    @property
    def done(self) -> int:
        """Every byte before this place has arrived."""
        return int(_PROGRESS.unpack(self.progress[:])[0])

    @property
    def begun(self) -> int:
        """No byte behind this place has been written."""
        return int(_PROGRESS.unpack(self.progress[:])[1])

    def write(self, chance: random.Random) -> None:
        """Append; now and then the second half before the first, which leaves a hole for a moment."""
        with _empty(self.path) as descriptor:
            start = 0
            for number, end in enumerate(self.ends):
                self.progress[:] = _PROGRESS.pack(start, end)
                middle = (start + end) // 2
                if chance.random() < 0.02:
                    os.pwrite(descriptor, self.content[middle:end], middle)
                    time.sleep(0.005)
                    os.pwrite(descriptor, self.content[start:middle], start)
                else:
                    os.pwrite(descriptor, self.content[start:end], start)
                start = end
                self.progress[:] = _PROGRESS.pack(start, end)
                if number % 50 == 0:
                    time.sleep(50 / APPENDS_PER_S)


def _race(url: str, base_dir: Path, count: int, chance: random.Random) -> int:
    """A store follows a writer; how many passes it made."""
    sizes = chance.choices((*range(1, 14), 100), k=count)
    ends = list(accumulate(sizes))
    log, values = Log(), []
    while len(log.buffer) < ends[-1]:
        values.append(float(chance.randrange(1 << 20)))
        log.scalar(len(values) - 1, "loss", values[-1])
    frame_ends = [start + length for start, length in log.spans]
    path = base_dir / "job" / NAME.format("MS")
    appends = _Appends(path, log.content, [*ends, len(log.content)], mmap.mmap(-1, _PROGRESS.size))
    passes, seen = 0, 0
    with forked(partial(appends.write, chance)) as writer, opened(url) as engine:
        while seen < len(values):
            finished, complete_before = writer.ended(), bisect_right(frame_ends, appends.done)
            ingest(engine, base_dir, chunk_bytes=4096)
            found = rows(engine, _NEW, step=seen)
            assert [tuple(row) for row in found] == list(enumerate(values))[seen : seen + len(found)]
            seen, passes = seen + len(found), passes + 1
            complete_after = bisect_right(frame_ends, appends.begun)
            assert complete_before <= seen <= complete_after, (
                f"{seen} of {complete_before} to {complete_after}"
            )
            assert not finished or seen == len(values), f"{seen} of {len(values)} samples"
        assert writer.wait() == 0
        assert rows(engine, "SELECT count(*) FROM scalar_sample") == [(len(values),)]
    return passes


PROOF = Proof(
    "torn",
    "no sample is taken before its frame is whole, and none is missed",
    unit="racing appends",
    ci_size=60_000,
    full_size=1_000_000,
    attacks=("eventlog", "base"),
    prove=_prove,
)
