"""Log files as the store knows them after registering them, before anything is read.

In: a file's name, its ids and its job. Out: a KnownFile with its bookmark at 0. Does not know the disk.
"""

from __future__ import annotations

from lineage_store.eventlog import formats
from lineage_store.store.records import KnownFile


def unread(name: str, *, train_id: str, number: int = 1, job_id: int = 1) -> KnownFile:
    """Return the log file `number` of a job."""
    recognised = formats.recognise(name)
    assert recognised is not None
    log_format, parsed = recognised
    return KnownFile(
        job_id=job_id,
        file_no=number,
        train_id=train_id,
        name=name,
        format=log_format.name,
        kind=parsed.kind,
        file_time=parsed.timestamp,
        device=parsed.device,
        generation=1,
        current=True,
        state="open",
        size_bytes=0,
        byte_offset=0,
        quarantined_bytes=0,
        closed=False,
        stat_stamp=None,
        fingerprint=None,
        fingerprint_bytes=0,
        anchor=None,
        anchor_bytes=0,
        suspect_since=None,
        suspect_size=None,
        grown_at=None,
        last_wall_time=None,
        failed_reads=0,
    )
