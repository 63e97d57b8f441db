"""Bookmarks: how far every log file has been read.

In: advances, each from the bookmark at which its read began. Out: the moved bookmarks of a batch, or an error.
Promises: every event is stored exactly once, for a bookmark moves only from where the read began: after a kill, with a
second daemon, or after a commit whose answer was lost, the store has either the old bookmark without the rows or the
new one with them. Does not know files.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Update, bindparam, null, update

from lineage_store.errors import BookmarkMovedError
from lineage_store.store.database.dialects import execute_rows
from lineage_store.store.records import Advance, KnownFile
from lineage_store.store.schema.tables import log_file


def move_bookmarks(connection: Connection, advances: Sequence[Advance]) -> None:
    """Move every bookmark from where its read began. Raises BookmarkMovedError when one is no longer there."""
    rows = [_row(advance) for advance in advances]
    moved = execute_rows(connection, _move(tuple(rows[0])), rows)
    if moved != len(rows):
        raise BookmarkMovedError(
            f"{len(rows) - moved} of {len(rows)} bookmarks had moved; nothing was written."
        )


def note_sizes(connection: Connection, sizes: Sequence[tuple[KnownFile, int]], now: datetime) -> None:
    """Note the sizes of log files that have grown since they were last looked at, and wait to be read."""
    rows = [
        {"of_job_id": file.job_id, "of_file_no": file.file_no, "size": size, "at": now}
        for file, size in sizes
    ]
    execute_rows(connection, _note_size(), rows)


@cache
def _note_size() -> Update:
    of_file = [log_file.c[name] == bindparam(f"of_{name}") for name in ("job_id", "file_no")]
    grown = update(log_file).where(*of_file, log_file.c.size_bytes < bindparam("size"))
    at = bindparam("at", type_=log_file.c.grown_at.type)
    # Without its stamp the file does not look as if it had been read so far.
    return grown.values(size_bytes=bindparam("size"), grown_at=at, stat_stamp=null())


@cache
def _move(names: Sequence[str]) -> Update:
    unmoved = [log_file.c[name] == bindparam(f"of_{name}") for name in ("job_id", "file_no", "byte_offset")]
    columns: dict[str, Any] = {name: bindparam(name) for name in names if not name.startswith("of_")}
    counted = log_file.c.event_count + bindparam("of_events")
    return update(log_file).where(*unmoved).values(**columns, event_count=counted)


def _row(advance: Advance) -> dict[str, object]:
    after = advance.after
    return {
        "of_job_id": advance.file.job_id,
        "of_file_no": advance.file.file_no,
        "of_byte_offset": advance.file.byte_offset,
        "of_events": advance.rows.event_count,
        "byte_offset": after.byte_offset,
        "size_bytes": after.size_bytes,
        "quarantined_bytes": after.quarantined_bytes,
        "modified_s": advance.sight.modified_s,
        "first_wall_time": after.first_wall_time,
        "last_wall_time": after.last_wall_time,
        "state": after.state,
        "closed": after.closed,
        "stat_stamp": after.stat_stamp,
        "fingerprint": after.fingerprint,
        "fingerprint_bytes": after.fingerprint_bytes,
        "anchor": after.anchor,
        "anchor_bytes": after.anchor_bytes,
        "likeness": after.likeness,
        "suspect_since": after.suspect_since,
        "suspect_size": after.suspect_size,
        "failed_reads": after.failed_reads,
        "last_problem": advance.rows.suspect.what if advance.rows.suspect else None,
        "grown_at": after.grown_at,
        "growth_seen_at": after.growth_seen_at,
        "unread": after.unread,
    }
