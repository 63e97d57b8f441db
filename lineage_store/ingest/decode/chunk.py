"""The bytes of one log file from its bookmark on: the input of decoding. Pure.

In: bytes that were read, and the size and times of the file then. Out: positions, and whether more bytes can follow.
Does not know the disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from lineage_store.store.records import FileSight, KnownFile


@dataclass(frozen=True, slots=True)
class Chunk:
    """The bytes of a log file behind its bookmark, and as many bytes before them as the digests need."""

    file: KnownFile
    sight: FileSight
    before: bytes
    content: bytes
    give_up_before: int = 0
    """Suspect bytes that end at or before this position are quarantined; later ones wait, for they are newer."""
    skipped: int = 0
    """How many bytes between the bookmark and `content` were not read: a hole in the file that is given up."""
    stop: int | None = None
    """The file position at which decoding stops; None: at the end of `content`."""

    @property
    def position(self) -> int:
        """The file position at which `content` begins."""
        return self.file.byte_offset + self.skipped

    @property
    def is_last(self) -> bool:
        """Whether the chunk reaches the end of a file that is no longer written."""
        return self.sight.closed and self.position + len(self.content) >= self.sight.size_bytes

    def bytes_before(self, end: int, length: int) -> bytes:
        """Return the `length` bytes before the file position `end`, which is within `content` or at its end."""
        index = end - self.position
        if index >= length:
            return self.content[index - length : index]
        return (self.before + self.content[:index])[-length:]
