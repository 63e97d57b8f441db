"""Random conditions on random jobs: SQLite, PostgreSQL and the rules in Python agree, order included."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import Engine

from helpers import condition_oracle
from helpers.answers import filter_lineage, iter_lineage
from helpers.conditions import JOBS, conditions
from helpers.stored_jobs import add_base_dir, add_job
from lineage_store.query.condition_dict import parse
from lineage_store.store.database.db import open_engine, reading, writing


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = open_engine(database_url)
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        for job in JOBS:
            add_job(session, job, base_dir_id)
    yield engine
    engine.dispose()


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(condition=conditions)
@pytest.mark.slow
def test_a_condition_means_the_same_in_sql_and_in_python(engine: Engine, condition: dict[str, Any]) -> None:
    before = copy.deepcopy(condition)
    expected = condition_oracle.matching(JOBS, condition)
    parsed = parse(condition, base_dir="/logs")
    with reading(engine) as session:
        answer = filter_lineage(session, parsed, None)
        uncounted = filter_lineage(session, parsed, None, count=False)
    everything = iter_lineage(partial(reading, engine), parsed, jobs_at_once=7)
    listed = [item["summary_dir"] for item in everything]
    assert [item["summary_dir"] for item in answer["object"]] == condition_oracle.page(expected, condition)
    assert answer["count"] == len(expected)
    assert uncounted | {"count": len(expected)} == answer
    assert listed == expected
    assert repr(condition) == repr(before)
