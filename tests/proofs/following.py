"""Following a log file without a database: everything between the disk and a write transaction.

In: a log file on disk. Out: what each look reads from it, as plain values, and what the store would know of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from helpers.known_files import unread
from lineage_store.config import Settings
from lineage_store.eventlog import tfrecord
from lineage_store.ingest.decode.rows import ChunkContent
from lineage_store.ingest.read import batch
from lineage_store.store.records import Advance, KnownFile, SampleColumns

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Taken = tuple[Any, ...]
"""(plugin, tag, step, wall time, value) of a scalar, (plugin, tag, step, wall time, frame offset) of a payload,
(kind, frame offset, wall time) of a lineage event; wall times and values as hexadecimal text, so that NaN is itself."""


@dataclass
class Followed:
    """What the store would know of a log file, and what has been taken from it."""

    path: Path
    settings: Settings
    known: KnownFile = field(init=False)
    given_up: set[tuple[int, int]] = field(default_factory=set)
    """The byte ranges that were quarantined."""
    event_count: int = 0

    def __post_init__(self) -> None:
        self.known = unread(self.path.name, train_id=f"./{self.path.parent.name}")

    def read(self, *, grace_is_over: bool = False) -> list[Taken]:
        """Look until there is nothing new; what was taken."""
        taken: list[Taken] = []
        has_more = True
        while has_more:
            waited = timedelta(seconds=self.settings.suspect_grace_s if grace_is_over else 0)
            now = (self.known.suspect_since or NOW) + waited
            with _noting(self.given_up):
                seen = batch.fill(self.path.parent.parent, [self.known], self.settings, now)
            assert not [*seen.rewritten, *seen.failures], f"{self.path} at {self.known.byte_offset}: {seen}"
            has_more = False
            for advance in seen.advances:
                self.known, has_more = advance.after, advance.has_more
                taken += _lineage(advance)
                self.event_count += advance.rows.event_count
            taken += [each for columns in seen.samples for each in _samples(columns)]
        return taken


@contextmanager
def believing() -> Iterator[None]:
    """Take every checksum for the right one."""
    payloads = mock.Mock(**{"return_value.of.return_value": mock.ANY})
    lengths = mock.Mock(return_value=mock.ANY)
    with mock.patch.multiple(tfrecord, length_checksum=lengths, SliceChecksums=payloads):
        yield


@contextmanager
def _noting(given_up: set[tuple[int, int]]) -> Iterator[None]:
    """Note the byte ranges that are given up; an advance only has their number, their bytes, the first and the last."""
    quarantine = ChunkContent.quarantine

    def noted(collected: ChunkContent, start: int, end: int, kind: str, reason: str) -> None:
        given_up.add((start, end))
        quarantine(collected, start, end, kind, reason)

    with mock.patch.object(ChunkContent, "quarantine", noted):
        yield


def _lineage(advance: Advance) -> Iterator[Taken]:
    for event in advance.rows.lineage_events:
        yield event.kind, event.byte_offset, float(event.wall_time or 0).hex()


def _samples(columns: SampleColumns) -> Iterator[Taken]:
    what = columns.columns["value" if columns.plugin == "scalar" else "frame_offset"]
    times = columns.columns["wall_time"]
    for number, step, time, value in zip(columns.number, columns.steps, times, what, strict=True):
        shown = float(value).hex() if columns.plugin == "scalar" else int(value)
        yield columns.plugin, columns.series[number].tag, int(step), float(time).hex(), shown
