"""What the tables share: their `MetaData`, and the columns and references that several of them have.

In: a comment, and what it refers to. Out: columns and constraints that mean the same in every table. Does not know any
table.
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
    """A reference that goes when its owner goes."""
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
    """The first part of a key; what it belongs to says that the job exists."""
    return Column("job_id", Key, primary_key=True, autoincrement=False, comment="its job")


def belongs_to(table: str, *columns: str) -> ForeignKeyConstraint:
    """A row of a job goes when the row of the same job goes to which it belongs."""
    key = ["job_id", *columns]
    return ForeignKeyConstraint(key, [f"{table}.{name}" for name in key], ondelete="CASCADE")


def revision(comment: str) -> Column[int]:
    return Column("revision", BigInteger, nullable=False, server_default=text("0"), comment=comment)


def exists_on(dialect: str, item: SchemaItem) -> bool:
    """Whether databases of that kind have a table, column or index of the schema."""
    only_on: str = item.info.get("only_on", dialect)
    return only_on == dialect
