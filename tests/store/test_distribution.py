"""Distributing a store with Citus: the SQL, the rules that it obeys, and a clear error where Citus is missing.

No test uses a real Citus: LINEAGE_STORE_TEST_DISTRIBUTED runs all tests that use PostgreSQL on one (docs/citus.md).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import (
    Alias,
    ClauseElement,
    Column,
    Engine,
    ForeignKeyConstraint,
    FromClause,
    Join,
    PrimaryKeyConstraint,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BinaryExpression

from helpers.databases import DISTRIBUTED
from helpers.empty_store import base_dir, sqlite_engine
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from helpers.snapshots import assert_matches_snapshot
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import LineageStoreError
from lineage_store.operations.base_dirs import forget
from lineage_store.operations.removal import CleanUp
from lineage_store.store.admin.distributing import distribute
from lineage_store.store.database.db import open_engine
from lineage_store.store.schema import distribution
from lineage_store.store.schema.distribution import Part
from lineage_store.store.schema.tables import metadata, series
from lineage_store.store.schema.views import VIEWS

__all__ = ["base_dir", "sqlite_engine"]

PACKAGE = Path(__file__).parents[2] / "lineage_store"


@pytest.mark.parametrize("part", Part)
def test_the_sql_is_as_reviewed(part: Part) -> None:
    found = [*distribution.statements(part), "-- in transactions of their own", *distribution.clearing(part)]
    assert_matches_snapshot(f"distribute_{part}.sql", "".join(f"{statement};\n" for statement in found))


def test_tables_that_are_distributed_stay_as_they_are() -> None:
    samples = {"scalar_sample", "payload_sample"}
    assert distribution.statements(Part.SAMPLES, done=samples) == []
    further = distribution.statements(Part.ALL, done=samples)
    assert not [statement for statement in further if "sample'," in statement.partition("colocate_with")[0]]
    assert (
        "SELECT create_distributed_table('log_file', 'job_id', colocate_with => 'scalar_sample')" in further
    )


@pytest.mark.parametrize("part", Part)
def test_every_key_of_a_distributed_table_has_its_job(part: Part) -> None:
    dropped = {constraint for _, constraint in distribution.dropped_keys(part)}
    for table in distribution.by_job(part):
        for constraint in table.constraints - dropped:
            if isinstance(constraint, PrimaryKeyConstraint | UniqueConstraint):
                assert distribution.job_column(table) in constraint.columns, constraint
        assert not [index for index in table.indexes if index.unique]


@pytest.mark.parametrize("part", Part)
def test_foreign_keys_that_stay_are_those_that_citus_takes(part: Part) -> None:
    dropped = {constraint for _, constraint in distribution.dropped_references(part)}
    by_job, copied = distribution.by_job(part), distribution.copied(part)
    for table in metadata.sorted_tables:
        for constraint in table.foreign_key_constraints - dropped:
            target = constraint.referred_table
            if target in by_job:
                assert table in by_job, constraint
                assert _job_to_job(constraint), constraint
            elif target in copied:
                assert table in by_job or table in copied, constraint
            else:
                assert table not in (*by_job, *copied), constraint


def _job_to_job(constraint: ForeignKeyConstraint) -> bool:
    target = constraint.referred_table
    pairs = {element.parent.name: element.column.name for element in constraint.elements}
    return pairs.get("job_id") == distribution.job_column(target)


def test_whom_others_refer_to_is_distributed_first() -> None:
    order = distribution.by_job(Part.ALL)
    assert len(set(order)) == len(order)
    for table in order:
        for constraint in table.foreign_key_constraints:
            if constraint.referred_table in order:
                assert order.index(constraint.referred_table) < order.index(table)


@pytest.mark.parametrize("part", Part)
def test_what_the_page_undistributes_takes_all_else_along_by_foreign_keys(part: Part) -> None:
    page = (PACKAGE.parent / "docs" / "citus.md").read_text().partition("## Back to one machine")[2]
    samples, further = page.partition("ARRAY[")[2].partition("-- after --all also")[::2]
    named = re.findall(r"'(\w+)'", samples + (further.partition(":")[0] if part is Part.ALL else ""))
    gone = {constraint for _, constraint in distribution.dropped_references(part)}
    kept = [each for table in metadata.sorted_tables for each in table.foreign_key_constraints - gone]
    back = set(named)
    for _ in kept:  # whoever hangs on whom
        back.update(*(ends for each in kept if (ends := _ends(each)) & back))
    assert back == {table.name for table in (*distribution.by_job(part), *distribution.copied(part))}


def _ends(constraint: ForeignKeyConstraint) -> set[str]:
    return {constraint.table.name, constraint.referred_table.name}


def test_who_meets_an_existing_row_of_a_distributed_table_names_its_job() -> None:
    """ON CONFLICT works within a shard: `upsert(connection, table, keys, …)` is the only way to it."""
    by_name = {table.name: distribution.job_column(table) for table in distribution.by_job(Part.ALL)}
    met = []
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "upsert":
                table, keys = call.args[1], call.args[2]
                job = by_name.get(getattr(table, "id", ""))
                if job is not None:
                    met.append(ast.unparse(call))
                    assert job in ast.literal_eval(keys), f"{path}: {met[-1]}"
    assert len(met) == 2, met


def test_views_join_distributed_tables_by_their_job() -> None:
    by_job = {table.name for table in distribution.by_job(Part.ALL)}
    joins = [
        (view.name, table, condition)
        for view in VIEWS
        for table, condition in re.findall(
            r"(?<!CROSS )JOIN (\w+) \w+ ON ([^\n]*)", view.select("postgresql")
        )
        if table in by_job
    ]
    assert joins
    for view, table, condition in joins:
        of_copied = "dataset_graph_id" in condition  # every worker has all pipelines
        assert of_copied or re.search(r"\bjob_id\b", condition), f"{view} joins {table} ON {condition}"


@pytest.mark.skipif("superseded_count" not in series.c, reason="v_series counts superseded samples itself")
def test_no_view_asks_a_subquery_of_samples() -> None:
    for view in VIEWS:
        found = re.search(
            r"\(\s*SELECT [^()]*(\([^()]*\)[^()]*)*FROM (scalar|payload)_sample", view.select("postgresql")
        )
        assert not found, view.name


def test_statements_join_distributed_tables_by_their_job(postgres_url: str, corpus: Path) -> None:
    joins = dict[str, bool]()

    def note(_connection: object, statement: object, *_: object) -> None:
        for join in visitors.iterate(statement) if isinstance(statement, ClauseElement) else ():
            if isinstance(join, Join) and _job_of(join.right) and any(map(_job_of, _leaves(join.left))):
                equal = (e for e in visitors.iterate(join.onclause) if isinstance(e, BinaryExpression))
                joins[str(join)] = any(_is_job(each.left) and _is_job(each.right) for each in equal)

    with LineageStore(postgres_url) as store:
        event.listen(store.engine, "before_execute", note)
        store.ingest(corpus)
        (job, *_) = store.lineage.jobs(corpus)
        store.job((corpus, job.train_id)).tags()
        store.job((corpus, job.train_id)).lineage()
        forget(store.engine, corpus, Settings())
    assert joins
    assert not [words for words, by_job in joins.items() if not by_job]


def _leaves(joined: FromClause) -> Iterator[FromClause]:
    if isinstance(joined, Join):
        yield from _leaves(joined.left)
        yield from _leaves(joined.right)
    else:
        yield joined


def _job_of(table: object) -> str | None:
    """The column by which a table, or an alias of one, is distributed."""
    table = table.element if isinstance(table, Alias) else table
    return distribution.job_column(table) if table in distribution.by_job(Part.ALL) else None


def _is_job(side: object) -> bool:
    return isinstance(side, Column) and _job_of(side.table) == side.name


def test_a_store_whose_constraints_were_taken_away_removes_and_rewrites_as_before(
    postgres_url: str, base_dir: Path, tmp_path: Path
) -> None:
    engine, store = open_engine(postgres_url), LineageStore(postgres_url)
    with engine.begin() as connection:
        for statement in distribution.statements(Part.ALL):
            if statement.startswith(("ALTER", "CREATE")):
                connection.execute(text(statement))
    for place in (base_dir, tmp_path / "other"):
        for number in range(3):
            _write(place / f"job_{number}")
        ingest(engine, place, suspect_grace_s=0)
        ingest(engine, place, suspect_grace_s=0)
    assert column(engine, "SELECT count(*) FROM ingest_problem") > [0]
    for path in (base_dir / "job_0").iterdir():
        path.unlink()
    Log().version().scalar(1, "other", 2.0).write_summary(base_dir / "job_0").chmod(0o400)
    for _ in range(3):
        ingest(engine, base_dir)
    with store:  # opened before: who opens it now sees that these are gone, and no Citus to account for it
        wanted = {"summary_dir": {"in": ["./job_1", "./job_2"]}}
        assert store.removal.remove(CleanUp(condition=wanted), base_dir).jobs == 2
        assert [job.train_id for job in store.lineage.jobs(base_dir)] == ["./job_0"]
    _assert_no_orphans(engine)
    for place in (base_dir, tmp_path / "other"):
        forget(engine, place, Settings())
    kept = {
        table.name
        for table in metadata.sorted_tables
        if column(engine, f"SELECT count(*) FROM {table.name}") != [0]
    }
    assert kept == set()
    engine.dispose()


def _write(job: Path) -> None:
    log = Log().version().scalar(1, "loss", 1.0).histogram(1, "w", [0.5]).scalar(2, "loss", 0.5)
    log.damaged(1).write_summary(job).chmod(0o400)
    Log().train(network="N").evaluation({"acc": 0.5}).user_info(team="a").write_lineage(job).chmod(0o400)


def _assert_no_orphans(engine: Engine) -> None:
    """What would refer to something that is gone, by any foreign key of the schema."""
    for table in metadata.sorted_tables:
        for constraint in table.foreign_key_constraints:
            target = constraint.referred_table.name
            same = " AND ".join(f"o.{e.column.name} = t.{e.parent.name}" for e in constraint.elements)
            there = " AND ".join(f"t.{e.parent.name} IS NOT NULL" for e in constraint.elements)
            alone = f"NOT EXISTS (SELECT FROM {target} o WHERE {same})"
            orphans = f"SELECT count(*) FROM {table.name} t WHERE {there} AND {alone}"
            assert column(engine, orphans) == [0], constraint.name


@pytest.mark.skipif(bool(DISTRIBUTED), reason="this one has Citus")
def test_a_database_without_citus_is_refused(postgres_engine: Engine) -> None:
    with pytest.raises(LineageStoreError, match=r"no extension citus.*docs/citus\.md"):
        distribute(postgres_engine, Part.SAMPLES)


def test_sqlite_is_refused(sqlite_engine: Engine) -> None:
    with pytest.raises(LineageStoreError, match="Only PostgreSQL with Citus"):
        distribute(sqlite_engine, Part.ALL)
