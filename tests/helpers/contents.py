"""The contents of a store in a form in which two stores can be compared: natural keys instead of ids, no clocks.

In: an engine. Out: every table as sorted rows. Left out: when the store saw something (times from the files stay), and
the history of passes, leases and resolved problems, which depends on how the contents were read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select

from lineage_store.store.database.sql import Session, UtcTime
from lineage_store.store.schema import tables

HISTORY = {tables.ingest_cycle.name, tables.ingest_total.name, tables.ingest_lease.name}
HISTORY |= {tables.notifier.name, tables.notified.name, tables.removal.name}
CLOCKS = {"stat_stamp", "revision", "removal_id"}
"""Left out like all columns of type UtcTime: a stamp has an inode and a change time, a revision counts transactions, a
removal has the next number."""

Row = tuple[tuple[str, Any], ...]


def natural_contents(engine: Engine) -> dict[str, list[Row]]:
    """Return the rows of every table of the schema; a base dir is named by the last part of its path."""
    with engine.connect() as connection:
        names = _natural_names(Session(connection))
        return {
            table.name: sorted(
                (
                    tuple((name, _natural(names, table.name, name, row)) for name in row)
                    for row in _rows(Session(connection), table)
                ),
                key=repr,
            )
            for table in tables.metadata.sorted_tables
            if table.name not in HISTORY
        }


def _rows(session: Session, table: Any) -> list[dict[str, Any]]:
    shown = [c for c in table.columns if c.name not in CLOCKS | {"id", "path_key"}]
    shown = [column for column in shown if not isinstance(column.type, UtcTime)]
    query = select(*shown)
    if table is tables.ingest_problem:
        query = query.where(table.c.resolved_at.is_(None))
    return session.mappings(query)


def _natural(names: dict[str, dict[Any, Any]], table: str, column: str, row: dict[str, Any]) -> Any:
    value = row[column]
    if column in names and value is not None:
        return names[column][(row["job_id"], value) if column in ("file_no", "series_no") else value]
    if table == tables.base_dir.name and column == "path":
        return Path(value).name
    return value + 0.0 if isinstance(value, float) else value  # SQLite keeps no -0.0


def _natural_names(session: Session) -> dict[str, dict[Any, Any]]:
    """Return by the name of a referring column the natural name of each id, or of each number within a job."""
    base_dirs = {row.id: Path(row.path).name for row in session.rows(select(tables.base_dir))}
    jobs = {
        row.id: (base_dirs[row.base_dir_id], row.train_id) for row in session.rows(select(tables.train_job))
    }
    files = {
        (row.job_id, row.file_no): (*jobs[row.job_id], row.name, row.generation)
        for row in session.rows(select(tables.log_file))
    }
    series = {
        (row.job_id, row.series_no): (*files[row.job_id, row.file_no], row.plugin, row.tag)
        for row in session.rows(select(tables.series))
    }
    graphs = {row.id: row.digest for row in session.rows(select(tables.dataset_graph))}
    return {
        "base_dir_id": base_dirs,
        "job_id": jobs,
        "file_no": files,
        "series_no": series,
        "dataset_graph_id": graphs,
    }
