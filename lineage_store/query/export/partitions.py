"""Which rows of a batch go into which file: those of one base dir and month together. Pure.

In: a batch of rows or of Arrow columns, and its source. Out: parts of it with their base dir and month. Promises: every
row is in one part; where a view has no such column there is one part, or one a base dir.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC
from typing import Any, NamedTuple

from lineage_store.query.export.sources import Source

_UNSAFE = re.compile(r"[^\w.-]")
_UNKNOWN = "unknown"
"""The month of what has no time."""
_NO_TIME, _NO_MONTH = -62_135_596_800_000_000, -23_628
"""The first microsecond and month of the calendar, which no view shows; months count from 1970."""
_MONTHS_BEFORE = -_NO_MONTH


class Partition(NamedTuple):
    """Rows of one base dir (None: of none) and month (None: of any)."""

    base_dir: str | None = None
    month: str | None = None

    def path(self, name: str) -> str:
        """Where its file lies, without a suffix. Base dirs may be called alike, or as no file can be."""
        if self.base_dir is None:
            return f"{name}/all"
        digest = hashlib.sha256(self.base_dir.encode()).hexdigest()[:8]
        last = _UNSAFE.sub("_", self.base_dir.rstrip("/").rpartition("/")[2][:40]) or "root"
        return "/".join((name, f"{last}-{digest}", *([self.month] if self.month else [])))


def split_rows(source: Source, batch: Any) -> Iterator[tuple[Partition, Any]]:
    """Parts of rows."""
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
    """Parts of a record batch."""
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
        keys |= (
            np.asarray(micros).view("datetime64[us]").astype("datetime64[M]").view(np.int64) + _MONTHS_BEFORE
        )
    # Rows of a series lie together: to sort where they change takes a thousandth of sorting all.
    begins = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    found, part_of = np.unique(keys[begins], return_inverse=True)
    part_of = np.repeat(part_of, np.diff(begins, append=len(keys)))
    for number, key in enumerate(found):
        months, month = int(key & 0xFFFFFFFF) - _MONTHS_BEFORE, None
        if source.time is not None:
            month = _UNKNOWN if months == _NO_MONTH else str(np.datetime64(months, "M"))
        part = Partition(bases.dictionary[int(key >> 32)].as_py(), month)
        yield part, batch if len(found) == 1 else batch.filter(pa.array(part_of == number))
