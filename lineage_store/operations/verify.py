"""Verify the store: read log files again by the plain path, and compare them with the store.

`walking` reads a file, `claims` collects its samples, `comparing` finds the differences, `verifying` runs these steps.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Row

from lineage_store.config import Settings
from lineage_store.errors import UnknownFormatError
from lineage_store.eventlog.formats import FrameFinder, LogFormat, format_of
from lineage_store.eventlog.tfrecord import Frame, NeedData
from lineage_store.eventlog.values import EventDecodeError, LineageEvent, PayloadValue, ScalarValue
from lineage_store.findings import Finding, finding
from lineage_store.ingest.decode.lineage_fold import fold
from lineage_store.ingest.decode.rows import (
    LOOK_AHEAD,
    OversizedEventError,
    before_decoding,
    content_within,
    metrics_within,
    of_event,
)
from lineage_store.ingest.problems import unreadable_file
from lineage_store.ingest.read.log_reader import OpenLogFile, digest, open_log_file
from lineage_store.ingest.scan.discovery import path_of
from lineage_store.plugins import BY_NAME, SCALAR
from lineage_store.store.catalog import audit
from lineage_store.store.catalog.audit import GivenUp
from lineage_store.store.database.db import reading
from lineage_store.store.database.sql import Session
from lineage_store.store.records import FileKey
from lineage_store.store.writes.lineage import current_events

# ---- The samples of a log file, sorted, in a temporary database on disk that is deleted when closed
# In: samples in the order of the file, as canonical text. Out: the last sample of each step, by series and step.
# Promises: memory is bounded, except for the names of series; equal values have equal text; NaN becomes null, as in
# the store.


Key = tuple[str, str]
"""(plugin, tag)."""

_ROWS_AT_ONCE = 10_000


def canonical(values: Iterable[Any]) -> str:
    """Return one sample as text. -0.0 becomes 0.0, as SQLite does not keep it, nor does a store copied from SQLite."""
    return json.dumps([_plain(value) for value in values])


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else value + 0.0


class Claims:
    """The samples of one log file. A context manager."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(
            "CREATE TABLE sample (series INTEGER, step INTEGER, content TEXT, PRIMARY KEY (series, step)) WITHOUT ROWID"
        )
        self._database.execute("BEGIN")
        self._numbers: dict[Key, int] = {}
        self._waiting: list[tuple[int, int, str]] = []

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, key: Key, step: int, content: str) -> None:
        """Add a sample; it replaces an earlier one of the same step."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self._waiting.append((number, step, content))
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._write()

    def keys(self) -> set[Key]:
        """Return the series of the file."""
        return set(self._numbers)

    def of(self, key: Key) -> Iterator[tuple[int, str]]:
        """Yield (step, content) of a series by ascending step."""
        self._write()
        query = "SELECT step, content FROM sample WHERE series = ? ORDER BY step"
        yield from self._database.execute(query, [self._numbers.get(key, -1)])

    def _write(self) -> None:
        self._database.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?)", self._waiting)
        self._waiting.clear()


# ---- Compare the contents of a log file with its rows in the store
# In: a walk to the bookmark, and an open read transaction. Out: differences, the first few of each series. Promises:
# samples are compared in bounded memory; the statistics of a series are recomputed from its rows, those of a thinned
# series from the file, with which its buckets are compared, too.


Found = tuple[int | None, str]
"""(byte offset in the file, description of the difference)."""

SHOWN_OF_A_SERIES = 3


def compare(session: Session, walk: Walk, row: Row[Any]) -> Iterator[Found]:
    """Yield the differences between a log file and its rows; at most SHOWN_OF_A_SERIES per series."""
    file = row.job_id, row.file_no
    given_up = audit.given_up(session, file, row.byte_offset)
    yield from _ledger(walk, row, given_up)
    yield from _lineage_events(session, walk, file, given_up)
    known = {(each.plugin, each.tag): each for each in audit.series_rows(session, file)}
    for plugin, tag in (
        sorted(walk.claims.keys() - known.keys()) if "beyond_bounds" not in given_up.within else ()
    ):
        yield None, f"The {plugin} {tag!r} of the file is not in the store."
    for key, series in known.items():
        yield from islice(_samples(session, walk, key, series), SHOWN_OF_A_SERIES)


def _ledger(walk: Walk, row: Row[Any], given_up: GivenUp) -> Iterator[Found]:
    if not 0 <= row.quarantined_bytes <= row.byte_offset <= row.size_bytes:
        text = f"quarantined {row.quarantined_bytes}, bookmark {row.byte_offset}, size {row.size_bytes}"
        yield None, f"The ledger does not close: {text}."
    if walk.given_up_bytes != row.quarantined_bytes:
        text = f"{row.quarantined_bytes} bytes count as given up, the file has {walk.given_up_bytes} that hold no event"
        bounds = " within the bounds of the present settings" if "oversized_event" in given_up.within else ""
        yield None, f"The ledger does not close: {text}{bounds}."
    if given_up.bytes not in (None, row.quarantined_bytes):
        text = (
            f"{row.quarantined_bytes} bytes count as given up, the recorded problems come to {given_up.bytes}"
        )
        yield None, f"The ledger does not close: {text}."
    if walk.event_count != row.event_count:
        text = (
            f"The file has {walk.event_count} events up to its bookmark, the store counts {row.event_count}."
        )
        yield None, text


def _lineage_events(session: Session, walk: Walk, file: FileKey, given_up: GivenUp) -> Iterator[Found]:
    stored = {
        (each.byte_offset, each.value_index): (each.kind, each.wall_time, each.content)
        for each in audit.lineage_events(session, file)
    }
    written = {(position, index): tuple(rest) for position, index, *rest in walk.lineage}
    for place in sorted(stored.keys() | written.keys()):
        position = place[0]
        if (mine := stored.get(place)) is None:
            if not given_up.may_be(position, "beyond_bounds"):
                yield position, "The lineage event is not in the store."
        elif place not in written:
            yield position, "The store has a lineage event that the file does not have there."
        elif mine != written[place]:
            yield position, "The lineage event is another one than the store has."


def _samples(session: Session, walk: Walk, key: Key, series: Row[Any]) -> Iterator[Found]:
    name = f"{key[0]} {key[1]!r}"
    has_value = BY_NAME[key[0]].has_value
    columns = SCALAR_COLUMNS if has_value else PAYLOAD_COLUMNS
    counted, left, of_buckets = _Counted(series.superseded_from), 0, list[str]()
    rows, written = audit.samples(session, series), walk.claims.of(key)
    if series.thinned_count:
        in_buckets = _held_against(audit.buckets(session, series), written, of_buckets)
        written = counted.written(in_buckets)
    else:
        rows = counted.passed(rows, has_value=has_value)
    stored = ((row.step, canonical([getattr(row, column) for column in columns])) for row in rows)
    for step, mine, theirs in _merged(stored, written):
        left += mine is not None
        if theirs is None:
            yield None, f"The store has step {step} of {name}, the file has not."
        elif mine is None and not series.thinned_count:
            yield None, f"Step {step} of {name} is not in the store."
        elif mine is not None and mine != theirs:
            yield None, f"Step {step} of {name}: the file says {theirs}, the store {mine}."
    yield from ((None, f"The series {name} {text}") for text in (*counted.unlike(series), *of_buckets))
    if left != series.sample_count - series.thinned_count:
        kept = series.sample_count - series.thinned_count
        yield None, f"The series {name} has {left} rows; by its counts {kept} are left."


def _held_against(
    buckets: Iterable[Row[Any]], written: Iterable[tuple[int, str]], found: list[str]
) -> Iterator[tuple[int, str]]:
    """Pass the samples of a scalar on, and append the buckets that do not agree with them to `found`."""
    waiting, counted = deque(buckets), _Counted(None)
    for step, content in written:
        while waiting and step > waiting[0].last_step:
            found += counted.unlike_bucket(waiting.popleft())
            counted = _Counted(None)
        counted.add(step)
        counted.add_value(json.loads(content)[1])
        yield step, content
    if waiting:
        found += counted.unlike_bucket(waiting.popleft())
        found += (f"has a bucket from step {bucket.first_step} on; the file has not." for bucket in waiting)
    elif counted.sample_count:
        found.append(f"was thinned; from step {counted.first_step} on it is in no bucket.")


class _Counted:
    """Counts the statistics of a series while its samples are iterated."""

    def __init__(self, superseded_from: int | None) -> None:
        self._superseded_from = math.inf if superseded_from is None else superseded_from
        self.sample_count = self.nan_count = self.inf_count = self.superseded_count = 0
        self.first_step: int | None = None
        self.last_step: int | None = None
        self.min_value: float | None = None
        self.max_value: float | None = None

    def passed(self, rows: Iterable[Row[Any]], *, has_value: bool) -> Iterator[Row[Any]]:
        for row in rows:
            self.add(row.step)
            if has_value:
                self.add_value(row.value)
            yield row

    def written(self, samples: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        for step, content in samples:
            self.add(step)
            self.add_value(json.loads(content)[1])
            yield step, content

    def add(self, step: int) -> None:
        self.sample_count += 1
        self.first_step = step if self.first_step is None else self.first_step
        self.last_step = step
        self.superseded_count += step >= self._superseded_from

    def add_value(self, value: float | None) -> None:
        if value is None:
            self.nan_count += 1
        elif math.isinf(value):
            self.inf_count += 1
        else:
            self.min_value = value if self.min_value is None else min(value, self.min_value)
            self.max_value = value if self.max_value is None else max(value, self.max_value)

    def unlike(self, series: Row[Any]) -> Iterator[str]:
        for name, counted in vars(self).items():
            if not name.startswith("_") and getattr(series, name) != counted:
                yield f"has {name} {getattr(series, name)}; its rows have {counted}."

    def unlike_bucket(self, bucket: Row[Any]) -> list[str]:
        ends, counts = (self.first_step, self.last_step), (self.sample_count, self.nan_count, self.inf_count)
        names = ("first_step", "last_step", "count", "nan_count", "inf_count", "min", "max")
        told = tuple(bucket._mapping[name] for name in names)
        if told == (*ends, *counts, self.min_value, self.max_value):
            return []
        return [f"has another bucket from step {bucket.first_step} on than its file."]


def _merged(
    stored: Iterator[tuple[int, str]], written: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, str | None, str | None]]:
    """Merge two streams that ascend by step; yield (step, stored content, written content)."""
    mine = ((step, "stored", content) for step, content in stored)
    theirs = ((step, "written", content) for step, content in written)
    for step, of_step in groupby(merge(mine, theirs), key=itemgetter(0)):
        contents = {side: content for _, side, content in of_step}
        yield step, contents.get("stored"), contents.get("written")


# ---- Check the store against the log files: all bytes are accounted for, and all rows agree with the file
# In: an engine, a base dir, optionally one job or the size of a random sample. Out: a verdict per log file. Promises:
# nothing is changed; samples take bounded memory; a file that grows meanwhile is verified up to the store's bookmark.
# A file that cannot be read gets a verdict of its own, without differences.


ATTEMPTS = 5
"""How often to read on if the bookmark moves while the file is read."""


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The result for one log file. Ingested, quarantined and pending bytes add up to its size."""

    path: str
    size_bytes: int = 0
    ingested_bytes: int = 0
    quarantined_bytes: int = 0
    pending_bytes: int = 0
    differences: tuple[Finding, ...] = ()
    """Where the file and the store disagree; `range_start` is the position in the file."""
    unreadable: Finding | None = None
    """Why it could not be verified; None if it could."""
    thinned_series: int = 0
    """Number of its thinned series, for which the remaining samples, the statistics and the buckets are compared."""


def verify(
    engine: Engine,
    base_dir: Path,
    base_dir_id: int,
    settings: Settings,
    *,
    train_id: str | None = None,
    sample: int | None = None,
) -> Iterator[FileVerdict]:
    """Verify the current log files of a base dir, or of one job (stored id), or `sample` of them at random."""
    with reading(engine) as session:
        keys = audit.file_keys(session, base_dir_id, train_id, sample)
    folded = set[int]()
    for key in keys:
        with reading(engine) as session:
            row = audit.file_row(session, key)
        if row is not None:
            yield _verify_file(engine, base_dir, row, settings, folded)


def _verify_file(
    engine: Engine, base_dir: Path, row: Row[Any], settings: Settings, folded: set[int]
) -> FileVerdict:
    path, links = path_of(base_dir, row.train_id, row.name), settings.follow_symlinks
    place = base_dir, row.train_id, row.name
    try:
        log_format = format_of(row.format)
        with open_log_file(*place, log_format, follow_symlinks=links) as log, Claims() as claims:
            if _is_rewritten(log, row):
                return _verdict(path, row, log, [finding("unread_rewrite", path, byte_range=(0, None))])
            walk = Walk(log, log_format, row.kind, row.name, claims, settings)
            return _follow(engine, path, row, walk, folded)
    except OSError as error:
        return FileVerdict(path, unreadable=unreadable_file(*place, error))
    except UnknownFormatError as error:
        return _unverified(path, error.message)


def _follow(engine: Engine, path: str, row: Row[Any], walk: Walk, folded: set[int]) -> FileVerdict:
    """Read up to the bookmark and compare; if the bookmark has moved meanwhile, read on to the new one first."""
    for _ in range(ATTEMPTS):
        with reading(engine) as session:
            given_up = audit.given_up(session, (row.job_id, row.file_no), row.byte_offset)
        if not walk.to(row.byte_offset, given_up):
            return _verdict(path, row, walk.log, _differences(path, walk.faults))
        # Begin the transaction only now: PostgreSQL ends transactions that are idle while a large file is read.
        with reading(engine) as session:
            now = audit.file_row(session, (row.job_id, row.file_no))
            if now is None:
                return _unverified(path, "It was read again meanwhile.")
            if now.byte_offset == row.byte_offset:
                found = [*walk.faults, *compare(session, walk, now), *_lineage(session, now, folded)]
                thinned = audit.thinned_series(session, (row.job_id, row.file_no))
                return _verdict(path, now, walk.log, _differences(path, found), thinned)
        row = now
    return _unverified(path, "It grows too fast to be verified.")


def _lineage(session: Session, row: Row[Any], folded: set[int]) -> Iterator[Found]:
    """Yield a difference if a job's lineage is not the fold of its events; check each job only once."""
    if row.job_id not in folded:
        folded.add(row.job_id)
        found = fold(current_events(session, [row.job_id])[row.job_id])
        if found.listed and found.model_lineage != audit.model_lineage(session, row.job_id):
            yield None, "The job's lineage is not what its lineage events come to."


def _is_rewritten(log: OpenLogFile, row: Row[Any]) -> bool:
    end: int = row.byte_offset
    if end == 0 or log.sight.size_bytes < end:
        return end > 0
    fingerprint = digest(log.read(0, row.fingerprint_bytes))
    anchor = digest(log.read(end - row.anchor_bytes, row.anchor_bytes))
    return bool(fingerprint != row.fingerprint or anchor != row.anchor)


def _unverified(path: str, reason: str) -> FileVerdict:
    return FileVerdict(path, unreadable=finding("unverified_file", path, reason=reason))


def _differences(path: str, found: Iterable[Found]) -> Iterator[Finding]:
    for offset, text in found:
        where = None if offset is None else (offset, None)
        yield finding("difference", path, byte_range=where, difference=text, directory=os.path.dirname(path))


def _verdict(
    path: str, row: Row[Any], log: OpenLogFile, found: Iterable[Finding], thinned_series: int = 0
) -> FileVerdict:
    size = max(log.sight.size_bytes, row.byte_offset)
    return FileVerdict(
        path,
        size_bytes=size,
        ingested_bytes=row.byte_offset - row.quarantined_bytes,
        quarantined_bytes=row.quarantined_bytes,
        pending_bytes=size - row.byte_offset,
        differences=tuple(found),
        thinned_series=thinned_series,
    )


# ---- Read a log file frame by frame up to a bookmark, by the plain path of its format
# In: an open log file, and where the store has given up bytes. Out: claims, lineage events and counts, also of the
# bytes that hold no event; and a fault where the file contradicts the bookmark. Promises: memory is bounded by one
# chunk or frame, plus the file's lineage events, which are kept; the fast path is not used. Does not know the
# database.


_STATISTICS = ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
_PLACE = ("frame_offset", "frame_length", "value_index", "checksum")
_ABOUT = ("dtype", "shape", "size_bytes")
PAYLOAD_COLUMNS = ("wall_time", *_PLACE, *_ABOUT, *_STATISTICS)
SCALAR_COLUMNS = ("wall_time", "value")
"""The columns of the sample tables, in the order of a claim's content."""
_HEADER_IN_HOLE = 256
"""A frame may begin with so many zeros that a hole of the file ends behind its beginning."""


@dataclass(slots=True)
class Walk:
    """The contents of one file that were read so far."""

    log: OpenLogFile
    format: LogFormat
    kind: str
    name: str
    claims: Claims
    settings: Settings
    position: int = 0
    event_count: int = 0
    given_up_bytes: int = 0
    lineage: list[tuple[int, int, str, float | None, str]] = field(default_factory=list)
    """(byte offset, kind, wall time, content as JSON)."""
    faults: list[tuple[int, str]] = field(default_factory=list)

    def to(self, end: int, given_up: GivenUp) -> bool:
        """Read on up to the bookmark `end`; return False, with the reason in `faults`, if that is impossible.

        Where the store has given up bytes, what is no frame is passed over up to the next whole one.
        """
        settings = self.settings
        content, base = b"", self.position
        reader = self.format.reader(content, base=base)
        while self.position < end:
            if not base <= self.position <= base + len(content):
                content, base = b"", self.position
                reader = self.format.reader(content, base=base)
            found = reader.next(self.position - base)
            if isinstance(found, NeedData):
                wanted = max(settings.chunk_bytes, found.wanted(base + len(content) - self.position))
                more = self.log.read(self.position, min(wanted, max(end - self.position, 0)))
                if len(more) < found.length:
                    if not self._pass_over(self._next_frame, end, end, given_up):
                        return self._fault("no whole frame before the bookmark")
                    continue
                content, base = more, self.position
                reader = self.format.reader(more, base=base, max_frame_bytes=settings.max_frame_bytes)
            elif isinstance(found, Frame):
                self._take(found, given_up)
                self.position = found.end
            else:
                searched = partial(self._next_frame_in, reader, base, base + len(content))
                if not self._pass_over(searched, min(found.end or end, end), end, given_up):
                    return self._fault(f"no frame: {found.reason}")
        return True

    def _fault(self, text: str) -> bool:
        self.faults.append((self.position, f"The store counts these bytes as read, but there is {text}."))
        return False

    def _pass_over(
        self, next_frame: Callable[[int, int], int], before: int, end: int, given_up: GivenUp
    ) -> bool:
        """Pass over bytes that are no frame: up to the next frame, or to `before` if none begins before that.

        Return False if the store has not given up bytes there.
        """
        if not given_up.may_be(self.position, "damaged_bytes"):
            return False
        following = next_frame(before, end)
        self.given_up_bytes += following - self.position
        self.position = following
        return True

    def _next_frame_in(self, reader: FrameFinder, base: int, read_to: int, before: int, end: int) -> int:
        """Return what `_next_frame` does, if possible from bytes that were read already.

        Damage in every other frame then costs one search of each buffer, not one of each place.
        """
        found = reader.find(self.position + 1 - base, before - base)
        if isinstance(found, Frame):
            return found.position
        if found is None and before + self.format.header_bytes <= read_to:
            return before
        return self._next_frame(before, end)

    def _next_frame(self, before: int, end: int) -> int:
        """Return where the next frame begins that is whole before the bookmark `end`; `before` if it is not before.

        A header that claims more than is in the buffer is checked with twice as much, but only if it is in the first
        half of the buffer: any number of headers may claim a long frame.
        """
        start, wanted, most = self.position + 1, self.settings.chunk_bytes, self.settings.max_frame_bytes
        while start < before:
            start = max(start, self.log.next_data(start) - _HEADER_IN_HOLE)
            content = self.log.read(start, min(wanted, end - start))
            reader = self.format.reader(content, base=start, max_frame_bytes=most)
            found = reader.find(0, max(before - start, 0))
            if isinstance(found, Frame):
                return found.position
            if start + len(content) >= end or not content:
                return before
            if found is None:
                start += max(len(content) - self.format.header_bytes + 1, 1)
                wanted = self.settings.chunk_bytes
            else:
                is_near = found.position - start < len(content) / 2
                wanted = min(2 * found.length, LOOK_AHEAD * most) if is_near else self.settings.chunk_bytes
                start = found.position
        return before

    def _take(self, frame: Frame, given_up: GivenUp) -> None:
        if given_up.may_be(frame.position, "oversized_event") and self._is_oversized(frame):
            self.given_up_bytes += frame.length
            return
        try:
            values = self.format.decode(frame.payload, self.kind)
        except EventDecodeError as error:
            if given_up.may_be(frame.position, "undecodable_event"):
                self.given_up_bytes += frame.length
            else:
                self.faults.append((frame.position, f"The frame holds no event: {error}"))
            return
        self.event_count += 1
        for index, value in enumerate(values):
            if isinstance(value, LineageEvent):
                content = json.dumps(value.content)
                place = frame.position, index
                self.lineage.append((*place, value.kind, _time(value.wall_time), content))
            elif isinstance(value, ScalarValue):
                row = canonical((_time(value.wall_time), value.value))
                self.claims.add((SCALAR, value.tag), value.step, row)
            elif isinstance(value, PayloadValue):
                self._take_payload(frame, value)

    def _is_oversized(self, frame: Frame) -> bool:
        """Return whether an event is beyond a bound of the present settings."""
        try:
            before_decoding(self.format, self.kind, frame.payload, self.settings)
            for value in self.format.decode(frame.payload, self.kind):
                if isinstance(value, LineageEvent):
                    of_event(value, self.settings)
                    content_within(value, self.settings)
                    if value.kind == "eval":
                        with suppress(ValueError):
                            metrics_within(value, self.settings)
        except OversizedEventError:
            return True
        except EventDecodeError:
            pass
        return False

    def _take_payload(self, frame: Frame, value: PayloadValue) -> None:
        found = value.statistics
        place = (frame.position, frame.length, value.value_index, frame.checksum)
        about = (value.dtype, json.dumps(value.shape), value.size_bytes)
        statistics = [getattr(found, name) if found else None for name in _STATISTICS]
        row = canonical((_time(value.wall_time), *place, *about, *statistics))
        self.claims.add((value.plugin, value.series_tag(self.name)), value.step, row)


def _time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
