"""Write docs/schema.md: every table and view with its columns, types and meanings, and diagrams of tables and states.

In: `store/schema/`, `states.py`. Out: Markdown, in docs/schema.md or in the file given as the only argument.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqlalchemy import ForeignKeyConstraint, Table, Text

from lineage_store.states import (
    FILE_TRANSITIONS,
    JOB_TRANSITIONS,
    FileEvent,
    FileState,
    JobEvent,
    JobState,
    Transition,
)
from lineage_store.store.schema.descriptions import Relation, relations
from lineage_store.store.schema.tables import metadata

SCHEMA_DOCS = Path(__file__).resolve().parent.parent / "docs" / "schema.md"

_INTRODUCTION = """\
# Schema

<!-- Generated from lineage_store/store/schema by `make docs`; do not edit. -->

**Views are the interface**: their names and columns are stable, they show what is current, and they speak in names
instead of ids. Tables are what the store itself works with; they may change with any release. The
[cookbook](cookbook.md) answers common questions with them.

- Points in time are UTC: `timestamptz` on PostgreSQL, ISO 8601 text ending in `Z` on SQLite, to the microsecond. Both
  compare with a literal such as `'2025-07-01'`. On PostgreSQL, text made from a point in time follows the session's
  time zone: `SET TIME ZONE 'UTC'`.
- Units are in the names: `_s` seconds, `_bytes` bytes. Numbers are numbers; NULL is unknown. Where a float can be NaN
  or infinite, a `kind` says which; NaN itself is stored as NULL.
- Types are PostgreSQL's; on SQLite whole numbers are INTEGER, `double precision` is REAL, and booleans are 0 and 1.
- The same descriptions are in the database: as comments on PostgreSQL (`\\d+ v_job`), in the table `schema_doc` on
  SQLite (`SELECT * FROM schema_doc WHERE table_name = 'v_job'`).
- Text that is not valid Unicode, or that holds NUL, is stored under an escape (see `lineage_store/texts.py`).
"""

_UNENFORCED = {"scalar_sample": "series", "payload_sample": "series"}
"""References that have no foreign key, because these tables are written in bulk."""


def markdown() -> str:
    """Return the whole document."""
    all_of = relations()
    views = "\n".join(line for relation in all_of if relation.kind == "view" for line in _section(relation))
    tables = "\n".join(line for relation in all_of if relation.kind == "table" for line in _section(relation))
    diagram = "\n".join(_diagram())
    states = "\n".join([*_log_file_states(), *_job_states()])
    return (
        f"{_INTRODUCTION}\n## Views\n\n{views}\n{states}\n## Tables\n\n```mermaid\n{diagram}\n```\n\n{tables}"
    )


def _log_file_states() -> Iterator[str]:
    """Yield the state diagram; a choice node joins all states in which a file is looked at, to keep it readable."""
    looked_at = FILE_TRANSITIONS[FileEvent.READ].before
    looks = {event: row for event, row in FILE_TRANSITIONS.items() if row.before and row.before <= looked_at}
    yield "## States of a log file\n\n```mermaid\nstateDiagram-v2\n    state look <<choice>>"
    yield from (f"    {state} --> look" for state in FileState if state in looked_at)
    yield from (f"    look --> {row.after} : {event}" for event, row in looks.items())
    yield from _arrows({event: row for event, row in FILE_TRANSITIONS.items() if event not in looks})
    yield "```\n"
    yield from _events(FILE_TRANSITIONS)


def _job_states() -> Iterator[str]:
    yield "## States of a job\n\nThey follow from its log files.\n\n```mermaid\nstateDiagram-v2"
    yield from _arrows(JOB_TRANSITIONS)
    yield "```\n"
    yield from _events(JOB_TRANSITIONS)


_Transitions = Mapping[FileEvent, Transition[FileState]] | Mapping[JobEvent, Transition[JobState]]


def _arrows(transitions: _Transitions) -> Iterator[str]:
    for event, row in transitions.items():
        for state in list(map(str, sorted(row.before))) or ["[*]"]:
            yield f"    {state} --> {row.after} : {event}"


def _events(transitions: _Transitions) -> Iterator[str]:
    yield "| event | from | to | meaning |"
    yield "|---|---|---|---|"
    for event, row in transitions.items():
        yield f"| {event} | {', '.join(sorted(row.before)) or 'nothing'} | `{row.after}` | {row.meaning} |"
    yield ""


def _section(relation: Relation) -> Iterator[str]:
    yield f"### {relation.name}\n"
    yield f"{relation.meaning[0].upper()}{relation.meaning[1:]}.\n"
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for column in relation.columns:
        meaning = column.meaning.replace("|", "\\|")
        yield f"| `{column.name}` | {column.type} | {meaning} |"
    yield ""


def _diagram() -> Iterator[str]:
    """Yield a Mermaid diagram of the tables, their key columns and their references."""
    yield "erDiagram"
    for table in metadata.tables.values():
        for key in sorted(table.foreign_key_constraints, key=lambda key: str(key.name)):
            yield f"    {key.referred_table.name} {_cardinality(table, key)} {table.name} : has"
        if table.name in _UNENFORCED:
            yield f"    {_UNENFORCED[table.name]} ||--o{{ {table.name} : has"
    for table in metadata.tables.values():
        yield f"    {table.name} {{"
        for column in table.columns:
            marks = [
                mark for mark, true in (("PK", column.primary_key), ("FK", bool(column.foreign_keys))) if true
            ]
            if marks:
                kind = "text" if isinstance(column.type, Text) else "bigint"
                yield f"        {kind} {column.name} {', '.join(marks)}"
        yield "    }"


def _cardinality(table: Table, key: ForeignKeyConstraint) -> str:
    one_child = key.column_keys == [column.name for column in table.primary_key]
    one_parent = not any(table.columns[name].nullable for name in key.column_keys)
    return f"{'||' if one_parent else '|o'}--{'o|' if one_child else 'o{'}"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMA_DOCS
    target.write_text(markdown(), encoding="utf-8")
