"""The definition of a view: columns with their meanings, and a FROM clause.

In: SQL fragments that both databases understand, with macros where the databases differ. Out: `View.select(dialect)`,
one SELECT.
Macros: `{instant:x}` turns unix seconds into a point in time, rounded to the microsecond (NULL for NaN, before 1970 and
after the year 9999); `{age_s:x}` is the seconds since a point in time; `{now}` is the present time; `{total:x}` is the
sum of whole numbers, like `dialects.total`. Points in time are `timestamptz` on PostgreSQL and ISO 8601 text with a
final Z on SQLite.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

from lineage_store.store.schema.views import sqlite_sql
from lineage_store.times import CALENDAR_END

ColumnType = Literal["text", "integer", "bigint", "double precision", "boolean", "timestamptz"]

_MACROS: dict[str, dict[str, str]] = {
    "sqlite": {
        "instant": sqlite_sql.INSTANT,
        "age_s": sqlite_sql.AGE_S,
        "now": sqlite_sql.NOW,
        "total": sqlite_sql.TOTAL,
    },
    "postgresql": {
        "instant": f"CASE WHEN (§)::double precision BETWEEN 0 AND {CALENDAR_END} THEN timestamptz 'epoch'"
        " + trunc((§)::double precision * 1e6 + 0.5) * interval '1 microsecond' END",
        "age_s": "extract(epoch FROM clock_timestamp() - (§))::double precision",
        "now": "clock_timestamp()",
        "total": "CAST(least(coalesce(sum(§), 0), 9223372036854775807) AS bigint)",
    },
}


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """One column: PostgreSQL's name of its type, its name, its SQL expression, and its meaning."""

    type: ColumnType
    name: str
    sql: str
    meaning: str

    def typed(self, dialect: str) -> str:
        """Return the SQL expression; on SQLite within a CAST if it is calculated, because else it has no type."""
        is_calculated = self.type == "boolean" or re.fullmatch(r"\w+\.\w+", self.sql) is None
        if dialect == "sqlite" and is_calculated and self.type not in ("text", "timestamptz"):
            return f"CAST({self.sql} AS {self.type})"
        return self.sql


@dataclass(frozen=True, slots=True)
class View:
    """One view. `source` is everything from FROM on."""

    name: str
    meaning: str
    columns: tuple[ViewColumn, ...]
    source: str

    def select(self, dialect: str) -> str:
        """Return the SELECT for `sqlite` or `postgresql`."""
        lines = ",\n  ".join(f"{column.typed(dialect)} AS {column.name}" for column in self.columns)
        macros = _MACROS[dialect]
        return re.sub(
            r"\{(\w+):?([^}]*)\}",
            lambda macro: macros[macro[1]].replace("§", macro[2]),
            f"SELECT\n  {lines}\n{self.source.strip()}",
        )


text = partial(ViewColumn, "text")
integer = partial(ViewColumn, "integer")
"""32-bit whole numbers."""
bigint = partial(ViewColumn, "bigint")
"""64-bit whole numbers."""
double = partial(ViewColumn, "double precision")
"""64-bit floating-point numbers."""
boolean = partial(ViewColumn, "boolean")
"""True and false (1 and 0 on SQLite)."""
instant = partial(ViewColumn, "timestamptz")
"""Points in time, UTC."""

JOB = (
    text("base_dir", "b.path", "base dir of the job"),
    text("train_id", "j.train_id", "id of the job: ./name below the base dir"),
    integer("job_id", "j.id", "number of the job in this store: what views are joined by"),
)
"""The first columns of every view about jobs; the view's source must name `base_dir` `b` and `train_job` `j`."""

VALUE_KIND = "int, float, nan, +inf, -inf, text, bool, null or json"
"""The kinds of a metric or user-defined value."""

JOIN_BASE_DIR = "JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving"
"""Join jobs `j` to their base dirs; leave out base dirs that hold what is being removed."""


def join_job(alias: str) -> str:
    """Return the SQL that joins a table with a `job_id` to its job and base dir."""
    return f"JOIN train_job j ON j.id = {alias}.job_id {JOIN_BASE_DIR}"
