"""SQL for the views of a SQLite store that DuckDB understands too, so that DuckDB knows the type of each column. Pure.

DuckDB runs the views of a SQLite file itself, from their text. A view that it cannot bind it passes on to SQLite, with
all columns as text, and rewritten in a form that SQLite refuses (count(*), rows of values). Therefore the SQL here uses
no function that one of the two lacks, only divisions without a remainder, and `strftime` with two arguments, which
takes a Julian day in SQLite and a timestamp in DuckDB.
"""

from __future__ import annotations

from lineage_store.times import CALENDAR_END

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
