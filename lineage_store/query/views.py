"""Rows of the views, as analysts see them.

In: an open read transaction, the name of a view, values that columns must equal. Out: dicts of plain values, in the
order of the view's columns; times are aware datetimes on both databases. Text is in its stored form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Boolean, ColumnClause, Connection, Select, column, select, table
from sqlalchemy.types import NULLTYPE, TypeEngine

from lineage_store.store.database.paging import ALL, Page
from lineage_store.store.database.types import UtcTime
from lineage_store.store.schema.views import VIEWS

_TYPES: dict[str, TypeEngine[Any]] = {"timestamptz": UtcTime(), "boolean": Boolean()}
VIEW_COLUMNS = {view.name: {item.name: item.type for item in view.columns} for view in VIEWS}
"""The types of the columns of each view."""


def view_select(name: str, *, as_stored: bool = False) -> Select[Any]:
    """Return the SELECT of all rows of a view; `as_stored`: times and bools of SQLite stay texts and numbers."""
    types = {} if as_stored else _TYPES
    columns = [column(item, types.get(type_, NULLTYPE)) for item, type_ in VIEW_COLUMNS[name].items()]
    return select(*columns).select_from(table(name))


def view_rows(
    connection: Connection, name: str, where: Mapping[str, object], *order: str, page: Page = ALL
) -> list[dict[str, Any]]:
    """Return rows of a view.

    Args:
        where: values that columns must equal; None means IS NULL.
        order: columns to sort by; `-column` is descending.
        page: the page of the rows.
    """
    query = view_select(name)
    for item, value in where.items():
        query = query.where(column(item) == value)
    for item in order:
        key: ColumnClause[Any] = column(item.removeprefix("-"))
        query = query.order_by(key.desc() if item.startswith("-") else key)
    return [dict(row) for row in connection.execute(page.of(query)).mappings()]
