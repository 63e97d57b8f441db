"""Compare the contents of a log file with its rows in the store.

In: a walk to the bookmark, and an open read transaction. Out: differences, the first few of each series. Promises:
samples are compared in bounded memory; the statistics of a series are recomputed from its rows, those of a thinned
series from the file, with which its buckets are compared, too.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Row

from lineage_store.operations.verify.claims import Key, canonical
from lineage_store.operations.verify.walking import PAYLOAD_COLUMNS, SCALAR_COLUMNS, Walk
from lineage_store.plugins import BY_NAME
from lineage_store.store.catalog import audit
from lineage_store.store.catalog.audit import GivenUp
from lineage_store.store.records import FileKey

Found = tuple[int | None, str]
"""(byte offset in the file, description of the difference)."""

SHOWN_OF_A_SERIES = 3


def compare(connection: Connection, walk: Walk, row: Row[Any]) -> Iterator[Found]:
    """Yield the differences between a log file and its rows; at most SHOWN_OF_A_SERIES per series."""
    file = row.job_id, row.file_no
    given_up = audit.given_up(connection, file, row.byte_offset)
    yield from _ledger(walk, row, given_up)
    yield from _lineage_events(connection, walk, file, given_up)
    known = {(each.plugin, each.tag): each for each in audit.series_rows(connection, file)}
    for plugin, tag in (
        sorted(walk.claims.keys() - known.keys()) if "beyond_bounds" not in given_up.within else ()
    ):
        yield None, f"The {plugin} {tag!r} of the file is not in the store."
    for key, series in known.items():
        yield from islice(_samples(connection, walk, key, series), SHOWN_OF_A_SERIES)


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


def _lineage_events(connection: Connection, walk: Walk, file: FileKey, given_up: GivenUp) -> Iterator[Found]:
    stored = {
        each.byte_offset: (each.kind, each.wall_time, each.content)
        for each in audit.lineage_events(connection, file)
    }
    written = {position: rest for position, *rest in walk.lineage}
    for position in sorted(stored.keys() | written.keys()):
        if (mine := stored.get(position)) is None:
            if not given_up.may_be(position, "beyond_bounds"):
                yield position, "The lineage event is not in the store."
        elif position not in written:
            yield position, "The store has a lineage event that the file does not have there."
        elif list(mine) != written[position]:
            yield position, "The lineage event is another one than the store has."


def _samples(connection: Connection, walk: Walk, key: Key, series: Row[Any]) -> Iterator[Found]:
    name = f"{key[0]} {key[1]!r}"
    has_value = BY_NAME[key[0]].has_value
    columns = SCALAR_COLUMNS if has_value else PAYLOAD_COLUMNS
    counted, left, of_buckets = _Counted(series.superseded_from), 0, list[str]()
    rows, written = audit.samples(connection, series), walk.claims.of(key)
    if series.thinned_count:
        in_buckets = _held_against(audit.buckets(connection, series), written, of_buckets)
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
