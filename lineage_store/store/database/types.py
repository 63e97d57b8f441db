"""Column types that mean the same on SQLite and PostgreSQL.

`UtcTime`: aware UTC datetimes; `timestamptz` on PostgreSQL, ISO 8601 text with a final Z on SQLite (which its date
functions read). `Name`: text that compares by code point on both, as Python does.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import DateTime, Dialect, Double, Integer, LargeBinary, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

Name = Text().with_variant(Text(collation="C"), "postgresql")
Key = Integer()
"""A surrogate key: four bytes on PostgreSQL; on SQLite an alias of the rowid."""
Bytes = LargeBinary()
Float64: Double[float] = Double()


class UtcTime(TypeDecorator[datetime]):
    """An instant, in UTC, to the microsecond."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> object:
        if value is None or dialect.name != "sqlite":
            return value
        return _iso_text(value)

    def process_result_value(self, value: object, dialect: Dialect) -> datetime | None:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        return value.astimezone(UTC) if isinstance(value, datetime) else None


@lru_cache(maxsize=256)
def _iso_text(instant: datetime) -> str:
    """Cached, because most rows of a write transaction have the same instant."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
