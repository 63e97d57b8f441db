"""Convert values to what JSON can hold. Pure.

In: values that the Python API returns. Out: values that every JSON parser accepts: NaN and infinities as the words
`NaN`, `Infinity` and `-Infinity`, points in time as ISO 8601 in UTC, bytes as hexadecimal digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from lineage_store.extreme_numbers import spelled


def for_json(value: object) -> Any:
    """Convert a value to one that `json.dumps` turns into valid JSON."""
    match value:
        case float() | Decimal():
            return spelled(value) or (
                int(value) if value == int(value) and isinstance(value, Decimal) else float(value)
            )
        case datetime():
            return iso(value)
        case bytes() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {str(name): for_json(item) for name, item in value.items()}
        case list() | tuple():
            return [for_json(item) for item in value]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)


def iso(value: datetime) -> str:
    """Format a point in time in UTC, as `2026-01-31T12:00:00Z`."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
