"""Generations of rewritten log files: readers see the old one until the new one has been read, and never a mix.

In: log files. Out: which new generations may be seen, the switch to them, and the bounded removal of the old ones'
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, select, update

from lineage_store.states import FileEvent, FileState, after
from lineage_store.store.catalog.registry import UNSETTLED
from lineage_store.store.database.dialects import among, among_rows
from lineage_store.store.records import Advance, FileKey, KnownFile
from lineage_store.store.schema.tables import in_file, log_file, series, train_job
from lineage_store.store.shards import ALL, Shards
from lineage_store.store.writes import copies, problems
from lineage_store.store.writes.file_states import after_event
from lineage_store.store.writes.removal import remove_series


def settled(connection: Connection, advances: Sequence[Advance]) -> list[Advance]:
    """Return the advances, those as settled of new generations that have no less than the ones that readers see.

    Bytes that make no frame yet keep back a new generation, for they may hold what readers see of the old one: but not
    when there are as many events and as many good bytes before them.
    """
    kept_back = [each for each in advances if not each.after.current and each.caught_up and each.rows.suspect]
    if not kept_back:
        return list(advances)
    shown, begun = _contents(connection, kept_back)
    enough = set[FileKey]()
    for each in kept_back:
        events, good_bytes = shown.get((each.file.job_id, each.file.name), (0, 0))
        has_events = begun.get(each.file.key, 0) + each.rows.event_count
        if has_events >= events and each.after.byte_offset - each.after.quarantined_bytes >= good_bytes > 0:
            enough.add(each.file.key)
    return [_settled(each) if each.file.key in enough else each for each in advances]


def _contents(
    connection: Connection, advances: Sequence[Advance]
) -> tuple[dict[tuple[int, str], tuple[int, int]], dict[FileKey, int]]:
    """Events and good bytes of the generations that readers see, by job and name; events of all, by key."""
    of_name = log_file.c.job_id, log_file.c.name
    names = {(each.file.job_id, each.file.name) for each in advances}
    good_bytes = (log_file.c.byte_offset - log_file.c.quarantined_bytes).label("good_bytes")
    columns = (*of_name, log_file.c.file_no, log_file.c.current, log_file.c.event_count, good_bytes)
    rows = connection.execute(select(*columns).where(among_rows(connection, of_name, names))).all()
    shown = {(row.job_id, row.name): (row.event_count, row.good_bytes) for row in rows if row.current}
    return shown, {(row.job_id, row.file_no): row.event_count for row in rows}


def _settled(advance: Advance) -> Advance:
    state = after(advance.file.state, FileEvent.NO_FRAME)
    return advance._replace(after=advance.after._replace(current=True, state=state))


def make_current(connection: Connection, file: KnownFile) -> None:
    """Let readers see this generation of a file instead of the older ones, whose rows are to be removed."""
    # Asked for first, because SQLite finds names by an index only in a SELECT.
    generations = select(log_file.c.file_no).where(
        log_file.c.job_id == file.job_id, log_file.c.name == file.name
    )
    older = connection.execute(generations.where(log_file.c.file_no != file.file_no)).scalars().all()
    if older:
        mine = (log_file.c.job_id == file.job_id) & among(connection, log_file.c.file_no, older)
        supersede(connection, file.job_id, mine, file.file_no)
    connection.execute(update(log_file).where(in_file(log_file, file.key)).values(current=True))


def abandon(connection: Connection, file: KnownFile) -> None:
    """Give up a generation that was rewritten again before it was read."""
    supersede(connection, file.job_id, in_file(log_file, file.key) & ~log_file.c.current, file.file_no)


def supersede(connection: Connection, job_id: int, which: ColumnElement[bool], newer_no: int) -> None:
    """Hide generations from readers, and delete their problems, so that no view has to filter these.

    Their copies are compared with the file `newer_no`.
    """
    superseded = after_event(FileEvent.SUPERSEDED, which).values(current=False).returning(log_file.c.file_no)
    numbers = connection.execute(superseded).scalars().all()
    problems.forget_files(connection, job_id, numbers)
    copies.compare_anew(connection, job_id, numbers, newer_no)


def any_replaced(connection: Connection, base_dir_id: int, shards: Shards = ALL) -> bool:
    """Whether replaced generations still have rows."""
    return _one_replaced(connection, base_dir_id, shards) is not None


def remove_replaced(connection: Connection, base_dir_id: int, shards: Shards, most_rows: int) -> bool:
    """Remove at most about `most_rows` rows of a replaced generation; return whether there may be more to remove."""
    file = _one_replaced(connection, base_dir_id, shards)
    if file is None:
        return False
    job_id, file_no = file
    most_rows = remove_series(connection, job_id, most_rows, series.c.file_no == file_no)
    if most_rows > 0:
        connection.execute(delete(log_file).where(in_file(log_file, (job_id, file_no))))
    return True


def _one_replaced(connection: Connection, base_dir_id: int, shards: Shards) -> Row[Any, Any] | None:
    return connection.execute(
        select(log_file.c.job_id, log_file.c.file_no)
        .join_from(log_file, train_job)
        .where(*shards.conditions(base_dir_id), UNSETTLED, log_file.c.state == FileState.REPLACED)
        .limit(1)
    ).first()
