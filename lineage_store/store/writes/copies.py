"""Copies: log files that have the bytes of another one of their job, which counts instead of them.

In: log files, how they compare. Out: rows of `log_file`. Promises: a copy has no rows of its own and refers to a
current file that is no copy; where a copy has all that was read of its original, the two exchange their places: the
rows stay with their number, and the name changes. Does not know the disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from lineage_store.states import FILE_TRANSITIONS, FileEvent
from lineage_store.store.catalog import registry
from lineage_store.store.database.dialects import among, among_rows, update_by_key
from lineage_store.store.records import FileKey, KnownFile, relative_path
from lineage_store.store.schema.tables import in_file, ingest_problem, log_file
from lineage_store.store.writes import problems

ALIKE_SEEN = 64
"""Of the files of a job that begin alike, so many with the lowest numbers may be originals: any number of copies costs
one comparison each."""
_KEY = (log_file.c.job_id, log_file.c.file_no)
_OF_THE_PATH = (
    *("name", "generation", "file_time", "host", "size_bytes", "modified_s", "closed", "grown_at"),
    "growth_seen_at",
)
"""What a row says of the path; all else is about what was read, and when that was first seen."""
_OF_READING: dict[str, Any] = {
    **dict.fromkeys(("stat_stamp", "suspect_since", "suspect_size", "last_problem")),
    "failed_reads": 0,
}
_UNCOMPARED: dict[str, Any] = {
    **_OF_READING,
    **dict.fromkeys(("fingerprint", "anchor", "likeness", "first_wall_time", "last_wall_time")),
    **dict.fromkeys(
        ("byte_offset", "quarantined_bytes", "event_count", "fingerprint_bytes", "anchor_bytes"), 0
    ),
}


def alike(connection: Connection, likenesses: Collection[tuple[int, int]]) -> list[KnownFile]:
    """Return the files that may be originals, by (job id, likeness): current ones of which something was read."""
    if not likenesses:
        return []
    number = func.row_number().over(
        partition_by=(log_file.c.job_id, log_file.c.likeness), order_by=log_file.c.file_no
    )
    these = among_rows(connection, (log_file.c.job_id, log_file.c.likeness), likenesses)
    seen = select(*_KEY, number.label("place")).where(these, log_file.c.current).subquery()
    first = select(seen.c.job_id, seen.c.file_no).where(seen.c.place <= ALIKE_SEEN)
    keys = [tuple(row) for row in connection.execute(first)]
    return registry.files(connection, among_rows(connection, _KEY, keys)) if keys else []


def unchanged(connection: Connection, files: Collection[KnownFile]) -> set[KnownFile]:
    """Return those of the files whose rows still have the name, bookmark and original with which they were read."""
    rows = {file.key: file for file in of_keys(connection, (file.key for file in files))}
    names = ("name", "byte_offset", "copy_of")
    return {
        file
        for file in files
        if (row := rows.get(file.key)) and all(getattr(row, name) == getattr(file, name) for name in names)
    }


def of_keys(connection: Connection, keys: Any) -> list[KnownFile]:
    """Return log files by their keys."""
    return registry.files(connection, among_rows(connection, _KEY, keys))


def of_paths(connection: Connection, files: Collection[KnownFile]) -> list[KnownFile]:
    """Return the newest generations at the paths of these files."""
    paths = ((file.job_id, file.name) for file in files)
    found = registry.files(connection, among_rows(connection, (log_file.c.job_id, log_file.c.name), paths))
    return list({(file.job_id, file.name): file for file in found}.values())


def copies_of(connection: Connection, originals: Collection[FileKey]) -> list[KnownFile]:
    """Return the copies of some log files."""
    which = among_rows(connection, (log_file.c.job_id, log_file.c.copy_of), originals)
    return registry.files(connection, which)


def set_aside(connection: Connection, copies: Mapping[KnownFile, KnownFile]) -> None:
    """Let unread files count as copies of others, with which they are to be compared."""
    state = FILE_TRANSITIONS[FileEvent.COPIED].after
    rows = [
        {**_of(file.key), "current": False, "state": state, "copy_of": original.file_no, "stat_stamp": None}
        for file, original in copies.items()
    ]
    update_by_key(connection, log_file, rows)


def note(connection: Connection, compared: Sequence[tuple[KnownFile, int]]) -> None:
    """Store how far copies were compared: their rows after that, and when they were modified."""
    names = (
        "current",
        "state",
        "size_bytes",
        "byte_offset",
        "closed",
        "stat_stamp",
        "fingerprint",
        "grown_at",
    )
    digests = ("fingerprint_bytes", "anchor", "anchor_bytes", "failed_reads")
    rows = [
        {
            **_of(file.key),
            **{name: getattr(file, name) for name in (*names, *digests)},
            "modified_s": modified_s,
            "last_problem": None,
        }
        for file, modified_s in compared
    ]
    update_by_key(connection, log_file, rows)


def part(connection: Connection, file: KnownFile, compared_upto: int) -> None:
    """Let a file that is no copy be read from its first byte; an older generation of it stays in sight until then."""
    older = log_file.c.current & (log_file.c.job_id == file.job_id) & (log_file.c.name == file.name)
    is_new = file.generation > 1 and connection.execute(select(log_file.c.file_no).where(older)).first()
    event = FileEvent.REWRITTEN if is_new else FileEvent.PARTED
    values = {**_UNCOMPARED, "copy_of": None, "compared_upto": compared_upto, "current": not is_new}
    unread = update(log_file).where(in_file(log_file, file.key))
    connection.execute(unread.values(**values, state=FILE_TRANSITIONS[event].after))
    problems.forget_files(connection, file.job_id, [file.file_no])


def exchange(connection: Connection, original: KnownFile, copy: KnownFile, *, is_gone: bool) -> None:
    """Let a copy that has all that was read of its original take its place, and the original be the copy.

    Args:
        is_gone: the original is no longer on disk, so that no row of it is left.
    """
    rows = {row.file_no: row for row in connection.execute(select(log_file).where(_either(original, copy)))}
    content, other = rows[original.file_no], rows[copy.file_no]
    problems.forget_files(connection, copy.job_id, [copy.file_no])
    connection.execute(delete(log_file).where(in_file(log_file, copy.key)))
    taken_over = update(log_file).where(in_file(log_file, original.key))
    counts = FILE_TRANSITIONS[FileEvent.TOOK_OVER].after
    connection.execute(taken_over.values(**_path_of(other), **_OF_READING, state=counts))
    path = relative_path(copy.train_id, copy.name)
    renamed = update(ingest_problem).where(in_file(ingest_problem, original.key))
    connection.execute(renamed.values(path=path))
    if not is_gone:
        connection.execute(insert(log_file), _as_copy(content, other))


def forget(connection: Connection, copies: Collection[KnownFile]) -> None:
    """Delete the rows of copies that are no longer on disk: nothing was read of them."""
    of_job = defaultdict[int, list[int]](list)
    for file in copies:
        of_job[file.job_id].append(file.file_no)
    for job_id, file_nos in of_job.items():
        problems.forget_files(connection, job_id, file_nos)
    connection.execute(delete(log_file).where(among_rows(connection, _KEY, (file.key for file in copies))))


def compare_anew(connection: Connection, job_id: int, replaced: Collection[int], original_no: int) -> None:
    """Have the copies of replaced files compared, from their first byte, with the file that took their place."""
    mine = (log_file.c.job_id == job_id) & among(connection, log_file.c.copy_of, replaced)
    connection.execute(update(log_file).where(mine).values(**_UNCOMPARED, copy_of=original_no))


def _of(key: FileKey) -> dict[str, int]:
    return {"of_job_id": key[0], "of_file_no": key[1]}


def _either(file: KnownFile, other: KnownFile) -> Any:
    return in_file(log_file, file.key) | in_file(log_file, other.key)


def _path_of(row: Row[Any]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _OF_THE_PATH}


def _as_copy(content: Row[Any], other: Row[Any]) -> dict[str, Any]:
    """The row of a former original: all of it that was read is known to be in the file that took its place."""
    row = {**content._mapping, **_OF_READING, "file_no": other.file_no, "copy_of": content.file_no}
    nothing = dict.fromkeys(("event_count", "quarantined_bytes"), 0) | {
        "thinned": False,
        **dict.fromkeys(("first_wall_time", "last_wall_time", "unlisted")),
    }
    return row | nothing | {"current": False, "state": FILE_TRANSITIONS[FileEvent.COPIED].after}
