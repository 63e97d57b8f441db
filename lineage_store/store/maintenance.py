"""Fresh statistics for the database's planner, after much was written at once.

In: an engine. Out: nothing; questions find their indexes. PostgreSQL does this by itself, minutes later; SQLite never.
"""

from __future__ import annotations

from sqlalchemy import Engine

from lineage_store.store import schema
from lineage_store.store.engine import writing

_SAMPLED_ROWS = 1_000
"""SQLite looks at so many rows of each index; enough to tell a selective one."""
_ROUGHLY = 10
"""PostgreSQL's statistics target for samples, which are found by their key: it looks at 300 times as many rows. Fields
and metrics, which questions compare, have the database's own target, by default 100."""
_ASKED = (
    schema.train_job,
    schema.log_file,
    schema.lineage,
    schema.metric,
    schema.user_info,
    schema.series,
)


def analyse(engine: Engine) -> None:
    """Gather statistics of the tables that questions are about."""
    with writing(engine) as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA analysis_limit = {_SAMPLED_ROWS}")
        for table in _ASKED:
            connection.exec_driver_sql(f"ANALYZE {table.name}")
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SET LOCAL default_statistics_target = {_ROUGHLY}")
        connection.exec_driver_sql(f"ANALYZE {schema.scalar_sample.name}")
