"""One value, for a person. Pure.

Promises: what a person sees holds no terminal escapes. People see six digits of a float, programs all. What programs
are given: `json_values`, `csv_values`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from lineage_store.json_values import spelled
from lineage_store.texts import escaped as escaped


def shown(value: object) -> str:
    """A value for people: `-` for nothing, times in UTC to the second, floats to six digits."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float() | Decimal():
            return spelled(value) or f"{value:.6g}"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return escaped(str(value))
