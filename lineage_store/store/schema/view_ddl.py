"""Views in the database: made, dropped, recognised; and who may read them.

In: a connection inside a write transaction. A digest of all views and descriptions is stored beside them, so that a
database that is up to date need not be touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from sqlalchemy import Connection, text

from lineage_store.store.schema.descriptions import relations
from lineage_store.store.schema.views import VIEWS

NAMES = tuple(view.name for view in VIEWS)
_GRANTS = text(
    """
    SELECT format('GRANT %s ON %I TO %s', a.privilege_type, c.relname,
                  CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(:names) AND a.grantee <> c.relowner
    """
)
_STORED = text("SELECT obj_description(to_regclass(:table), 'pg_class')")


def create(connection: Connection) -> None:
    """Make every view."""
    for view in VIEWS:
        connection.exec_driver_sql(f"CREATE VIEW {view.name} AS\n{view.select(connection.dialect.name)}")


def replace(connection: Connection, tables: Sequence[str]) -> None:
    """Let the views of these tables refer to those that have the names now; comments and privileges stay."""
    for view in VIEWS:
        select = view.select(connection.dialect.name)
        if any(table in select for table in tables):
            connection.exec_driver_sql(f"CREATE OR REPLACE VIEW {view.name} AS\n{select}")


def drop(connection: Connection) -> None:
    """Drop every view."""
    for view in VIEWS:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {view.name}")


def grants(connection: Connection, names: Sequence[str] = NAMES) -> list[str]:
    """The statements that give back the privileges which others hold on views or tables; what is dropped loses them."""
    if connection.dialect.name == "sqlite":
        return []
    return list(connection.execute(_GRANTS, {"names": list(names)}).scalars())


def up_to_date(connection: Connection, version_table: str) -> bool:
    """Whether the views and descriptions that the database has are this release's."""
    if connection.dialect.name == "sqlite":
        stored = connection.exec_driver_sql("PRAGMA user_version").scalar()
    else:
        stored = connection.execute(_STORED, {"table": version_table}).scalar()
    return int(stored or 0) == _digest(connection.dialect.name)


def mark_up_to_date(connection: Connection, version_table: str) -> None:
    """Write down that they are."""
    digest = _digest(connection.dialect.name)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {digest}")
    else:
        connection.exec_driver_sql(f"COMMENT ON TABLE {version_table} IS '{digest}'")


def _digest(dialect: str) -> int:
    """31 bits that change whenever a view or a description would be written differently."""
    everything = repr([relations(), [view.select(dialect) for view in VIEWS]])
    return int.from_bytes(sha256(everything.encode()).digest()[:4]) >> 1
