"""How the database would answer: the SQL with its parameters, and the database's own plan.

In: a condition and an open connection. Out: an `Explanation`, readable as text. The statement is not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select

from lineage_store import texts
from lineage_store.query.search.compiler import BaseDirs, compile_all, compile_stretches
from lineage_store.query.search.narrowing import Narrowed, narrow
from lineage_store.query.search.scope import scope_of
from lineage_store.query.search.statements import statement_of
from lineage_store.query.search.tree import NAMED, SearchCondition, subjects


@dataclass(frozen=True, slots=True)
class Explanation:
    """The page's statement; its parameters, in order of appearance where the text does not name them."""

    dialect: str
    sql: str
    parameters: tuple[tuple[str, Any], ...]
    plan: str
    names: Mapping[int, str]
    """Of metrics and user-defined values, by the key that stands for each in SQL."""

    def __str__(self) -> str:
        parameters = "\n".join(f"  {name} = {self._shown(value)}" for name, value in self.parameters)
        return f"{self.sql}\n\nParameters:\n{parameters}\n\nPlan ({self.dialect}):\n{self.plan}"

    def _shown(self, value: object) -> str:
        if isinstance(value, int) and value in self.names:
            return f"{value!r} (the key of {self.names[value]!r})"
        return repr(value)


def explain(
    connection: Connection, condition: SearchCondition, base_dir_ids: Sequence[int] | None
) -> Explanation:
    """The statement that finds the page, or its first jobs, and the plan that this database would follow."""
    base_dirs = scope_of(connection, base_dir_ids).base_dirs
    page = _page(condition, base_dirs, narrow(connection, condition, base_dirs, count=True))
    given = _given(condition)
    statement = statement_of(page, connection.dialect)
    values = {**statement.values, **given}
    parameters = tuple((name, values[name]) for name in statement.places or statement.values)
    plan = plan_of(connection, page, **given)
    return Explanation(connection.dialect.name, statement.text, parameters, plan, _names(condition))


def plan_of(connection: Connection, select: Select[Any], **given: object) -> str:
    """How the database would run a statement, a step a line; the statement is not run."""
    sqlite, statement = connection.dialect.name == "sqlite", statement_of(select, connection.dialect)
    verb = "EXPLAIN QUERY PLAN" if sqlite else "EXPLAIN"
    rows = connection.exec_driver_sql(f"{verb} {statement.text}", statement.arguments(given)).all()
    return "\n".join(_sqlite_plan(rows) if sqlite else [str(row[0]) for row in rows])


def _page(condition: SearchCondition, base_dirs: BaseDirs, narrowed: Narrowed) -> Select[Any]:
    where, sort = condition.where, condition.sort
    if condition.page is None:
        return compile_all(where, sort, base_dirs)
    few, are_few, shows_dataset = narrowed.few, narrowed.are_few, condition.shows_dataset
    stretches = compile_stretches(
        where, sort, base_dirs, few=few, are_few=are_few, shows_dataset=shows_dataset
    )
    return stretches[0].page


def _given(condition: SearchCondition) -> dict[str, Any]:
    page = condition.page
    cut = {} if page is None else {"take": page.limit, "skip": page.limit * page.number}
    return {**condition.values, **cut}


def _names(condition: SearchCondition) -> dict[int, str]:
    found = *subjects(condition.where), *(key.subject for key in condition.sort)
    return {texts.key(each.name): texts.from_stored(each.name) for each in found if each.type in NAMED}


def _sqlite_plan(rows: Sequence[Any]) -> list[str]:
    """Indent each step below its parent."""
    depth = {0: 0}
    lines = []
    for step, parent, _unused, detail in rows:
        depth[step] = depth[parent] + 1
        lines.append(f"{'  ' * depth[parent]}{detail}")
    return lines
