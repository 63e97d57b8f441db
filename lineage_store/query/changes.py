"""What has changed behind a cursor: jobs that are new, grew or got a remark, and jobs that were removed.

`Changes` is the noun of `LineageStore`; `read_changes` does the work.

In: an open store, or a read transaction, and a cursor. Out: changes in the order of each base dir's revisions, and the
next cursor. Promises: no transaction is open between two pages; a reader who always continues from the last cursor gets
every change once, in whatever order transactions commit: a base dir's revisions become visible in order
(`store/writes/jobs.py`), and the cursor has a place for each base dir. A job that changed several times in between is
reported once, in its present state. When the store is older than the cursor (a base dir was forgotten, a backup was
restored), the base dir is reported as forgotten, followed by all its jobs.
"""

from __future__ import annotations

import base64
import heapq
import json
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Engine,
    Integer,
    Select,
    Table,
    bindparam,
    false,
    null,
    or_,
    select,
)
from sqlalchemy.pool import PoolProxiedConnection

from lineage_store.errors import DatabaseUnavailableError, LineageParamValueError
from lineage_store.paths import Identity, identity_of
from lineage_store.plain_values import instant, is_integer, is_text
from lineage_store.query.condition import SearchCondition
from lineage_store.query.condition_dict import parse
from lineage_store.query.job_sql import compile_among
from lineage_store.store.database.db import apart, check_count, connected, sqlite_path
from lineage_store.store.database.sql import Session
from lineage_store.store.opened import Opened, asked_again
from lineage_store.store.schema.tables import base_dir, tombstone, train_job
from lineage_store.texts import from_stored, shown


class ChangeKind(StrEnum):
    """What happened to a job or base dir."""

    CHANGED = "changed"
    """The job is new, or its log files, samples, lineage, state, problems, label or remark changed."""
    REMOVED = "removed"
    """The job was removed from the store."""
    RESTORED = "restored"
    """The job's removal was undone: it does not exist again until it is reported as changed."""
    FORGOTTEN = "forgotten"
    """The base dir was forgotten with all its jobs. If it is there again, its jobs follow as changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a job, or a base dir that was forgotten."""

    kind: ChangeKind
    base_dir: str
    train_id: str | None
    """None when a base dir was forgotten."""
    state: str | None
    """The job's present state; None when there is no such job."""
    revision: int | None
    """The revision of the base dir with this change; None when the base dir was forgotten."""
    cursor: Cursor = field(repr=False, compare=False)
    """The cursor behind this change."""

    @property
    def since(self) -> str:
        """The token with which to continue after this change."""
        return encode(self.cursor)

    @property
    def at(self) -> datetime | None:
        """The time of the change, to the millisecond; None when a base dir was forgotten."""
        return None if self.revision is None else instant(self.revision / 1000)


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page of changes."""

    changes: Sequence[Change]
    cursor: Cursor = field(repr=False)
    more: bool
    """Whether further changes are waiting."""

    @property
    def since(self) -> str:
        """The token with which to continue."""
        return encode(self.cursor)


NOW = "now"
MOST_CHANGES = 10_000
_SIGN = "SELECT id, created_at, revision FROM base_dir WHERE NOT leaving ORDER BY id"
"""The rows of this statement change whenever there is a new change."""
_EPOCH = datetime.fromtimestamp(0, UTC)


class _BaseDir(NamedTuple):
    id: int
    now: ChangePlace
    """The place behind all of its changes."""


class _Row(NamedTuple):
    """A job or a tombstone; rows of one base dir are sorted by revision and train id."""

    revision: int
    train_id: str
    job_id: int | None
    state: str | None
    lifted: bool


class Changes:
    """The changes of a store, for a reader who follows them from token to token: `store.changes`.

    A reader gets every change exactly once, whichever of reader, ingest and database restarts, and with any number of
    writers.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @asked_again
    def since(
        self,
        token: str | None = None,
        *,
        until: str | None = None,
        condition: Mapping[str, Any] | None = None,
        limit: int = 1000,
    ) -> ChangePage:
        """Return what has changed since an earlier answer: jobs that are new, changed or removed.

        A job that changed several times is reported once, in its present state. A new label, remark or problem is a
        change of the job. A base dir that was forgotten is one change; if it is there again, its jobs follow.

        Args:
            token: the `since` of an earlier answer, or of one of its changes; None: report everything in the store;
                "now": report nothing yet, and return the token with which to continue.
            until: a token at which to stop, for a reader who takes over from another one.
            condition: a search_condition; existing jobs that do not match it now are left out.
            limit: the most changes of one answer, 1 to 10,000; its `more` says whether further changes are waiting.

        Raises:
            LineageParamTypeError, LineageParamValueError: `limit` is no whole number or out of bounds, `token` or
                `until` is no token.
            LineageSearchConditionParamError: the condition is refused.
        """
        check_count("limit", limit, most=MOST_CHANGES)
        wanted = None if condition is None else parse(condition)
        begin = {} if token in (None, NOW) else decode(token or "")
        end = None if until is None else decode(until, "until")
        engine = self._opened.read_engine
        with self._opened.read(engine) as session:
            if token == NOW:
                answer = ChangePage((), current_cursor(session), more=False)
            else:
                answer = read_changes(session, begin, until=end, condition=wanted, limit=limit)
        if engine is not self._opened.followed:
            self._opened.see_latest()  # a standby that is behind this token would report base dirs as forgotten
        return answer

    def now(self) -> Now:
        """Return an object that gives the present token whenever it is asked; close it when done."""
        return Now(self._opened)

    def follow(
        self, token: str | None = NOW, *, condition: Mapping[str, Any] | None = None
    ) -> ChangeFollower:
        """Return an object that looks for changes whenever it is asked; close it, best by `with`.

        Arguments as for `since`. Raises LineageSearchConditionParamError when the condition is refused; a token that is
        invalid raises in `look`.
        """
        parse(condition)
        return ChangeFollower(self._opened, token, condition)


class Now:
    """Gives the token of `changes.since("now")`, at almost no cost while nothing changes. Threads may share it."""

    def __init__(self, opened: Opened) -> None:
        self._opened, self._watch = opened, _watch(opened)
        self._asking, self._since = threading.Lock(), ""

    def since(self) -> str:
        """Return the token behind everything that was committed before this call. Raises as `Changes.since` does."""
        with self._asking:
            known, self._since = self._since, ""
            with suppress(DatabaseUnavailableError):  # `Changes.since` below raises what is wrong
                changed = self._watch.may_have_changed() or not self._opened.answers_as_followed()
                self._since = "" if changed else known
            self._since = self._since or Changes(self._opened).since(NOW).since
            return self._since

    def close(self) -> None:
        """Close its connection."""
        with self._asking:
            self._watch.close()


class ChangeFollower:
    """Looks for changes whenever `look` is called. Threads must not share it."""

    def __init__(self, opened: Opened, since: str | None, condition: Mapping[str, Any] | None = None) -> None:
        self._changes, self._condition, self._watch = Changes(opened), condition, _watch(opened)
        self.since = self._changes.since(NOW).since if since == NOW else since
        """The token behind the last page that `look` yielded."""

    def look(self) -> Iterator[ChangePage]:
        """Yield what has changed since the last look, page by page; nothing if nothing has changed.

        Raises DatabaseUnavailableError or LineageQuerySummaryDataError when the database fails: look again later,
        nothing is lost. Raises LineageParamValueError when the first token is invalid.
        """
        if not self._watch.may_have_changed():
            return
        complete = False
        try:
            while not complete:
                answer = self._changes.since(self.since, condition=self._condition)
                self.since = answer.since
                if answer.changes:
                    yield answer
                complete = not answer.more
        finally:
            if not complete:
                self._watch.forget()

    def close(self) -> None:
        """Close its connection."""
        self._watch.close()

    def __enter__(self) -> ChangeFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _watch(opened: Opened) -> CommitWatch:
    unsafe = opened.settings.allow_network_filesystem
    return CommitWatch(opened.followed, _SIGN, allow_network_filesystem=unsafe)


def current_cursor(session: Session) -> Cursor:
    """Return the cursor behind everything in the store."""
    return {path: found.now for path, found in _base_dirs(session).items()}


def read_changes(
    session: Session,
    since: Cursor,
    *,
    until: Cursor | None = None,
    condition: SearchCondition | None = None,
    limit: int,
) -> ChangePage:
    """Return at most `limit` changes behind `since` and up to `until` (None: up to the newest).

    With a condition, leave out existing jobs that do not match it now. Removed jobs are always reported.
    """
    found = _base_dirs(session)
    ends = {path: each.now for path, each in found.items()} if until is None else until
    cursor, changes = dict(since), list[Change]()
    for path, place in since.items():
        if not _goes_on(place, ends.get(path)):
            del cursor[path]
            forgotten = ChangeKind.FORGOTTEN, from_stored(path), None, None, None
            changes.append(Change(*forgotten, cursor=dict(cursor)))
    left = limit
    # Base dirs with the oldest places come first: one that changes all the time must not starve the others.
    for path, end in sorted(
        ends.items(), key=lambda item: cursor[item[0]][1:] if item[0] in cursor else (0, "")
    ):
        place = cursor.get(path) or ChangePlace(end.known_since, 0, "")
        if place == end:
            continue
        here = found.get(path)
        is_there = here is not None and here.now.known_since == end.known_since
        rows = _rows(session, here.id, place, end, left + 1) if here is not None and is_there else []
        page = rows[:left]
        matching = None if condition is None else _matching(session, condition, page)
        for row in page:
            cursor[path] = ChangePlace(end.known_since, row.revision, row.train_id)
            if matching is None or row.job_id is None or row.job_id in matching:
                changes.append(_change(path, row, dict(cursor)))
        if len(rows) > left:
            return ChangePage(changes, cursor, more=True)
        cursor[path], left = end, left - len(page)
    return ChangePage(changes, cursor, more=False)


def _base_dirs(session: Session) -> Mapping[str, _BaseDir]:
    found = dict[str, _BaseDir]()
    for row in session.rows(_BASE_DIRS):
        known_since = (row.created_at - _EPOCH) // timedelta(microseconds=1)
        found[row.path] = _BaseDir(row.id, ChangePlace(known_since, row.revision + 1, ""))
    return found


def _goes_on(place: ChangePlace, end: ChangePlace | None) -> bool:
    """Whether the store still has all that was reported up to this place."""
    return end is not None and place.known_since == end.known_since and place <= end


def _rows(session: Session, base_dir_id: int, place: ChangePlace, end: ChangePlace, most: int) -> list[_Row]:
    """Return the first `most` changes of a base dir behind `place` and up to `end`, in order."""
    given = {"base_dir_id": base_dir_id, "revision": place.revision, "train_id": place.train_id}
    given |= {"last": end.revision, "most": most}
    parts = [[_Row(*row) for row in session.rows(part, given)] for part in (_JOBS, _TOMBSTONES)]
    rows = heapq.merge(*parts, key=lambda row: row[:2])
    return [row for row in rows if (row.revision, row.train_id) <= end[1:]][:most]


def _matching(session: Session, condition: SearchCondition, rows: Sequence[_Row]) -> set[int]:
    ids = [row.job_id for row in rows if row.job_id is not None]
    statement = compile_among(condition.where)
    return set(session.column(statement, {**condition.values, "job_ids": ids}))


def _change(path: str, row: _Row, cursor: Cursor) -> Change:
    gone = ChangeKind.RESTORED if row.lifted else ChangeKind.REMOVED
    kind = ChangeKind.CHANGED if row.job_id is not None else gone
    return Change(kind, from_stored(path), from_stored(row.train_id), row.state, row.revision, cursor)


_BASE_DIRS = select(base_dir.c.id, base_dir.c.path, base_dir.c.created_at, base_dir.c.revision).where(
    ~base_dir.c.leaving
)


def _behind(table: Table, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return the SELECT of a base dir's first rows behind a place, in the columns of `_Row`."""
    revision, train_id = table.c.revision, table.c.train_id
    at = bindparam("revision", type_=revision.type)
    mine = table.c.base_dir_id == bindparam("base_dir_id"), revision.between(at, bindparam("last"))
    behind = or_(revision > at, train_id > bindparam("train_id"))
    rows = select(revision, train_id, *columns).where(*mine, behind).order_by(revision, train_id)
    return rows.limit(bindparam("most", type_=Integer))


_JOBS = _behind(train_job, train_job.c.id, train_job.c.state, false())
_TOMBSTONES = _behind(tombstone, null(), null(), tombstone.c.lifted)


# ---- The cursor of a reader of changes: a place in the revisions of each base dir, encoded as a token
# In: places by base dir, or a token. Out: a token, which is text that fits into a URL or a header, or the places of
# one. Promises: a token holds everything that is needed to go on, so it stays valid when processes restart; text that
# is no token, or holds values that no database can hold, raises LineageParamValueError. Pure.


_MOST_CHARACTERS = 1 << 24
"""The size limit of an unpacked token, so that a short one cannot fill the memory: room for 100,000 base dirs."""


class ChangePlace(NamedTuple):
    """A place in the changes of one base dir, which are ordered by revision, then by train id."""

    known_since: int
    """When the store first saw the base dir, unix us; a base dir that was forgotten and came back has a new time."""
    revision: int
    train_id: str
    """The reader has all earlier revisions, and of this one the changes of jobs up to this train id (stored)."""


Cursor = Mapping[str, ChangePlace]
"""Places by base dir (stored path)."""


def encode(cursor: Cursor) -> str:
    """Return the token of a cursor."""
    text = json.dumps(cursor, separators=(",", ":"))
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 1)).decode().rstrip("=")


def decode(token: str, name: str = "since") -> Cursor:
    """Return the cursor of a token. Raises LineageParamValueError, with the parameter's `name`, when it is no token."""
    try:
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        found = json.loads(zlib.decompressobj().decompress(packed, _MOST_CHARACTERS))
        places = {path: ChangePlace(*place) for path, place in found.items()}
        if not all(is_text(path) and _is_place(place) for path, place in places.items()):
            raise TypeError
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise LineageParamValueError(
            f"{name} = {shown(token)} is no token of changes.",
            hint="Give the `since` of an earlier answer as it was, or 'now'.",
        ) from error
    return places


def _is_place(place: ChangePlace) -> bool:
    return is_integer(place.known_since) and is_integer(place.revision) and is_text(place.train_id)


# ---- A cheap check whether anybody may have committed since the last check, to be made before each poll
# In: an engine, and for PostgreSQL a cheap statement whose rows change whenever the polled rows do (SQLite itself
# says whether anybody has committed). Out: False if nothing has changed, True if something may have. Promises: no
# such commit is missed, nor the replacement of a SQLite file; no transaction stays open; if the check fails it
# returns True, so that the poll itself raises the error.


_ON_SQLITE = "PRAGMA data_version"


class CommitWatch:
    """The watch of one reader; not thread-safe."""

    def __init__(self, engine: Engine, on_postgresql: str, *, allow_network_filesystem: bool = False) -> None:
        self._path = sqlite_path(engine.url)
        self._statement = _ON_SQLITE if engine.dialect.name == "sqlite" else on_postgresql
        # SQLite's data_version can only be compared within one connection. That connection is kept, so it must not come
        # from the shared pool, whose other users would wait for it in vain.
        self._engine = apart(engine, allow_network_filesystem=allow_network_filesystem)
        self._connection: PoolProxiedConnection | None = None
        self._seen: tuple[Identity | None, list[Any]] | None = None

    def may_have_changed(self) -> bool:
        """Return whether anything may have changed since the last call; True at the first call."""
        before, file = self._seen, None if self._path is None else identity_of(self._path)
        if self._connection is None or before is None or before[0] != file:
            self.close()
            try:
                self._connection = connected(self._engine)
            except DatabaseUnavailableError:
                return True
            if self._path is None:
                driver: Any = self._connection.dbapi_connection
                driver.autocommit = True
        try:
            found = self._connection.cursor().execute(self._statement).fetchall()
        except self._engine.dialect.loaded_dbapi.Error:
            self.close()
            return True
        self._seen = (file, found)
        return before != self._seen

    def forget(self) -> None:
        """Return True next time, because the poll after the last check did not succeed."""
        self._seen = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
        self._connection = self._seen = None
        self._engine.dispose()
