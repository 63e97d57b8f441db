"""Which log files are in trouble, and letting the next pass look at them whatever their stamps say.

In: a base dir. Out: the newest generation of files that are not well; their stamps forgotten.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, update

from lineage_store.store.database.dialects import among_rows
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import log_file
from lineage_store.store.writes import revisions

TROUBLED = frozenset({"unreadable", "poisoned", "suspect", "torn", "missing"})


def in_trouble(file: KnownFile) -> bool:
    """Whether something of the file is not in the store, and more than its pending end."""
    return file.state in TROUBLED or file.quarantined_bytes > 0


def look_again(connection: Connection, base_dir_id: int, files: Collection[KnownFile]) -> None:
    """Let the next pass open these files, though they look as they did."""
    mine = among_rows(connection, (log_file.c.job_id, log_file.c.file_no), (file.key for file in files))
    connection.execute(update(log_file).where(mine).values(stat_stamp=None, strikes=0))
    poisoned = mine & (log_file.c.state == "poisoned")
    connection.execute(update(log_file).where(poisoned).values(state="unreadable"))
    revisions.stamp(connection, base_dir_id, {file.job_id for file in files})
