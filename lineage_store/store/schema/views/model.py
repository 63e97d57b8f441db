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

from lineage_store.plain_values import CALENDAR_END

# ---- SQL for the views of a SQLite store that DuckDB understands too, so that DuckDB knows the type of each column.
# Pure
# DuckDB runs the views of a SQLite file itself, from their text. A view that it cannot bind it passes on to SQLite,
# with all columns as text, and rewritten in a form that SQLite refuses (count(*), rows of values). Therefore the SQL
# here uses no function that one of the two lacks, only divisions without a remainder, and `strftime` with two
# arguments, which takes a Julian day in SQLite and a timestamp in DuckDB.


_MICROS = "CAST(round((§) * 1e6) AS bigint)"
# `typeof(0)` is 'integer' in SQLite only. The two CASTs in _MOMENT are the numbers 0 and 1 in SQLite.
_IN_SQLITE = "CASE typeof(0) WHEN 'integer' THEN {} ELSE {} END"
_SECOND = f"({_MICROS} - {_MICROS} % 1000000) / 1000000"
_MOMENT = (
    f"CAST('epoch' AS timestamp) + ({_SECOND} / {_IN_SQLITE.format(86400.0, 1)} + {_IN_SQLITE.format(2440587.5, 0)})"
    " * CAST('1 second' AS interval)"
)
INSTANT = (
    f"CASE WHEN (§) BETWEEN 0 AND {CALENDAR_END} THEN strftime('%Y-%m-%dT%H:%M:%S', {_MOMENT})"
    f" || printf('.%06dZ', {_MICROS} % 1000000) END"
)
"""ISO 8601 text of unix seconds §."""
_PARTS = _IN_SQLITE.format("'%Y-%m-%dT%H:%M:%fZ'", "'%Y-%m-%dT%H:%M:%S.%fZ'")
_PRESENT = _IN_SQLITE.format("'now'", "CURRENT_TIMESTAMP")
NOW = f"strftime({_PARTS}, {_PRESENT})"
"""ISO 8601 text of the present time; in DuckDB in the session's time zone, which must be UTC."""
TOTAL = "CAST(sum(CAST(§ AS double precision)) AS bigint)"


def _even(dividend: str, divisor: int) -> str:
    """Return SQL of the whole quotient: `/` of whole numbers has a fraction in DuckDB."""
    return f"(({dividend}) - ({dividend}) % {divisor}) / {divisor}"


def _seconds(text: str) -> str:
    """Return SQL that turns ISO 8601 text from 1901 to 2099 into seconds since a fixed moment."""
    year, month, day, hour, minute = (
        f"CAST(substr({text}, {first}, {length}) AS bigint)"
        for first, length in ((1, 4), (6, 2), (9, 2), (12, 2), (15, 2))
    )
    leaps = _even(f"7 * ({year} + {_even(f'{month} + 9', 12)})", 4)
    days = f"367 * {year} - {leaps} + {_even(f'275 * {month}', 9)} + {day}"
    return f"(({days}) * 86400 + {hour} * 3600 + {minute} * 60 + CAST(substr({text}, 18, 6) AS double precision))"


AGE_S = f"{_seconds(NOW)} - {_seconds('§')}"
"""Seconds since the moment that ISO 8601 text § names."""


ColumnType = Literal["text", "integer", "bigint", "double precision", "boolean", "timestamptz"]

_MACROS: dict[str, dict[str, str]] = {
    "sqlite": {
        "instant": INSTANT,
        "age_s": AGE_S,
        "now": NOW,
        "total": TOTAL,
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
