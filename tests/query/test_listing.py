"""All jobs that match, one by one, while the store changes during the listing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text, update

from helpers.answers import iter_lineage
from helpers.engines import url_of
from helpers.ingesting import column
from helpers.stored_jobs import NOW, StoredJob, add_base_dir, add_job
from lineage_store import LineageStore
from lineage_store.query.condition_dict import parse
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.schema import tables
from lineage_store.store.writes import jobs as remarks
from lineage_store.store.writes import removal

JOBS = 6


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A store with the jobs ./5, the newest, to ./0."""
    engine = open_engine(database_url)
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        for number in range(JOBS):
            add_job(session, StoredJob(f"./{number}", update_time=number), base_dir_id)
    yield engine
    engine.dispose()


def _iterate(engine: Engine, condition: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Two jobs are read at a time."""
    return iter_lineage(partial(reading, engine), parse(condition), jobs_at_once=2)


def _ids(objects: Iterator[dict[str, Any]]) -> list[str]:
    return [item["summary_dir"] for item in objects]


def _holds_nothing_open(engine: Engine) -> bool:
    """Whether nobody is in a transaction: a server would end it, SQLite's log would grow."""
    with writing(engine) as session:
        session.change(text("UPDATE train_job SET log_bytes = log_bytes + 1"))
    other = open_engine(url_of(engine))
    if engine.dialect.name == "sqlite":
        (open_ones,) = column(other, "PRAGMA wal_checkpoint(TRUNCATE)")  # whether a reader was in the way
    else:
        sessions = "FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        (open_ones,) = column(other, f"SELECT count(*) {sessions}")
    other.dispose()
    return bool(open_ones == 0)


def test_no_transaction_is_open_while_the_caller_works(engine: Engine) -> None:
    url = url_of(engine)
    with LineageStore(url) as store:
        shown = [(item["summary_dir"], _holds_nothing_open(engine)) for item in store.lineage.iterate()]
    assert shown == [(f"./{number}", True) for number in reversed(range(JOBS))]


def test_the_page_that_a_condition_names_does_not_count(engine: Engine) -> None:
    assert _ids(_iterate(engine, {"limit": 1, "offset": 2})) == ["./5", "./4", "./3", "./2", "./1", "./0"]


def test_which_jobs_and_their_order_are_of_the_first_moment(engine: Engine) -> None:
    objects = _iterate(engine)
    first = next(objects)["summary_dir"]
    with writing(engine) as session:
        add_job(session, StoredJob("./new", update_time=3), 1)
        session.change(update(tables.train_job).values(update_time=-tables.train_job.c.update_time))
    assert [first, *_ids(objects)] == ["./5", "./4", "./3", "./2", "./1", "./0"]


def test_what_is_shown_of_a_job_is_of_the_moment_when_its_part_was_read(engine: Engine) -> None:
    objects = _iterate(engine)
    next(objects)
    with writing(engine) as session:
        for number in range(JOBS):
            remarks.annotate(session, 1, f"./{number}", {"tag": number}, NOW)
    labels = [item["added_info"] for item in objects]
    assert labels == [{}, {"tag": 3}, {"tag": 2}, {"tag": 1}, {"tag": 0}]


def test_a_job_that_was_taken_out_of_sight_or_removed_meanwhile_is_left_out(engine: Engine) -> None:
    objects = _iterate(engine)
    next(objects)
    with writing(engine) as session:
        leaving_id = removal.ensure_leaving(session, 1, NOW)
        (job_id,) = session.column(text("SELECT id FROM train_job WHERE train_id = './3'"))
        removal.begin_removal(session, 1, leaving_id, [job_id], removal.RemovalCause("test", "me"), NOW)
        session.change(text("DELETE FROM train_job WHERE train_id = './1'"))
    assert _ids(objects) == ["./4", "./2", "./0"]


def test_jobs_of_a_base_dir_that_is_being_forgotten_are_left_out(engine: Engine) -> None:
    objects = _iterate(engine)
    next(objects)
    with writing(engine) as session:
        removal.begin_forgetting(session, 1, "/logs")
    assert _ids(objects) == ["./4"]  # which had been read with the first


def test_a_new_job_with_the_id_of_one_that_was_removed_is_not_taken_for_it(engine: Engine) -> None:
    objects = _iterate(engine, {"sorted_name": "summary_dir"})
    next(objects)
    with writing(engine) as session:
        (last,) = session.column(text("SELECT max(id) FROM train_job"))
        session.change(text("DELETE FROM train_job WHERE id = :id"), {"id": last})
        new = add_job(session, StoredJob("./new"), 1)
        assert new == last or engine.dialect.name == "postgresql"
    assert _ids(objects) == ["./1", "./2", "./3", "./4"]
