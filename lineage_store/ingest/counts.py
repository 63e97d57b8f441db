"""The numbers of files, bytes, events and samples of a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lineage_store.store.records import Advance


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a pass, or several, found and read."""

    files_found: int = 0
    files_read: int = 0
    bytes_read: int = 0
    events: int = 0
    samples: int = 0
    batches: int = 0
    batches_s: float = 0.0
    """How long writing the batches took, in seconds."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    too_deep: Sequence[str] = ()
    files_in_base_dir: int = 0
    """Log files that lie in the base dir itself."""

    @property
    def one_job(self) -> bool:
        """Whether the base dir looks like a job's directory."""
        return 0 < self.files_in_base_dir == self.files_found

    def found(self, more: Counts) -> Counts:
        """Return the sum of what this and `more`, of another part of the base dir, have found."""
        return replace(
            self,
            files_found=self.files_found + more.files_found,
            ignored=dict(Counter(self.ignored) + Counter(more.ignored)),
            too_deep=(*self.too_deep, *more.too_deep),
            files_in_base_dir=self.files_in_base_dir + more.files_in_base_dir,
        )

    def since(self, earlier: Counts) -> Counts:
        """Return what has been found and read since `earlier`, in the same pass."""
        names = ("files_found", "files_read", "bytes_read", "events", "samples", "batches", "batches_s")
        return replace(self, **{name: getattr(self, name) - getattr(earlier, name) for name in names})

    def plus(self, batch: Collection[Advance], *, files_read: int, took_s: float) -> Counts:
        """Return this with a batch added that was written in `took_s`; `files_read` is for all batches so far."""
        return replace(
            self,
            files_read=files_read,
            bytes_read=self.bytes_read
            + sum(advance.after.byte_offset - advance.file.byte_offset for advance in batch),
            events=self.events + sum(advance.rows.event_count for advance in batch),
            samples=self.samples + sum(advance.rows.sample_count for advance in batch),
            batches=self.batches + 1,
            batches_s=self.batches_s + took_s,
        )
