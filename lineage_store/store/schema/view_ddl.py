"""Create, replace and drop the views; find out whether they are this release's, and who may read them.

In: a connection inside a write transaction. Out: views, and the GRANT statements of dropped ones. A digest of all views
and descriptions is stored with them, so that an upgrade leaves a database that is up to date alone.
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
    for view in VIEWS:
        connection.exec_driver_sql(f"CREATE VIEW {view.name} AS\n{view.select(connection.dialect.name)}")


def replace(connection: Connection, tables: Sequence[str]) -> None:
    """Make the views of `tables` read the tables that have these names now; comments and grants are kept."""
    for view in VIEWS:
        select = view.select(connection.dialect.name)
        if any(table in select for table in tables):
            connection.exec_driver_sql(f"CREATE OR REPLACE VIEW {view.name} AS\n{select}")


def drop(connection: Connection) -> None:
    for view in VIEWS:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {view.name}")


def grants(connection: Connection, names: Sequence[str] = NAMES) -> list[str]:
    """Return the GRANT statements for the privileges of others on views or tables, to be run after making them anew."""
    if connection.dialect.name == "sqlite":
        return []
    return list(connection.execute(_GRANTS, {"names": list(names)}).scalars())


def up_to_date(connection: Connection, version_table: str) -> bool:
    """Return whether the database's views and descriptions are this release's, by the digest stored with them."""
    if connection.dialect.name == "sqlite":
        stored = str(connection.exec_driver_sql("PRAGMA user_version").scalar())
    else:
        stored = _marks(connection, version_table)[0]
    return stored == str(_digest(connection.dialect.name))


def fingerprint(connection: Connection, version_table: str) -> str:
    """Return what `mark_up_to_date` stored of the definitions on PostgreSQL; empty: nothing."""
    return _marks(connection, version_table)[1]


def mark_up_to_date(connection: Connection, version_table: str, fingerprint: str = "") -> None:
    """Store that the database's views and descriptions are this release's, on PostgreSQL with a fingerprint."""
    digest = _digest(connection.dialect.name)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {digest}")
    else:
        connection.exec_driver_sql(f"COMMENT ON TABLE {version_table} IS '{digest} {fingerprint}'")


def _marks(connection: Connection, version_table: str) -> tuple[str, str]:
    digest, _, fingerprint = (connection.execute(_STORED, {"table": version_table}).scalar() or "").partition(
        " "
    )
    return digest, fingerprint


def _digest(dialect: str) -> int:
    """Return 31 bits of a digest of all views and descriptions."""
    everything = repr([relations(), [view.select(dialect) for view in VIEWS]])
    return int.from_bytes(sha256(everything.encode()).digest()[:4]) >> 1
