"""What the tables share: their `MetaData`, the columns and foreign keys that several tables have, and their conditions.

In: names, types and comments of columns; the name of a referenced table; keys. Out: columns, constraints and conditions
that mean the same in every table.
Does not know any table.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    MetaData,
    Table,
    TextClause,
    text,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from lineage_store.store.database.sql import Key

Type: TypeAlias = type[TypeEngine[Any]] | TypeEngine[Any]
Default: TypeAlias = TextClause | ColumnElement[Any]

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def required(
    name: str, type_: Type, comment: str, *, default: Default | None = None, unique: bool | None = None
) -> Column[Any]:
    """Return a column that is never NULL; `default` is the server's."""
    return Column(name, type_, nullable=False, server_default=default, unique=unique, comment=comment)


def optional(name: str, type_: Type, comment: str) -> Column[Any]:
    """Return a column that may be NULL."""
    return Column(name, type_, comment=comment)


def part_of_key(name: str, type_: Type, comment: str, *, default: Default | None = None) -> Column[Any]:
    """Return a column of the primary key, whose values are given."""
    return Column(name, type_, primary_key=True, autoincrement=False, server_default=default, comment=comment)


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


def job_id_column() -> Column[int]:
    """Return the first column of a key, without a foreign key: `belongs_to` refers to a row that has one."""
    return part_of_key("job_id", Key, "its job")


def belongs_to(table: str, *columns: str) -> ForeignKeyConstraint:
    """Return a foreign key to a row of the same job in `table`; the referring row is deleted with that row."""
    key = ["job_id", *columns]
    return ForeignKeyConstraint(key, [f"{table}.{name}" for name in key], ondelete="CASCADE")


def revision_column(comment: str) -> Column[int]:
    return required("revision", BigInteger, comment, default=text("0"))


def in_file(table: Table, key: tuple[int, int]) -> ColumnElement[bool]:
    """Return the condition that a row is of the log file (job id, file number): its own row, or of its content."""
    return (table.c.job_id == key[0]) & (table.c.file_no == key[1])


def in_series(table: Table, key: tuple[int, int]) -> ColumnElement[bool]:
    """Return the condition that a row is of the series (job id, series number): its own row, a sample or a bucket."""
    return (table.c.job_id == key[0]) & (table.c.series_no == key[1])


def exists_on(dialect: str, item: SchemaItem) -> bool:
    """Return whether databases of this dialect have the table, column or index."""
    only_on: str = item.info.get("only_on", dialect)
    return only_on == dialect
