"""How the database would answer: each statement with its parameters and the database's plan.

In: a condition and an open connection. Out: an `Explanation`, readable as text. Promises: it shows the statements that
`chooser` chooses for this question, and runs none of them except those that the chooser needs for its choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select

from lineage_store import texts
from lineage_store.query.search.chooser import Plan, choose
from lineage_store.query.search.scope import scope_of
from lineage_store.query.search.tree import SearchCondition, named_by
from lineage_store.store.database.statements import statement_of


@dataclass(frozen=True, slots=True)
class ExplainedStatement:
    """One statement. If its text does not name the parameters, they are in the order of the text."""

    purpose: str
    """What the statement finds, and when it is run."""
    sql: str
    parameters: tuple[tuple[str, Any], ...]
    plan: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The statements that answer a question, in the order of execution."""

    dialect: str
    statements: tuple[ExplainedStatement, ...]
    names: Mapping[int, str]
    """Names of metrics and user-defined values by the key that SQL has for each."""

    def __str__(self) -> str:
        return "\n\n".join(map(self._text_of, self.statements))

    def _text_of(self, statement: ExplainedStatement) -> str:
        parameters = "\n".join(f"  {name} = {self._shown(value)}" for name, value in statement.parameters)
        text = f"-- {statement.purpose}\n{statement.sql}\n\nParameters:\n{parameters}"
        return f"{text}\n\nPlan ({self.dialect}):\n{statement.plan}"

    def _shown(self, value: object) -> str:
        if isinstance(value, int) and value in self.names:
            return f"{value!r} (the key of {self.names[value]!r})"
        return repr(value)


def explain(
    connection: Connection,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> Explanation:
    """Return the statements that answer the question, with or without its count, and the plan of each."""
    base_dirs = scope_of(connection, base_dir_ids).base_dirs
    chosen = choose(connection, condition, base_dirs, count=count)
    given = condition.page._asdict() if condition.page else {}
    explained = tuple(
        _explained(connection, purpose, statement, {**condition.values, **given})
        for purpose, statement in _statements(chosen)
    )
    names = {texts.key(each.name): texts.from_stored(each.name) for each in named_by(condition)}
    return Explanation(connection.dialect.name, explained, names)


def plan_of(connection: Connection, select: Select[Any], **given: object) -> str:
    """Return the database's plan of a statement, one step per line, without running the statement."""
    sqlite, statement = connection.dialect.name == "sqlite", statement_of(select, connection.dialect)
    verb = "EXPLAIN QUERY PLAN" if sqlite else "EXPLAIN"
    rows = connection.exec_driver_sql(f"{verb} {statement.text}", statement.arguments(given)).all()
    return "\n".join(_sqlite_plan(rows) if sqlite else [str(row[0]) for row in rows])


def _statements(chosen: Plan) -> Iterator[tuple[str, Select[Any]]]:
    """Yield the statements in the order of execution, each with its purpose."""
    if chosen.everything is not None:
        yield "All that match", chosen.everything
    first = chosen.counted is not None
    if chosen.count is not None and first:
        yield "The count, which is asked first: the page depends on it", chosen.count
    parts = len(chosen.ranges)
    for number, part in enumerate(chosen.ranges, 1):
        of_several = f", part {number} of {parts} of the order" if parts > 1 else ""
        yield f"The page{of_several}{', unless it is full before' if number > 1 else ''}", part.page
    if chosen.count is not None and not first:
        yield "The count, unless the page is the last and tells it", chosen.count


def _explained(
    connection: Connection, purpose: str, select: Select[Any], given: Mapping[str, Any]
) -> ExplainedStatement:
    statement = statement_of(select, connection.dialect)
    values = {**statement.values, **{name: given[name] for name in given if name in statement.values}}
    parameters = tuple((name, values[name]) for name in statement.places or statement.values)
    return ExplainedStatement(purpose, statement.text, parameters, plan_of(connection, select, **values))


def _sqlite_plan(rows: Sequence[Any]) -> list[str]:
    """Indent each step below its parent."""
    depth = {0: 0}
    lines = []
    for step, parent, _unused, detail in rows:
        depth[step] = depth[parent] + 1
        lines.append(f"{'  ' * depth[parent]}{detail}")
    return lines
