"""Rows of log files: bookmarks, states, generations of rewritten files, and copies.

In: advances, each from the bookmark at which its read began; log files, and an event of `states.py`. Out: rows of
`log_file`. Promises: every event is stored exactly once, for a bookmark moves only from where the read began: after a
kill, with a second daemon, or after a commit whose answer was lost, the store has either the old bookmark without the
rows or the new one with them; a file changes its state only as `states.py` allows; readers see the old generation of a
rewritten file until the new one has been read, and never a mix; a copy has no rows of its own and refers to a current
file that is no copy: where it has all that was read of its original, the two exchange their places, so that the rows
stay with their number and the name changes. Does not know the disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Update,
    bindparam,
    delete,
    func,
    insert,
    null,
    select,
    update,
)

from lineage_store.errors import BookmarkMovedError
from lineage_store.states import FILE_STATE_AFTER, FILE_TRANSITIONS, TROUBLED, FileEvent
from lineage_store.store.catalog import registry
from lineage_store.store.database.sql import Session, among, among_rows, update_by_key
from lineage_store.store.leases import Shards
from lineage_store.store.records import Advance, FileKey, KnownFile, relative_path
from lineage_store.store.schema.tables import in_file, ingest_problem, log_file, series
from lineage_store.store.writes import ingest_log, jobs
from lineage_store.store.writes.removal import remove_series


def move_bookmarks(session: Session, advances: Sequence[Advance]) -> None:
    """Move every bookmark from where its read began. Raises BookmarkMovedError when one is no longer there."""
    rows = [_row(advance) for advance in advances]
    moved = session.change(_move(tuple(rows[0])), rows)
    if moved != len(rows):
        raise BookmarkMovedError(
            f"{len(rows) - moved} of {len(rows)} bookmarks had changed; nothing was written."
        )


def note_sizes(session: Session, sizes: Sequence[tuple[KnownFile, int]], now: datetime) -> None:
    """Note the sizes of log files that have grown since they were last checked, and wait to be read."""
    rows = [
        {"of_job_id": file.job_id, "of_file_no": file.file_no, "size": size, "at": now}
        for file, size in sizes
    ]
    session.change(_note_size(), rows)


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
        **{name: getattr(after, name) for name in _BY_READING},
        "modified_s": advance.sight.modified_s,
        "last_problem": advance.rows.suspect.what if advance.rows.suspect else None,
    }


_BY_READING = (
    *(
        "byte_offset",
        "size_bytes",
        "quarantined_bytes",
        "first_wall_time",
        "last_wall_time",
        "state",
        "closed",
    ),
    *(
        "stat_stamp",
        "fingerprint",
        "fingerprint_bytes",
        "anchor",
        "anchor_bytes",
        "likeness",
        "suspect_since",
    ),
    *("suspect_size", "failed_reads", "grown_at", "growth_seen_at", "unread"),
)
"""What reading a file changes in its record."""


# ---- States after all events but a successful read, with which the state is written beside the bookmark


def mark_missing(session: Session, files: Iterable[KnownFile]) -> None:
    """Mark all generations of log files as missing from the disk."""
    paths = ((file.job_id, file.name) for file in files)
    gone = after_event(FileEvent.GONE, among_rows(session, (log_file.c.job_id, log_file.c.name), paths))
    session.change(gone.values(stat_stamp=None, last_problem="no longer on disk"))


def mark_failed(
    session: Session, file: KnownFile, event: FileEvent, reason: str, *, failed_reads: int | None = None
) -> None:
    """Mark a log file that could not be read, or that failed the reader `failed_reads` times in a row."""
    values: dict[str, Any] = {"stat_stamp": None, "last_problem": reason}
    if failed_reads is not None:
        values["failed_reads"] = failed_reads
    session.change(after_event(event, in_file(log_file, file.key)).values(values))


def after_event(event: FileEvent, which: ColumnElement[bool]) -> Update:
    """Return the statement that gives log files their state after an event, if it can follow their present state."""
    transition = FILE_TRANSITIONS[event]
    befalls = log_file.c.state.in_(sorted(transition.before))
    return update(log_file).where(which, befalls).values(state=transition.after)


def in_trouble(file: KnownFile) -> bool:
    """Whether more of the file than its incomplete end is not in the store."""
    return file.state in TROUBLED or file.quarantined_bytes > 0


def look_again(session: Session, base_dir_id: int, files: Collection[KnownFile]) -> None:
    """Have the next pass open these files even if they have not changed."""
    mine = among_rows(session, (log_file.c.job_id, log_file.c.file_no), (file.key for file in files))
    session.change(update(log_file).where(mine).values(stat_stamp=None, failed_reads=0))
    session.change(after_event(FileEvent.RETRIED, mine))
    jobs.stamp(session, base_dir_id, {file.job_id for file in files})


# ---- Generations of rewritten log files


def settled(session: Session, advances: Sequence[Advance]) -> list[Advance]:
    """Return the advances, those as settled of new generations that have no less than the ones that readers see.

    Bytes that make no frame yet keep back a new generation, for they may hold what readers see of the old one: but not
    when there are as many events and as many good bytes before them.
    """
    kept_back = [each for each in advances if not each.after.current and each.caught_up and each.rows.suspect]
    if not kept_back:
        return list(advances)
    shown, begun = _contents(session, kept_back)
    enough = set[FileKey]()
    for each in kept_back:
        events, good_bytes = shown.get((each.file.job_id, each.file.name), (0, 0))
        has_events = begun.get(each.file.key, 0) + each.rows.event_count
        if has_events >= events and each.after.byte_offset - each.after.quarantined_bytes >= good_bytes > 0:
            enough.add(each.file.key)
    return [_settled(each) if each.file.key in enough else each for each in advances]


def _contents(
    session: Session, advances: Sequence[Advance]
) -> tuple[dict[tuple[int, str], tuple[int, int]], dict[FileKey, int]]:
    """Events and good bytes of the generations that readers see, by job and name; events of all, by key."""
    of_name = log_file.c.job_id, log_file.c.name
    names = {(each.file.job_id, each.file.name) for each in advances}
    good_bytes = (log_file.c.byte_offset - log_file.c.quarantined_bytes).label("good_bytes")
    columns = (*of_name, log_file.c.file_no, log_file.c.current, log_file.c.event_count, good_bytes)
    rows = session.rows(select(*columns).where(among_rows(session, of_name, names)))
    shown = {(row.job_id, row.name): (row.event_count, row.good_bytes) for row in rows if row.current}
    return shown, {(row.job_id, row.file_no): row.event_count for row in rows}


def _settled(advance: Advance) -> Advance:
    state = FILE_STATE_AFTER[advance.file.state, FileEvent.NO_FRAME]
    return advance._replace(after=advance.after._replace(current=True, state=state))


def make_current(session: Session, file: KnownFile) -> None:
    """Let readers see this generation of a file instead of the older ones, whose rows are to be removed."""
    # Asked for first, because SQLite finds names by an index only in a SELECT.
    generations = select(log_file.c.file_no).where(
        log_file.c.job_id == file.job_id, log_file.c.name == file.name
    )
    older = session.column(generations.where(log_file.c.file_no != file.file_no))
    if older:
        mine = (log_file.c.job_id == file.job_id) & among(session, log_file.c.file_no, older)
        supersede(session, file.job_id, mine, file.file_no)
    session.change(update(log_file).where(in_file(log_file, file.key)).values(current=True))


def abandon(session: Session, file: KnownFile) -> None:
    """Give up a generation that was rewritten again before it was read."""
    supersede(session, file.job_id, in_file(log_file, file.key) & ~log_file.c.current, file.file_no)


def supersede(session: Session, job_id: int, which: ColumnElement[bool], newer_no: int) -> None:
    """Hide generations from readers, and delete their problems, so that no view has to filter these.

    Their copies are compared with the file `newer_no`.
    """
    superseded = after_event(FileEvent.SUPERSEDED, which).values(current=False).returning(log_file.c.file_no)
    numbers = session.column(superseded)
    ingest_log.forget_files(session, job_id, numbers)
    compare_anew(session, job_id, numbers, newer_no)


def remove_replaced(session: Session, base_dir_id: int, shards: Shards, most_rows: int) -> bool:
    """Remove at most about `most_rows` rows of a replaced generation; return whether there may be more to remove."""
    file = registry.replaced_file(session, base_dir_id, shards)
    if file is None:
        return False
    job_id, file_no = file
    most_rows = remove_series(session, job_id, most_rows, series.c.file_no == file_no)
    if most_rows > 0:
        session.change(delete(log_file).where(in_file(log_file, (job_id, file_no))))
    return True


# ---- Copies: log files that have the bytes of another one of their job, which counts instead of them

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


def alike(session: Session, likenesses: Collection[tuple[int, int]]) -> list[KnownFile]:
    """Return the files that may be originals, by (job id, likeness): current ones of which something was read."""
    if not likenesses:
        return []
    number = func.row_number().over(
        partition_by=(log_file.c.job_id, log_file.c.likeness), order_by=log_file.c.file_no
    )
    these = among_rows(session, (log_file.c.job_id, log_file.c.likeness), likenesses)
    seen = select(*_KEY, number.label("place")).where(these, log_file.c.current).subquery()
    first = select(seen.c.job_id, seen.c.file_no).where(seen.c.place <= ALIKE_SEEN)
    keys = [tuple(row) for row in session.rows(first)]
    return registry.files(session, among_rows(session, _KEY, keys)) if keys else []


def unchanged(session: Session, files: Collection[KnownFile]) -> set[KnownFile]:
    """Return those of the files whose rows still have the name, bookmark and original with which they were read."""
    rows = {file.key: file for file in of_keys(session, (file.key for file in files))}
    names = ("name", "byte_offset", "copy_of")
    return {
        file
        for file in files
        if (row := rows.get(file.key)) and all(getattr(row, name) == getattr(file, name) for name in names)
    }


def of_keys(session: Session, keys: Any) -> list[KnownFile]:
    """Return log files by their keys."""
    return registry.files(session, among_rows(session, _KEY, keys))


def of_paths(session: Session, files: Collection[KnownFile]) -> list[KnownFile]:
    """Return the newest generations at the paths of these files."""
    paths = ((file.job_id, file.name) for file in files)
    found = registry.files(session, among_rows(session, (log_file.c.job_id, log_file.c.name), paths))
    return list({(file.job_id, file.name): file for file in found}.values())


def copies_of(session: Session, originals: Collection[FileKey]) -> list[KnownFile]:
    """Return the copies of some log files."""
    which = among_rows(session, (log_file.c.job_id, log_file.c.copy_of), originals)
    return registry.files(session, which)


def mark_copies(session: Session, copies: Mapping[KnownFile, KnownFile]) -> None:
    """Let unread files count as copies of others, with which they are to be compared."""
    state = FILE_TRANSITIONS[FileEvent.COPIED].after
    rows = [
        {**_of(file.key), "current": False, "state": state, "copy_of": original.file_no, "stat_stamp": None}
        for file, original in copies.items()
    ]
    update_by_key(session, log_file, rows)


def note(session: Session, compared: Sequence[tuple[KnownFile, int]]) -> None:
    """Store how far copies were compared: their rows after that, and when they were modified."""
    names = (
        *("current", "state", "size_bytes", "byte_offset", "closed", "stat_stamp", "fingerprint", "grown_at"),
        *("fingerprint_bytes", "anchor", "anchor_bytes", "failed_reads"),
    )
    rows = [
        {
            **_of(file.key),
            **{name: getattr(file, name) for name in names},
            "modified_s": modified_s,
            "last_problem": None,
        }
        for file, modified_s in compared
    ]
    update_by_key(session, log_file, rows)


def part(session: Session, file: KnownFile, compared_upto: int) -> None:
    """Let a file that is no copy be read from its first byte; an older generation of it stays in sight until then."""
    older = log_file.c.current & (log_file.c.job_id == file.job_id) & (log_file.c.name == file.name)
    is_new = file.generation > 1 and session.first(select(log_file.c.file_no).where(older))
    event = FileEvent.REWRITTEN if is_new else FileEvent.PARTED
    values = {**_UNCOMPARED, "copy_of": None, "compared_upto": compared_upto, "current": not is_new}
    unread = update(log_file).where(in_file(log_file, file.key))
    session.change(unread.values(**values, state=FILE_TRANSITIONS[event].after))
    ingest_log.forget_files(session, file.job_id, [file.file_no])


def exchange(session: Session, original: KnownFile, copy: KnownFile, *, is_gone: bool) -> None:
    """Let a copy that has all that was read of its original take its place, and the original be the copy.

    Args:
        is_gone: the original is no longer on disk, so that no row of it is left.
    """
    rows = {row.file_no: row for row in session.rows(select(log_file).where(_either(original, copy)))}
    content, other = rows[original.file_no], rows[copy.file_no]
    ingest_log.forget_files(session, copy.job_id, [copy.file_no])
    session.change(delete(log_file).where(in_file(log_file, copy.key)))
    taken_over = update(log_file).where(in_file(log_file, original.key))
    counts = FILE_TRANSITIONS[FileEvent.TOOK_OVER].after
    session.change(taken_over.values(**_path_of(other), **_OF_READING, state=counts))
    path = relative_path(copy.train_id, copy.name)
    renamed = update(ingest_problem).where(in_file(ingest_problem, original.key))
    session.change(renamed.values(path=path))
    if not is_gone:
        session.change(insert(log_file), _as_copy(content, other))


def delete_copies(session: Session, copies: Collection[KnownFile]) -> None:
    """Delete the rows of copies that are no longer on disk: nothing was read of them."""
    of_job = defaultdict[int, list[int]](list)
    for file in copies:
        of_job[file.job_id].append(file.file_no)
    for job_id, file_nos in of_job.items():
        ingest_log.forget_files(session, job_id, file_nos)
    session.change(delete(log_file).where(among_rows(session, _KEY, (file.key for file in copies))))


def compare_anew(session: Session, job_id: int, replaced: Collection[int], original_no: int) -> None:
    """Have the copies of replaced files compared, from their first byte, with the file that took their place."""
    mine = (log_file.c.job_id == job_id) & among(session, log_file.c.copy_of, replaced)
    session.change(update(log_file).where(mine).values(**_UNCOMPARED, copy_of=original_no))


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
