"""Column types that mean the same on SQLite and PostgreSQL, and the part of a text that an index contains.

`UtcTime`: aware UTC datetimes; `timestamptz` on PostgreSQL, ISO 8601 text with a final Z on SQLite (which its date
functions read). `Name`: text that compares by code point on both, as Python does. `prefix(text)`: on PostgreSQL, whose
B-trees refuse texts above some 2,700 bytes, the first INDEXED_CHARACTERS characters; on SQLite the whole text. A text
shorter than INDEXED_CHARACTERS is its own prefix, so comparing prefixes is enough for it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import DateTime, Dialect, Double, Integer, LargeBinary, Text, TypeDecorator
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

Name = Text().with_variant(Text(collation="C"), "postgresql")
Key = Integer()
"""A surrogate key: four bytes on PostgreSQL; on SQLite an alias of the rowid."""
Bytes = LargeBinary()
Float64: Double[float] = Double()
INDEXED_CHARACTERS = 500
"""Characters of a text in PostgreSQL's indexes, of at most four bytes each."""


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


class prefix(FunctionElement[str]):  # noqa: N801 - a function of SQL
    """The part of a text that an index contains."""

    inherit_cache = True
    type = Name


@compiles(prefix)
def _whole_text(element: prefix, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(prefix, "postgresql")
def _first_characters(element: prefix, compiler: Any, **options: Any) -> str:
    return f"left({compiler.process(element.clauses, **options)}, {INDEXED_CHARACTERS})"
