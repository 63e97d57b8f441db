"""Problems of ingest: what could not be read, where, since when, and the remedy.

In: the present findings about files and directories. Out: rows of `ingest_problem`, inserted, updated and resolved. A
problem with a byte range is about those bytes and stays open; one without is a state, and is resolved when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select, update

from lineage_store.finding_kinds import KINDS
from lineage_store.findings import Finding
from lineage_store.store.database.dialects import among, insert_plain, listed_rows, one_of_rows
from lineage_store.store.records import Advance, KnownFile, relative_path
from lineage_store.store.schema.tables import in_file, ingest_problem
from lineage_store.store.shards import ALL, Shards

_OPEN = ingest_problem.c.resolved_at.is_(None)


def record_range_problems(
    connection: Connection, base_dir_id: int, advances: Iterable[Advance], now: datetime
) -> None:
    """Insert the problems of byte ranges. A problem that a chunk's end divided becomes one row."""
    rows = []
    for advance in advances:
        for problem in advance.rows.problems:
            begins = problem.range_start == advance.file.byte_offset and KINDS[problem.kind].joins
            if not (begins and _extended(connection, advance.file, problem, now)):
                rows.append(_row(base_dir_id, advance.file, problem, now))
    insert_plain(connection, ingest_problem, rows)


def _extended(connection: Connection, file: KnownFile, problem: Finding, now: datetime) -> bool:
    """If a stored problem ends where this one begins, extend it; return whether there was one."""
    column = ingest_problem.c
    adjacent = (column.range_end == problem.range_start) & (column.kind == problem.kind)
    longer = update(ingest_problem).where(in_file(ingest_problem, file.key), adjacent)
    return connection.execute(longer.values(range_end=problem.range_end, last_seen_at=now)).rowcount > 0


def set_file_problems(
    connection: Connection, base_dir_id: int, states: Mapping[KnownFile, Sequence[Finding]], now: datetime
) -> None:
    """Make the open problems without byte range of these files exactly the given ones."""
    dialect_name = connection.dialect.name
    files = listed_rows(dialect_name, 2, (file.key for file in states))
    found = connection.execute(_of_files(dialect_name), files)
    wanted = {
        (*file.key, problem.kind): _row(base_dir_id, file, problem, now)
        for file, found in states.items()
        for problem in found
    }
    _reconcile(connection, found, wanted, now, ("job_id", "file_no", "kind"))


@cache
def _of_files(dialect_name: str) -> Select[Any]:
    """Select the open problems without byte range of some files."""
    mine = one_of_rows(dialect_name, (ingest_problem.c.job_id, ingest_problem.c.file_no))
    columns = (ingest_problem.c[name] for name in ("id", "job_id", "file_no", "kind", "reason"))
    return select(*columns).where(mine, ingest_problem.c.range_end.is_(None), _OPEN)


def set_path_problems(
    connection: Connection, base_dir_id: int, paths: Iterable[Finding], now: datetime, shards: Shards = ALL
) -> None:
    """Make the open problems of the shards' directories exactly the given ones, whose subjects are the paths."""
    found = _path_problems(connection, base_dir_id, shards)
    wanted = {(problem.subject, problem.kind): _columns(base_dir_id, problem, now) for problem in paths}
    _reconcile(connection, found, wanted, now, ("path", "kind"))


def path_problems_are(
    connection: Connection, base_dir_id: int, paths: Iterable[Finding], shards: Shards = ALL
) -> bool:
    """Whether the open problems of the shards' directories are exactly the given ones."""
    rows = _path_problems(connection, base_dir_id, shards)
    return {row.path: row.reason for row in rows} == {problem.subject: problem.what for problem in paths}


def _path_problems(connection: Connection, base_dir_id: int, shards: Shards) -> list[Row[Any]]:
    mine = (ingest_problem.c.base_dir_id == base_dir_id) & ingest_problem.c.file_no.is_(None) & _OPEN
    columns = (ingest_problem.c[name] for name in ("id", "path", "kind", "reason"))
    return [row for row in connection.execute(select(*columns).where(mine)) if shards.hold_path(row.path)]


def _reconcile(
    connection: Connection,
    stored: Iterable[Row[Any]],
    wanted: Mapping[tuple[Any, ...], dict[str, Any]],
    now: datetime,
    identity: Sequence[str],
) -> None:
    """Make the open problems `stored` exactly `wanted`, whose keys are the values of the columns `identity`."""
    found = {tuple(getattr(row, name) for name in identity): row for row in stored}
    gone = [row.id for place, row in found.items() if place not in wanted]
    if gone:
        resolved = update(ingest_problem).where(among(connection, ingest_problem.c.id, gone))
        connection.execute(resolved.values(resolved_at=now))
    for place, row in wanted.items():
        if place not in found:
            connection.execute(insert(ingest_problem), row)
        elif found[place].reason != row["reason"]:
            same = ingest_problem.c.id == found[place].id
            words = {name: row[name] for name in ("reason", "remedy")}
            connection.execute(update(ingest_problem).where(same).values(**words, last_seen_at=now))


def _row(base_dir_id: int, file: KnownFile, problem: Finding, now: datetime) -> dict[str, Any]:
    return {
        **_columns(base_dir_id, problem, now),
        "job_id": file.job_id,
        "train_id": file.train_id,
        "file_no": file.file_no,
        "path": relative_path(file.train_id, file.name),
    }


def _columns(base_dir_id: int, problem: Finding, now: datetime) -> dict[str, Any]:
    return {
        "base_dir_id": base_dir_id,
        "path": problem.subject,
        "kind": problem.kind,
        "reason": problem.what,
        "remedy": problem.remedy,
        "range_start": problem.range_start,
        "range_end": problem.range_end,
        "first_seen_at": now,
        "last_seen_at": now,
    }
