"""Copy a whole store into an empty database of either kind.

In: the URLs of both. Out: the same rows with the same ids, except for leases. The source is read in one snapshot, table
by table by ascending key; the transaction that writes rows also records in the target how far their table is copied.
Promises: after a kill, running it again continues there, and no row is lost or duplicated; at the end all rows of both
are compared, scalars that one run wrote into PostgreSQL by a digest; until then the target is marked as unfinished and
not opened as a store; memory is bounded by a batch. Refuses to continue if the source has changed between two runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np
from sqlalchemy import Column as SqlColumn
from sqlalchemy import Engine, MetaData, Table, Text, exists, func, literal, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable, DropTable
from sqlalchemy.types import Float

from lineage_store.errors import LineageStoreError, UnfinishedCopyError
from lineage_store.store.admin import planner_statistics
from lineage_store.store.database.db import identity, open_engine, parse_url, reading, safe_url, writing
from lineage_store.store.database.sql import Query, Session, copying, upsert
from lineage_store.store.records import Column
from lineage_store.store.schema import partitions, upgrade
from lineage_store.store.schema.tables import (
    SAMPLE_TABLES,
    base_dir,
    ingest_lease,
    metadata,
    scalar_sample,
    train_job,
)
from lineage_store.store.writes import binary_copy

Reported = Callable[[str], None]
"""Is called with lines of text about the progress."""

_TOLD_EACH = 1_000_000
_BATCHES = 50
"""Batches per transaction."""

_reached = Table(
    upgrade.UNFINISHED_COPY,
    MetaData(),
    SqlColumn("name", Text, primary_key=True),
    SqlColumn("key", Text, nullable=False),
)
"""The last copied key of each table, as JSON; under the empty name, the `_state` of the source at the beginning."""


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """What was copied and compared."""

    rows: dict[str, int]
    """Number of rows by table."""
    leaders: int
    """Number of the source's shards that an ingester led; what these ingesters write later is not in the copy."""


def copy_contents(
    source_url: str,
    target_url: str,
    *,
    anew: bool = False,
    allow_network_filesystem: bool = False,
    progress: Reported = lambda _: None,
) -> StoreCopy:
    """Copy the store at one URL to another, which has no store, an empty store, or an unfinished or finished copy.

    Raises LineageStoreError if the target has other data, the source has changed since the copy was begun, or a row
    differs at the end; and the errors of opening a store.

    Args:
        anew: delete the rows of an unfinished copy, and begin again.
    """
    if identity(parse_url(source_url)) == identity(parse_url(target_url)):
        raise LineageStoreError("FROM and TO are the same database.", hint="Name another one to copy it to.")
    opened = partial(open_engine, allow_network_filesystem=allow_network_filesystem, statement_timeout_s=0)
    source, target = opened(source_url, read_only=True), opened(target_url)
    try:
        upgrade.check(source)
        with _changes_named(target), _snapshot(source) as snapshot:
            begun = _begin(target, target_url, _state(snapshot), anew, allow_network_filesystem)
            left = TABLES if begun else ()
            copied = {table: _copy_table(snapshot, target, table, progress) for table in left}
            progress("All rows are copied; now they are compared.")
            changed = _ANEW.format(safe_url(target_url)) if begun else _OWN_LIFE
            rows = _compare(snapshot, target, copied.get(scalar_sample), changed, progress)
            led = select(func.count()).where(ingest_lease.c.expires_at > snapshot.now())
            found = StoreCopy(rows, snapshot.value(led))
        if begun:
            _finish(target)
    finally:
        source.dispose()
        target.dispose()
    return found


@contextmanager
def _snapshot(source: Engine) -> Iterator[Session]:
    with reading(source) as session:
        if session.kind == "postgresql":  # it is idle while the target writes
            session.change("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield session


def _state(store: Session) -> str:
    """Return a text that changes with the source, because every change of jobs increases its base dir's revision."""
    known = select(base_dir.c.id, base_dir.c.path, base_dir.c.revision).order_by(base_dir.c.id)
    return json.dumps([list(row) for row in store.rows(known)])


def _begin(target: Engine, url: str, state: str, anew: bool, allow_network_filesystem: bool) -> bool:
    """Create an empty store marked as unfinished, or check that an unfinished copy is one of this source.

    Return False if the copy was finished already, by a process that was killed before it could report that.
    """
    try:
        if upgrade.is_empty(target):
            upgrade.upgrade(
                url, allow_network_filesystem=allow_network_filesystem, when_made=_mark_unfinished
            )
        upgrade.check(target)
        with reading(target) as session:
            if any_row(session, base_dir) and _state(session) == state:
                return False
    except UnfinishedCopyError:
        if anew:
            _clear(target)
    with writing(target) as session:
        _mark_unfinished(session)
        if session.kind == "postgresql":  # a killed process's transaction may still be committing
            session.change(f"LOCK TABLE {_reached.name} IN SHARE ROW EXCLUSIVE MODE")
        begun = session.value(select(_reached.c.key).where(_reached.c.name == ""))
        if begun is None:
            _refuse_data(session)
            session.change(_reached.insert(), {"name": "", "key": state})
        elif begun != state:
            raise _changed(target)
    return True


def _mark_unfinished(target: Session) -> None:
    target.change(CreateTable(_reached, if_not_exists=True))


def _refuse_data(session: Session) -> None:
    for table in TABLES:
        if any_row(session, table):
            raise LineageStoreError(
                f"The store {safe_url(session.connection.engine.url)} is not empty: it has rows in {table.name}.",
                hint="Copy into a new or an empty database.",
            )


def _clear(target: Engine) -> None:
    with writing(target) as session:
        for table in [_reached, *reversed(TABLES)]:
            session.change(table.delete())


def _copy_table(snapshot: Session, target: Engine, table: Table, progress: Reported) -> binary_copy.Digest:
    """Copy the rows of a table that are not in the target yet; return a digest of the rows copied now."""
    with reading(target) as session:
        reached = session.value(select(_reached.c.key).where(_reached.c.name == table.name))
    count, last, digest = 0, Rows(), binary_copy.Digest(table)
    with closing(row_batches(snapshot, table, reached and json.loads(reached))) as batches:
        found = _reporting(batches, snapshot, table, "copied", progress)
        for first in found:
            some = chain([first], islice(found, _BATCHES - 1))
            with writing(target, synced=False) as session:  # the last transaction syncs all earlier ones
                for rows in append(session, table, some, digest):
                    if table is train_job:
                        partitions.ensure(session, [row[0] for row in rows])
                    count, last = count + len(rows), rows
                row = {"name": table.name, "key": json.dumps(primary_key_of(table, last[-1]))}
                session.change(upsert(session, _reached, ["name"], ["key"]), row)
    progress(f"{table.name}: {count:,} rows{', the others were there' if reached else ''}.")
    return digest


def _reporting(
    batches: Iterator[Rows], snapshot: Session, table: Table, done: str, progress: Reported
) -> Iterator[Rows]:
    """Pass the batches on; every million rows, report their number and the share done, estimated by the key."""
    first = next(iter(table.primary_key.columns))
    last = snapshot.value(select(func.max(first)))
    count, next_at = 0, _TOLD_EACH
    for rows in batches:
        yield rows
        count += len(rows)
        if count >= next_at and isinstance(last, int):
            reached = primary_key_of(table, rows[-1])[0]
            progress(f"{table.name}: {count:,} rows {done}, about {reached / last:.0%}")
            next_at = count + _TOLD_EACH


def _compare(
    snapshot: Session, target: Engine, scalars: binary_copy.Digest | None, hint: str, progress: Reported
) -> dict[str, int]:
    """Compare all rows; return their number by table. Raises LineageStoreError, with the hint, if any differ.

    `scalars`: the digest of the copied scalars; if PostgreSQL's own digest is the same, they are not read again.
    """
    counts: dict[str, int] = {}
    differences = []
    for table in TABLES:
        counts[table.name] = 0
        if table is scalar_sample and scalars and _are_stored(target, scalars):
            counts[table.name] = scalars.rows
            continue
        with (
            reading(target) as session,
            closing(row_batches(snapshot, table)) as of_source,
            closing(row_batches(session, table)) as of_target,
        ):
            compared = _reporting(of_source, snapshot, table, "compared", progress)
            for ours, theirs in zip_longest(compared, of_target):
                counts[table.name] += len(ours or ())
                if ours != theirs:
                    first = next(a or b for a, b in zip_longest(ours or (), theirs or ()) if a != b)
                    differences.append(f"{table.name} (from the key {primary_key_of(table, first)} on)")
                    break
    if differences:
        raise LineageStoreError(f"The copy differs from its source in {', '.join(differences)}.", hint=hint)
    return counts


def _are_stored(target: Engine, scalars: binary_copy.Digest) -> bool:
    """Return whether the target has exactly these scalars by PostgreSQL's digest; False for SQLite, which has none."""
    if target.dialect.name == "sqlite":
        return False
    with reading(target) as session:
        return binary_copy.digest_of_stored(session, scalar_sample) == scalars.digest()


def _finish(target: Engine) -> None:
    """Set the sequences behind the copied ids, and remove the mark of an unfinished copy."""
    planner_statistics.gather(target)
    with writing(target) as session:
        if session.kind == "postgresql":
            for table in TABLES:
                if "id" in table.columns:
                    session.change(
                        f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id))"  # noqa: S608 - ours
                        f" FROM {table.name} HAVING max(id) IS NOT NULL"
                    )
        session.change(DropTable(_reached))


@contextmanager
def _changes_named(target: Engine) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:  # a row refers to one that was added after its table was copied
        raise _changed(target) from error


_OWN_LIFE = "TO was a whole store before: it has been written to since it was copied, or is no copy of FROM. It stays."
_ANEW = "The source must not change between two runs. `--anew` removes what is in {} and begins again."


def _changed(target: Engine) -> LineageStoreError:
    return LineageStoreError(
        "The source is another, or has changed, since the copy was begun; or another process copies too.",
        hint=_ANEW.format(safe_url(target.url)),
    )


# ---- Read the rows of a store's tables in batches by ascending key, and append rows to them
# In: a session, a table, an optional key to start behind. Out: rows as plain values; appended rows. Promises:
# memory is bounded by a batch; both databases return the same rows in the same order; samples, which are very many,
# bypass SQLAlchemy for speed. Does not know what the rows are used for.


_OTHERS = [each for each in metadata.sorted_tables if each not in (ingest_lease, *SAMPLE_TABLES)]
TABLES = [*_OTHERS, *SAMPLE_TABLES]
"""All tables but ingest_lease, which is each store's own; referenced tables before those that refer to them."""
SAMPLES_AT_A_TIME = 2_000
ROWS_AT_A_TIME = 500
"""Batch size of the other tables, whose rows may have long texts."""

Rows = list[tuple[Any, ...]]


def row_batches(
    session: Session, table: Table, after: Sequence[Any] | None = None
) -> Generator[Rows, None, None]:
    """Yield the rows behind the key `after`, by ascending key; the order is the same on both databases."""
    key = list(table.primary_key.columns)
    query = select(*table.columns).order_by(*key)
    if after:
        last = [literal(value, column.type) for value, column in zip(after, key, strict=True)]
        query = query.where(tuple_(*key) > tuple_(*last))
    if table in SAMPLE_TABLES:
        yield from session.stream(Query(query), SAMPLES_AT_A_TIME)
        return
    for rows in session.stream(query, ROWS_AT_A_TIME):
        yield [tuple(row) for row in rows]


def any_row(session: Session, table: Table) -> bool:
    """Return whether the table has a row."""
    return bool(session.value(select(exists().select_from(table))))


def primary_key_of(table: Table, row: Sequence[Any]) -> list[Any]:
    return [value for value, column in zip(row, table.columns, strict=True) if column.primary_key]


def append(
    session: Session, table: Table, several: Iterable[Rows], digest: binary_copy.Digest
) -> Iterator[Rows]:
    """Append the batches and yield each of them; all are appended once the iterator is exhausted.

    Scalars for PostgreSQL are added to `digest`; PostgreSQL stores a batch while the next one is read.
    """
    names = [column.name for column in table.columns]
    if table not in SAMPLE_TABLES:
        for rows in several:
            session.insert(table, [dict(zip(names, row, strict=True)) for row in rows])
            yield rows
    elif session.kind == "sqlite":
        into = str(table.insert().compile(dialect=session.connection.dialect))
        for rows in several:
            session.change(into, rows)
            yield rows
    elif table is scalar_sample:
        with binary_copy.appending(session, table) as append_block:
            for rows in several:
                columns = _columns(table, rows)
                append_block(columns)
                digest.add(columns)
                yield rows
    else:
        with copying(session, table, names) as sink:
            for rows in several:
                for row in rows:
                    sink.write_row(row)
                yield rows


def _columns(table: Table, rows: Rows) -> list[Column]:
    kinds: list[Any] = [
        np.float64 if isinstance(column.type, Float) else np.int64 for column in table.columns
    ]
    return [np.array(of, kind) for of, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
