"""The consecutive frames of a buffer, read one by one."""

from __future__ import annotations

from lineage_store.eventlog.tfrecord import (
    DEFAULT_MAX_FRAME_BYTES,
    Buffer,
    Frame,
    FrameReader,
    NeedData,
    Suspect,
)


def read_frames(
    buffer: Buffer, start: int = 0, *, base: int = 0, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
) -> tuple[list[Frame], NeedData | Suspect]:
    """Return the consecutive frames from index `start` on, and what follows them: NeedData at the end of the buffer."""
    reader = FrameReader(buffer, base=base, max_frame_bytes=max_frame_bytes)
    frames: list[Frame] = []
    while isinstance(found := reader.next(start), Frame):
        frames.append(found)
        start += found.length
    return frames, found
