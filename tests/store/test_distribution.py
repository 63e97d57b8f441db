"""Distributing the samples with Citus: the SQL, the rules that it obeys, and a clear error where Citus is missing.

No test uses a real Citus: LINEAGE_STORE_TEST_DISTRIBUTED runs all tests that use PostgreSQL on one (docs/citus.md).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy import Engine, UniqueConstraint

from helpers.databases import DISTRIBUTED
from helpers.empty_store import sqlite_engine
from helpers.snapshots import assert_matches_snapshot
from lineage_store.errors import LineageStoreError
from lineage_store.store.admin import distribution
from lineage_store.store.admin.distribution import distribute_samples
from lineage_store.store.schema.tables import SAMPLE_TABLES, metadata, series
from lineage_store.store.schema.views import VIEWS

__all__ = ["sqlite_engine"]

PAGE = Path(__file__).parents[2] / "docs" / "citus.md"


def test_the_sql_is_as_reviewed() -> None:
    found = [
        *distribution.distribution_statements(),
        "-- in transactions of their own",
        *distribution.clearing(),
    ]
    assert_matches_snapshot("distribute_samples.sql", "".join(f"{statement};\n" for statement in found))


def test_tables_that_are_distributed_stay_as_they_are() -> None:
    first, second = distribution.TABLES
    assert distribution.distribution_statements(done={first, second}) == []
    (further,) = distribution.distribution_statements(8, done={first})
    assert further == f"SELECT create_distributed_table('{second}', 'job_id', colocate_with => '{first}')"


def test_every_key_of_a_distributed_table_has_its_job() -> None:
    for table in SAMPLE_TABLES:
        assert "job_id" in table.primary_key.columns
        assert not [each for each in table.constraints if isinstance(each, UniqueConstraint)]
        assert not [index for index in table.indexes if index.unique]


def test_no_foreign_key_goes_from_or_to_a_distributed_table() -> None:
    """Citus would refuse it: the other tables are on the coordinator."""
    for table in metadata.sorted_tables:
        for constraint in table.foreign_key_constraints:
            assert not {table, constraint.referred_table} & {*SAMPLE_TABLES}, constraint


def test_the_page_brings_back_every_distributed_table() -> None:
    back = PAGE.read_text().partition("## Back to one machine")[2].partition("ARRAY[")[2].partition("]")[0]
    assert tuple(re.findall(r"'(\w+)'", back)) == distribution.TABLES


def test_views_join_samples_by_their_job() -> None:
    found = [
        (view.select("postgresql"), alias)
        for view in VIEWS
        for alias in re.findall(r"\b(?:scalar|payload)_sample (\w+)", view.select("postgresql"))
    ]
    assert found
    for sql, alias in found:
        assert re.search(rf"\b{alias}\.job_id = \w+\.job_id\b", sql), sql


@pytest.mark.skipif("superseded_count" not in series.c, reason="v_series counts superseded samples itself")
def test_no_view_asks_a_subquery_of_samples() -> None:
    for view in VIEWS:
        found = re.search(
            r"\(\s*SELECT [^()]*(\([^()]*\)[^()]*)*FROM (scalar|payload)_sample", view.select("postgresql")
        )
        assert not found, view.name


@pytest.mark.skipif(bool(DISTRIBUTED), reason="this one has Citus")
def test_a_database_without_citus_is_refused(postgres_engine: Engine) -> None:
    with pytest.raises(LineageStoreError, match=r"no extension citus.*docs/citus\.md"):
        distribute_samples(postgres_engine)


def test_sqlite_is_refused(sqlite_engine: Engine) -> None:
    with pytest.raises(LineageStoreError, match="Only PostgreSQL with Citus"):
        distribute_samples(sqlite_engine)
