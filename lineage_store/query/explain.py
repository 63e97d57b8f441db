"""How the database would answer: the SQL with its parameters, and the database's own plan.

In: a condition and an open connection. Out: an `Explanation`, readable as text. The statement is not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Executable, Select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

from lineage_store.query.compiler import BaseDirs, compile_all, compile_stretches
from lineage_store.query.condition import SearchCondition
from lineage_store.query.scope import scope_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """The page's statement; its parameters, in order of appearance where the text does not name them."""

    dialect: str
    sql: str
    parameters: tuple[tuple[str, Any], ...]
    plan: str

    def __str__(self) -> str:
        parameters = "\n".join(f"  {name} = {value!r}" for name, value in self.parameters)
        return f"{self.sql}\n\nParameters:\n{parameters}\n\nPlan ({self.dialect}):\n{self.plan}"


class _Explain(Executable, ClauseElement):
    """EXPLAIN of a statement."""

    inherit_cache = False

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement


@compiles(_Explain)
def _compile_explain(element: _Explain, compiler: SQLCompiler, **kwargs: Any) -> str:
    verb = "EXPLAIN QUERY PLAN" if compiler.dialect.name == "sqlite" else "EXPLAIN"
    return f"{verb} {compiler.process(element.statement, **kwargs)}"


def explain(
    connection: Connection, condition: SearchCondition, base_dir_ids: Sequence[int] | None
) -> Explanation:
    """The statement that finds the page, or its first jobs, and the plan that this database would follow."""
    statement = _statement(condition, scope_of(connection, base_dir_ids).base_dirs)
    compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    names = getattr(compiled, "positiontup", None) or list(compiled.params)
    parameters = tuple((name, compiled.params[name]) for name in names)
    return Explanation(connection.dialect.name, str(compiled), parameters, plan_of(connection, statement))


def plan_of(connection: Connection, statement: Select[Any]) -> str:
    """How the database would run a statement, a step a line; the statement is not run."""
    rows = connection.execute(_Explain(statement)).all()
    lines = _sqlite_plan(rows) if connection.dialect.name == "sqlite" else [str(row[0]) for row in rows]
    return "\n".join(lines)


def _statement(condition: SearchCondition, base_dirs: BaseDirs) -> Select[Any]:
    if condition.page is None:
        return compile_all(condition.where, condition.sort, base_dirs)
    first = compile_stretches(condition.where, condition.sort, base_dirs)[0]
    page = condition.page
    return first.job_ids.limit(page.limit).offset(page.limit * page.number)


def _sqlite_plan(rows: Sequence[Any]) -> list[str]:
    """Indent each step below its parent."""
    depth = {0: 0}
    lines = []
    for step, parent, _unused, detail in rows:
        depth[step] = depth[parent] + 1
        lines.append(f"{'  ' * depth[parent]}{detail}")
    return lines
