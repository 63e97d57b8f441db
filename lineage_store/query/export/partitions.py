"""Which rows of a batch go into which file: rows of the same base dir and month go into the same one. Pure.

In: a batch of rows or of Arrow columns, and its source. Out: parts of the batch, each with its base dir and month.
Promises: every row is in exactly one part. A view without a time column is split by base dir only; a view without a
base dir, and a statement, are not split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC
from typing import Any, NamedTuple

from lineage_store.query.export.sources import Source
from lineage_store.times import CALENDAR_BEGIN

_UNSAFE = re.compile(r"[^\w.-]")
_UNKNOWN = "unknown"
"""The month of rows without a time."""
_NO_TIME, _NO_MONTH = CALENDAR_BEGIN * 1_000_000, -1969 * 12
"""Stand-ins for NULL: the first microsecond and month of the calendar, which no view shows. Months count from 1970."""
_MONTHS_BEFORE = -_NO_MONTH


class Partition(NamedTuple):
    """Rows of one base dir and month; None where the source is not split by it."""

    base_dir: str | None = None
    month: str | None = None

    def path(self, name: str) -> str:
        """Return the path of its file in the export, without a suffix.

        A digest tells base dirs of the same name apart; characters that are awkward in file names become `_`.
        """
        if self.base_dir is None:
            return f"{name}/all"
        digest = hashlib.sha256(self.base_dir.encode()).hexdigest()[:8]
        last = _UNSAFE.sub("_", self.base_dir.rstrip("/").rpartition("/")[2][:40]) or "root"
        return "/".join((name, f"{last}-{digest}", *([self.month] if self.month else [])))


def split_rows(source: Source, batch: Any) -> Iterator[tuple[Partition, Any]]:
    """Split a batch of rows."""
    base, time = source.base_dir, source.time
    if base is None:
        yield Partition(), batch
        return
    parts: dict[Partition, list[Any]] = {}
    for row in batch:
        month = None if time is None else _month(row[time])
        parts.setdefault(Partition(row[base], month), []).append(row)
    yield from parts.items()


def _month(value: Any) -> str:
    return _UNKNOWN if value is None else value.astimezone(UTC).strftime("%Y-%m")


def split_arrow(source: Source, batch: Any) -> Iterator[tuple[Partition, Any]]:
    """Split a record batch."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import compute

    if source.base_dir is None:
        yield Partition(), batch
        return
    bases = batch.column(source.base_dir)
    bases = bases if pa.types.is_dictionary(bases.type) else bases.dictionary_encode()
    keys = np.asarray(bases.indices, np.int64) << 32
    if source.time is not None:
        micros = compute.fill_null(batch.column(source.time).cast(pa.int64()), _NO_TIME)
        times = np.asarray(micros).view("datetime64[us]")
        keys |= times.astype("datetime64[M]").view(np.int64) + _MONTHS_BEFORE
    # Rows of a series are adjacent: sorting only the rows where the key changes takes a thousandth of the time.
    begins = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    found, part_of = np.unique(keys[begins], return_inverse=True)
    part_of = np.repeat(part_of, np.diff(begins, append=len(keys)))
    for number, key in enumerate(found):
        months, month = int(key & 0xFFFFFFFF) - _MONTHS_BEFORE, None
        if source.time is not None:
            month = _UNKNOWN if months == _NO_MONTH else str(np.datetime64(months, "M"))
        part = Partition(bases.dictionary[int(key >> 32)].as_py(), month)
        yield part, batch if len(found) == 1 else batch.filter(pa.array(part_of == number))
