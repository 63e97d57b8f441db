"""The beginning of a text, which is what PostgreSQL's indexes have of it: its B-trees refuse texts of some 2,700 bytes.

In: a text in SQL. Out: its first characters on PostgreSQL, and on SQLite, whose indexes take any text, all of it.
Promises: what is shorter than INDEXED_CHARACTERS equals its beginning alone, so one comparison answers for the text.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from lineage_store.store.database.types import Name

INDEXED_CHARACTERS = 500
"""Of four bytes each at most."""


class prefix(FunctionElement[str]):  # noqa: N801 - a function of SQL
    """What an index has of a text."""

    inherit_cache = True
    type = Name


@compiles(prefix)
def _all_of_it(element: prefix, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(prefix, "postgresql")
def _first_characters(element: prefix, compiler: Any, **options: Any) -> str:
    return f"left({compiler.process(element.clauses, **options)}, {INDEXED_CHARACTERS})"
