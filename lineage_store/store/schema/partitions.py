"""Partitions of PostgreSQL's sample tables by ranges of job ids: show them, make them for new jobs, drop empty ones.

In: a session. Out: the layout; partitions for new jobs; the jobs whose samples can be dropped as whole partitions.
Promises: every job has its partitions, because each transaction that inserts jobs calls `ensure`: no insert of samples
fails, and no DEFAULT partition is needed; a partition is dropped only when no job of its range is left. Database
functions make and drop partitions with the rights of the tables' owner, because the ingest role owns no table; only
partitioned stores have these functions. Does not know how a store is partitioned (store/admin/partitioning.py).
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import text
from sqlalchemy.schema import SetTableComment

from lineage_store.store.database.sql import Session
from lineage_store.store.schema import descriptions, tables

SAMPLE_TABLES = tuple(table.name for table in tables.SAMPLE_TABLES)
MAKE, DROP = "make_sample_partitions(integer[])", "drop_sample_partitions(text)"
FUNCTIONS = (MAKE, DROP)
"""The functions with their argument types, as GRANT takes them."""

# All bounds are whole numbers. A partition holds the job ids from `first` to `beyond` - 1.
_BOUNDS = r"""
SELECT CAST(parent.relname AS text) AS parent, CAST(part.relname AS text) AS name,
  bound[1]::bigint AS first, bound[2]::bigint AS beyond
FROM pg_class parent
JOIN pg_inherits ON inhparent = parent.oid
JOIN pg_class part ON part.oid = inhrelid
CROSS JOIN regexp_match(pg_get_expr(part.relpartbound, part.oid), '\((\d+)\) TO \((\d+)\)') AS bound
WHERE parent.relnamespace = current_schema()::regnamespace AND parent.relname = ANY({names})
"""
_OURS = f"ARRAY['{SAMPLE_TABLES[0]}', '{SAMPLE_TABLES[1]}']"
_RANGES = f"""
WITH part AS ({_BOUNDS.format(names=_OURS)}),
layout AS (SELECT max(beyond - first) AS jobs, max(beyond) AS beyond FROM part)
"""
_LAYOUT = text(
    "SELECT parent, max(beyond - first) AS jobs, count(*) AS partitions"
    f" FROM ({_BOUNDS.format(names=':names')}) part GROUP BY parent"
)
_NAMES = text(f"SELECT name FROM ({_BOUNDS.format(names=_OURS)}) part ORDER BY name")
_IS_CHANGING = text(f"SELECT to_regclass('{SAMPLE_TABLES[-1]}_next') IS NOT NULL")
_IS_PARTITIONED = text(
    f"SELECT relkind = 'p' FROM pg_class WHERE oid = '{tables.scalar_sample.name}'::regclass"
)

# Attaching a table, unlike CREATE TABLE … PARTITION OF, blocks neither readers nor writers.
_MISSING = f"""{_RANGES}, wanted AS (
      SELECT job_id / jobs * jobs AS first FROM layout CROSS JOIN unnest(job_ids) AS job_id
      UNION SELECT max(job_id) / jobs * jobs + jobs FROM layout CROSS JOIN unnest(job_ids) AS job_id
      GROUP BY jobs, beyond HAVING max(job_id) / jobs * jobs + jobs >= beyond
    )
    SELECT parent, first, jobs FROM wanted CROSS JOIN layout CROSS JOIN unnest({_OURS}) AS parent
    EXCEPT SELECT parent, first, jobs FROM part CROSS JOIN layout"""
# The newest job is in the last partition but one. Those before it get no new jobs, except from a transaction that is
# open now.
_VACATED = f"""{_RANGES}
    SELECT array_agg(format('%I', name)) FROM part CROSS JOIN layout
    WHERE parent = sample_table AND part.beyond <= layout.beyond - 2 * jobs
      AND NOT EXISTS (SELECT FROM train_job WHERE id >= part.first AND id < part.beyond)"""
_RIGHTS = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp"
_MAKE_BODY = f"""
DECLARE missing record;
BEGIN
  PERFORM FROM ({_MISSING}) here;
  IF NOT FOUND THEN RETURN; END IF;
  LOCK TABLE {", ".join(SAMPLE_TABLES)} IN SHARE UPDATE EXCLUSIVE MODE;
  FOR missing IN {_MISSING} LOOP
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)',
      missing.parent || '_' || missing.first, missing.parent);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
      missing.parent, missing.parent || '_' || missing.first, missing.first, missing.first + missing.jobs);
  END LOOP;
END """
_DROP_BODY = f"""
DECLARE vacated text[];
BEGIN
  vacated := ({_VACATED});
  IF vacated IS NULL THEN RETURN 0; END IF;
  EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', sample_table);
  LOCK TABLE train_job IN SHARE MODE;  -- who makes a job in such a range has made it, or makes its partition anew
  vacated := ({_VACATED});
  IF vacated IS NULL THEN RETURN 0; END IF;
  EXECUTE 'DROP TABLE ' || array_to_string(vacated, ', ');
  RETURN cardinality(vacated);
END """
BODIES = {MAKE: _MAKE_BODY, DROP: _DROP_BODY}
"""The text of the functions, as the database has it."""
_FUNCTIONS = (
    f"CREATE FUNCTION {MAKE.replace('(', '(job_ids ')} RETURNS void {_RIGHTS} AS $${_MAKE_BODY}$$",
    f"CREATE FUNCTION {DROP.replace('(', '(sample_table ')} RETURNS integer {_RIGHTS} AS $${_DROP_BODY}$$",
    f"REVOKE ALL ON FUNCTION {MAKE}, {DROP} FROM PUBLIC",
)

SAMPLE_KEY = "job_id, series_no, step"
NOTING_BODIES = {
    f"note_{table}()": f" BEGIN INSERT INTO {table}_changed SELECT {SAMPLE_KEY} FROM changed; RETURN NULL; END "
    for table in SAMPLE_TABLES
}
"""The functions that note which samples are written while the layout is changed (store/admin/partitioning.py)."""
NOTING_TRIGGERS = frozenset(
    f"note_{event} on {table}" for table in SAMPLE_TABLES for event in ("insert", "update", "delete")
)

_WHOLE = text(f"""{_RANGES}
SELECT job_id FROM unnest(CAST(:job_ids AS integer[])) AS job_id
WHERE job_id / (SELECT jobs FROM layout) * (SELECT jobs FROM layout) IN (
  SELECT first FROM part CROSS JOIN layout
  WHERE parent = '{tables.scalar_sample.name}' AND part.beyond <= layout.beyond - 2 * jobs AND NOT EXISTS (
    SELECT FROM train_job WHERE id >= part.first AND id < part.beyond AND base_dir_id <> :base_dir_id))
""")


def layouts(session: Session, *names: str) -> dict[str, tuple[int, int]]:
    """Return (jobs per partition, number of partitions) of each partitioned table, by default of the sample tables."""
    if session.kind == "sqlite":
        return {}
    rows = session.rows(_LAYOUT, {"names": list(names or SAMPLE_TABLES)})
    return {row.parent: (row.jobs, row.partitions) for row in rows}


def partition_names(session: Session) -> list[str]:
    """Return the names of the sample tables' partitions."""
    return session.column(_NAMES)


def is_partitioned(session: Session) -> bool:
    """Return whether the sample tables are partitioned."""
    return session.kind != "sqlite" and bool(session.value(_IS_PARTITIONED))


def is_changing(session: Session) -> bool:
    """Return whether a change of the layout is running or was interrupted: whether the new tables exist."""
    return session.kind != "sqlite" and bool(session.value(_IS_CHANGING))


def ensure(session: Session, job_ids: Collection[int]) -> None:
    """Make the missing partitions for jobs that this transaction has inserted, and one beyond the newest job's.

    Does nothing if the store is not partitioned.
    """
    if is_partitioned(session):
        make = text("SELECT make_sample_partitions(CAST(:job_ids AS integer[]))")
        session.change(make, {"job_ids": list(job_ids)})


def going_whole(session: Session, base_dir_id: int, job_ids: Collection[int]) -> set[int]:
    """Return which of a base dir's jobs lie in partitions that hold no job of another base dir.

    Their samples need not be deleted: the partitions are dropped. Return no job during a change of the layout, because
    the change copies all samples that exist; no change can begin before this transaction ends.
    """
    if not is_partitioned(session):
        return set()
    session.change(f"LOCK TABLE {', '.join(SAMPLE_TABLES)} IN ROW EXCLUSIVE MODE")
    if is_changing(session):
        return set()
    asked = {"job_ids": list(job_ids), "base_dir_id": base_dir_id}
    return set(session.column(_WHOLE, asked))


def drop_vacated(session: Session, sample_table: str) -> int:
    """Drop the partitions of a sample table whose jobs are all removed; return how many. Waits for readers to end."""
    dropped = session.value(text("SELECT drop_sample_partitions(:name)"), {"name": sample_table})
    return int(dropped)


def create_functions(session: Session) -> None:
    """Create the functions; only the tables' owner may call them until others are granted the right."""
    schema = session.value("SELECT quote_ident(current_schema())")
    for statement in _FUNCTIONS:
        session.change(statement.replace("{schema}", schema))


def cut_empty(session: Session, by_jobs: int) -> None:
    """Partition sample tables that are empty, with nobody else at work on them; the views follow, functions do not."""
    for table in SAMPLE_TABLES:
        key = tables.metadata.tables[table].primary_key.name
        for statement in (
            f"CREATE TABLE {table}_next (LIKE {table} INCLUDING ALL) PARTITION BY RANGE (job_id)",
            f"CREATE TABLE {table}_0 PARTITION OF {table}_next FOR VALUES FROM (0) TO ({by_jobs})",
            f"ALTER TABLE {table} RENAME TO {table}_before",
            f"ALTER TABLE {table}_next RENAME TO {table}",
        ):
            session.change(statement)
        descriptions.replace(session, [table])
        session.change(f"DROP TABLE {table}_before")
        session.change(f"ALTER INDEX {table}_next_pkey RENAME TO {key}")
        session.change(SetTableComment(tables.metadata.tables[table]))


def drop_functions(session: Session) -> None:
    """Drop the functions if they exist."""
    for function in FUNCTIONS:
        session.change(f"DROP FUNCTION IF EXISTS {function}")
