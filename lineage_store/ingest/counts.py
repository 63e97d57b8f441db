"""What one pass, or several, found and did, in numbers that add up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lineage_store.store.records import Advance


@dataclass(frozen=True, slots=True)
class Counts:
    """What one pass, or several, found and did."""

    files_found: int = 0
    files_read: int = 0
    bytes_read: int = 0
    events: int = 0
    samples: int = 0
    batches: int = 0
    batches_s: float = 0.0
    """Seconds that writing them took."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    too_deep: Sequence[str] = ()
    one_job: bool = False
    """Whether the base dir looks like a job's directory."""

    def plus(self, batch: Collection[Advance], *, files_read: int, took_s: float) -> Counts:
        """With the outcome of one batch added that was written in `took_s`; `files_read` is of all batches so far."""
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
