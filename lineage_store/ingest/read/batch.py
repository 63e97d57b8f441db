"""A batch: the rows for one write transaction. Open each file anew, read a chunk of it, decode the chunks together.

In: files as the store knows them, the time. Out: their advances and samples; which files were rewritten, cannot be read
or are too damaged; nothing for files without news. Promises: no more is read once a batch has enough rows or bytes, or
its time is over; the bytes of at most CHUNKS_TOGETHER + 1 chunks are in memory beside the batch, or one frame if it is
longer; a file that cannot be opened or read does not affect the others; many small files are decoded together. Does not
know the database.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import length_hint
from pathlib import Path
from typing import NamedTuple

from lineage_store.config import Settings
from lineage_store.eventlog.tfrecord import NeedData, Suspect
from lineage_store.findings import Finding, finding
from lineage_store.ingest.decode import rows
from lineage_store.ingest.decode.rows import LOOK_AHEAD, Chunk
from lineage_store.ingest.problems import unreadable_file
from lineage_store.ingest.read import log_reader
from lineage_store.ingest.read.log_reader import Compared, Rewritten, compare_copy, is_in_grace, read_chunk
from lineage_store.program import Limit, uncollected
from lineage_store.states import FileState
from lineage_store.store.records import Advance, FileRows, KnownFile, SampleColumns, relative_path

READING_SHARE = 0.1
"""A batch ends after this share of `reading_deadline_s`, so that several slow files do not look like one that hangs."""

CHUNKS_TOGETHER = 4
"""Summary files shorter than a chunk are decoded together until they have as many bytes as this many chunks: each
decoding takes some milliseconds whatever it decodes. Lineage files gain nothing by it, and their rows may take twenty
times as much memory as their bytes: those decoded together have as many bytes as one chunk."""

_SAMPLES_A_NAME = 10
"""Storing a series, metric or user-defined value, which is looked up by name, takes as long as this many samples."""

SUSPECT_BYTES = 4096
"""How much is read of a file whose next bytes were no frame when last seen; more only if a valid header needs it."""

_Portion = tuple[KnownFile, int]
"""A file, and how many bytes of it to read at once."""


@dataclass(slots=True)
class Batch:
    """The result of reading for one transaction."""

    advances: list[Advance] = field(default_factory=list)
    samples: list[SampleColumns] = field(default_factory=list)
    rewritten: list[Rewritten] = field(default_factory=list)
    failures: list[tuple[KnownFile, Finding]] = field(default_factory=list)
    heavily_damaged: list[tuple[KnownFile, Finding]] = field(default_factory=list)
    """Files with more than `most_damages` problems in one chunk, which are not read any more."""
    row_count: int = 0
    """Rows to write; what is looked up by name counts as _SAMPLES_A_NAME rows."""
    bytes_read: int = 0
    """The bytes read and, for files with lineage events, the bytes that are folded again and written."""
    files_taken: int = 0
    """How many files were read, with or without news."""
    compared: list[Compared] = field(default_factory=list)
    """How copies compare with their originals, as far as the store does not know it."""
    failed_read: tuple[KnownFile, str] | None = None
    """A file that failed the reader, and how."""
    costs: dict[str, Cost] = field(default_factory=dict)
    """What reading cost, by train id."""

    def add(self, advance: Advance) -> None:
        """Add the advance of one file."""
        self.advances.append(advance)
        rows = advance.rows
        self.row_count += rows.sample_count + rows.event_count + len(rows.problems)
        values = sum(len(event.metrics) for event in rows.lineage_events)
        if rows.folded:
            values += len(rows.folded.metrics) + len(rows.folded.user_info)
        self.row_count += _SAMPLES_A_NAME * values
        self.bytes_read += advance.after.byte_offset - advance.file.byte_offset
        if rows.lineage_events:
            contents = 2 * sum(len(event.content) for event in rows.lineage_events)  # once read, once written
            folded = len(rows.folded.model_lineage) if rows.folded else 0
            self.bytes_read += advance.file.byte_offset + contents + folded

    def without(self, files: Collection[KnownFile]) -> Batch:
        """Return the batch without what was read of some files."""
        keys = {file.key for file in files}
        kept = [[name.file.key not in keys for name in columns.series] for columns in self.samples]
        return replace(
            self,
            advances=[each for each in self.advances if each.file.key not in keys],
            samples=[
                columns.only(which) for columns, which in zip(self.samples, kept, strict=True) if any(which)
            ],
            heavily_damaged=[each for each in self.heavily_damaged if each[0].key not in keys],
        )

    @property
    def calls_for_writing(self) -> bool:
        """Whether anything that was read, or could not be, is to be stored; copies are settled by themselves."""
        return bool(self.advances or self.failures or self.heavily_damaged or self.failed_read)

    def is_full(self, settings: Settings) -> bool:
        """Return whether the batch has enough rows or bytes for a transaction."""
        return self.row_count >= settings.batch_rows or self.bytes_read >= settings.batch_bytes


def fill(
    base_dir: Path,
    files: Sequence[KnownFile],
    settings: Settings,
    now: datetime,
    most_bytes: Sequence[int] | None = None,
    seconds: float | None = None,
) -> Batch:
    """Read files until the batch is full, its time is over, or all have been read.

    Args:
        now: the time of the database's clock.
        most_bytes: how many bytes of each file to read at once; None: `chunk_bytes`.
        seconds: how long reading should take by itself (program.py); None: READING_SHARE of `reading_deadline_s`.
    """
    most = most_bytes or [settings.chunk_bytes] * len(files)
    batch, waiting = Batch(), iter(list(zip(files, most, strict=True)))
    filling = _Filling(base_dir, settings, now, batch)
    limit = Limit(READING_SHARE * settings.reading_deadline_s if seconds is None else seconds)
    with uncollected():
        while length_hint(waiting) and not batch.is_full(settings):
            filling.read(_within(limit, waiting))
            if limit.left_s() <= 0:
                break
        batch.files_taken = len(files) - length_hint(waiting)
        batch.samples = _joined_by_plugin(batch.samples)
    return batch


def _joined_by_plugin(samples: Sequence[SampleColumns]) -> list[SampleColumns]:
    """Join the samples of each plugin, because storing each SampleColumns takes statements of its own."""
    by_plugin: dict[str, list[SampleColumns]] = defaultdict(list)
    for columns in samples:
        by_plugin[columns.plugin].append(columns)
    return [SampleColumns.joined(parts) for parts in by_plugin.values()]


def _within(limit: Limit, files: Iterator[_Portion]) -> Iterator[_Portion]:
    """Yield at least one file, and more until the time is over; the rest stays in `files`."""
    for file in files:
        yield file
        if limit.left_s() <= 0:
            return


@dataclass(frozen=True, slots=True)
class _Filling:
    base_dir: Path
    settings: Settings
    now: datetime
    batch: Batch

    def read(self, files: Iterable[_Portion]) -> None:
        """Read from the iterator as many files as are decoded together, and leave the rest in it."""
        for portion in self._read(files):
            longer = [portion]
            while longer:  # the next frame is longer than what was read
                longer = self._read(longer, in_full=True)

    def _read(self, files: Iterable[_Portion], *, in_full: bool = False) -> list[_Portion]:
        taken = Limit(math.inf)
        chunks = list(self._chunks(files, in_full))
        longer = self._take(chunks)
        sizes = [(chunk.file.train_id, len(chunk.content)) for chunk in chunks]
        share_out(self.batch.costs, sizes, taken.own_s())
        return longer

    def _chunks(self, files: Iterable[_Portion], in_full: bool) -> Iterator[Chunk]:
        """Yield the chunks of one decoding: one a file, up to a chunk that is full, or to CHUNKS_TOGETHER in all.

        Unless `in_full`, read only SUSPECT_BYTES of a file whose next bytes were no frame when last seen.
        """
        chunks = 0.0
        for file, length in files:
            try:
                if file.original is not None:
                    self._compare(file, length)
                    continue
                little = not in_full and is_in_grace(file, self.settings, self.now)
                most = min(length, SUSPECT_BYTES) if little else length
                chunk = read_chunk(self.base_dir, file, self.settings, most, self.now)
            except FileNotFoundError:
                continue  # removed since it was found; the next pass marks it as missing
            except OSError as error:
                if file.state != FileState.UNREADABLE:
                    problem = unreadable_file(self.base_dir, file.train_id, file.name, error)
                    self.batch.failures.append((file, problem))
                continue
            if isinstance(chunk, Rewritten):
                self.batch.rewritten.append(chunk)
                continue
            yield chunk
            share = len(chunk.content) / length
            chunks += share if file.kind == "summary" else CHUNKS_TOGETHER * share
            if share >= 1 or chunks >= CHUNKS_TOGETHER:
                return

    def _compare(self, copy: KnownFile, length: int) -> None:
        taken = Limit(math.inf)
        found = compare_copy(self.base_dir, copy, self.settings, length, self.now)
        if isinstance(found, Rewritten):
            self.batch.rewritten.append(found)
            return
        if found.is_news:
            self.batch.compared.append(found)
        size = found.after.byte_offset - copy.byte_offset
        self.batch.bytes_read += size
        share_out(self.batch.costs, [(copy.train_id, size)], taken.own_s())

    def _take(self, chunks: Sequence[Chunk]) -> list[_Portion]:
        """Decode chunks; return the files whose first frame is longer than the chunk, and how many bytes to read."""
        found = rows.from_chunks(chunks, self.settings)
        cut = [self._without_heavily_damaged(*each) for each in zip(chunks, found.files, strict=True)]
        if self.batch.heavily_damaged and cut != list(chunks):
            chunks, found = cut, rows.from_chunks(cut, self.settings)
        self.batch.samples.extend(found.samples)
        self.batch.row_count += _SAMPLES_A_NAME * sum(len(samples.series) for samples in found.samples)
        longer = []
        for chunk, of_file, ended in zip(chunks, found.files, found.outcomes, strict=True):
            if length := _longer(chunk, of_file, ended, self.settings.max_frame_bytes):
                longer.append((chunk.file, length))
                continue
            advance = log_reader.advance(chunk, of_file, self.now, caught_up=_caught_up(chunk, ended))
            if advance is not None:
                self.batch.add(advance)
        return longer

    def _without_heavily_damaged(self, chunk: Chunk, found: FileRows) -> Chunk:
        """Return the chunk, cut off before the first damaged place beyond `most_damages`: each takes time to read."""
        if found.heavily_damaged_at is None:
            return chunk
        path, most = relative_path(chunk.file.train_id, chunk.file.name), self.settings.most_damages
        told = finding("heavily_damaged_file", path, most=most, start=chunk.position, end=found.end)
        self.batch.heavily_damaged.append((chunk.file, told))
        return replace(chunk, stop=found.heavily_damaged_at)


def _caught_up(chunk: Chunk, ended: NeedData | Suspect) -> bool:
    """Return whether nothing more can be read now.

    A finished file is read to its end, even if its next frame claims to be longer than the file.
    """
    if isinstance(ended, Suspect):
        return True
    in_file = ended.position + ended.length <= chunk.sight.size_bytes
    return not in_file and (not chunk.sight.closed or chunk.is_last)


def _longer(chunk: Chunk, found: FileRows, ended: NeedData | Suspect, max_frame_bytes: int) -> int:
    """Return how many bytes to read if the chunk's first frame is in the file but longer than the chunk; else 0.

    In a finished file a frame that claims to end behind the file counts as the rest of the file, because other frames
    may begin within it.
    """
    if isinstance(ended, Suspect) or found.end > chunk.position:
        return 0
    available, in_file = len(chunk.content), chunk.sight.size_bytes - found.end
    most = LOOK_AHEAD * max_frame_bytes  # as much as decoding may ask for where it gives up damage
    length = min(ended.length, most, in_file if chunk.sight.closed else ended.length)
    if not available < length <= in_file:
        return 0
    return max(length, min(ended.wanted(available), max_frame_bytes, in_file))


class Cost(NamedTuple):
    """How much was read of a job, and how long that took."""

    bytes: int = 0
    seconds: float = 0.0

    def plus(self, more_bytes: int, more_s: float) -> Cost:
        return Cost(self.bytes + more_bytes, self.seconds + more_s)


def share_out(costs: dict[str, Cost], sizes: Sequence[tuple[str, int]], seconds: float) -> None:
    """Add to the jobs' costs the seconds that reading chunks together took, in proportion to their bytes.

    Args:
        sizes: the train id and the number of bytes of each chunk.
    """
    whole = sum(size for _, size in sizes) or 1
    for train_id, size in sizes:
        costs[train_id] = costs.get(train_id, Cost()).plus(size, seconds * size / whole)
