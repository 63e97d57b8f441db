"""What the tables share: their `MetaData`, and the columns and foreign keys that several tables have.

In: a comment, and the name of the referenced table. Out: columns and constraints that mean the same in every table.
Does not know any table.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, ForeignKeyConstraint, Integer, MetaData, text
from sqlalchemy.schema import SchemaItem

from lineage_store.store.database.types import Key

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def surrogate_key() -> Column[int]:
    return Column("id", Key, primary_key=True, autoincrement=True, comment="surrogate key")


def owner(
    table: str, comment: str, *, primary_key: bool = False, nullable: bool = False, index: bool = False
) -> Column[int]:
    """Return a foreign key column; a row is deleted with the row of `table` that it refers to."""
    return Column(
        f"{table.removeprefix('train_').removeprefix('ingest_')}_id",
        Key,
        ForeignKey(f"{table}.id", ondelete="CASCADE"),
        primary_key=primary_key,
        autoincrement=False,
        nullable=nullable,
        index=index,
        comment=comment,
    )


def file_no(comment: str, *, primary_key: bool = False, nullable: bool = False) -> Column[int]:
    return Column(
        "file_no", Integer, primary_key=primary_key, autoincrement=False, nullable=nullable, comment=comment
    )


def job_id() -> Column[int]:
    """Return the first column of a key, without a foreign key: `belongs_to` refers to a row that has one."""
    return Column("job_id", Key, primary_key=True, autoincrement=False, comment="its job")


def belongs_to(table: str, *columns: str) -> ForeignKeyConstraint:
    """Return a foreign key to a row of the same job in `table`; the referring row is deleted with that row."""
    key = ["job_id", *columns]
    return ForeignKeyConstraint(key, [f"{table}.{name}" for name in key], ondelete="CASCADE")


def revision(comment: str) -> Column[int]:
    return Column("revision", BigInteger, nullable=False, server_default=text("0"), comment=comment)


def exists_on(dialect: str, item: SchemaItem) -> bool:
    """Return whether databases of this dialect have the table, column or index."""
    only_on: str = item.info.get("only_on", dialect)
    return only_on == dialect
