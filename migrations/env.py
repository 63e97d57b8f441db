"""Alembic's entry: runs the scripts of versions/ in the transaction of whoever called.

In: `config.attributes["connection"]` from store/schema/upgrade.py; for developers at the `alembic` command line, the
database named by LINEAGE_STORE_DATABASE_URL. Leaves logging alone.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection

from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.schema.tables import exists_on, metadata
from lineage_store.store.schema.upgrade import VERSION_TABLE


def migrate(connection: Connection) -> None:
    """Run the scripts that were asked for."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        include_name=lambda name, kind, _parents: kind != "table" or name in metadata.tables,
        include_object=lambda item, *_: exists_on(connection.dialect.name, item),
        render_as_batch=True,
    )
    context.run_migrations()


if (callers := context.config.attributes.get("connection")) is not None:
    migrate(callers)
else:
    with writing(open_engine(os.environ["LINEAGE_STORE_DATABASE_URL"])) as own:
        migrate(own.connection)
