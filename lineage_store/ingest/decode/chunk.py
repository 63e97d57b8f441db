"""What passes from reading to decoding: bytes of one log file, from its bookmark on. Pure.

In: what was read of a file, and what it looked like just then. Out: what follows from that alone. Does not know
the disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from lineage_store.store.records import FileSight, KnownFile


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a log file behind its bookmark, and those before them as far as digests need them."""

    file: KnownFile
    sight: FileSight
    before: bytes
    content: bytes
    give_up_before: int = 0
    """Suspect frames that end before this position are quarantined; others wait, for their bytes are younger."""
    skipped: int = 0
    """Bytes between the bookmark and `content` that were not read: a hole in the file, to be given up."""
    stop: int | None = None
    """The file position at which to read no further, if not at the end of `content`."""

    @property
    def position(self) -> int:
        """Where `content` begins in the file."""
        return self.file.byte_offset + self.skipped

    @property
    def is_last(self) -> bool:
        """Whether it reaches to the end of a file to which nobody writes any more."""
        return self.sight.closed and self.position + len(self.content) >= self.sight.size_bytes

    def bytes_before(self, end: int, length: int) -> bytes:
        """The `length` bytes before the file position `end`, which lies in what was read."""
        index = end - self.position
        if index >= length:
            return self.content[index - length : index]
        return (self.before + self.content[:index])[-length:]
