"""Every statement and view obeys the rules of Citus for a store that is distributed as a whole, and the rules can fail.

No test uses a real Citus: rules about the text of a statement stand for its planner (helpers/citus_rules.py).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from helpers.citus_rules import violations
from helpers.databases import needs_databases
from helpers.fake_citus import distributed
from helpers.ingesting import column
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.operations.doctor import examine
from lineage_store.operations.removal import CleanUp
from lineage_store.operations.store_copy import copy_store
from lineage_store.store.database.db import writing
from lineage_store.store.schema.distribution import Part
from lineage_store.store.schema.tables import metadata
from lineage_store.store.schema.views import VIEWS


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_keeps_to_the_rules(view: Any) -> None:
    assert violations(view.select("postgresql")) == []


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT 1 FROM series r JOIN log_file f ON f.file_no = r.file_no", "not joined by job"),
        (
            "SELECT (SELECT count(*) FROM series r WHERE r.job_id = j.id) FROM train_job j",
            "counts without GROUP BY",
        ),
        (
            "SELECT (SELECT r.tag FROM series r WHERE r.job_id = j.id LIMIT 1) FROM train_job j",
            "LIMIT for each row",
        ),
        ("SELECT (SELECT b.path FROM base_dir b WHERE b.id = j.base_dir_id) FROM train_job j", "coordinator"),
        (
            "SELECT (SELECT j.id FROM train_job j WHERE j.base_dir_id = b.id) FROM base_dir b",
            "something else than its job",
        ),
        ("SELECT 1 FROM base_dir b LEFT JOIN train_job j ON j.base_dir_id = b.id", "LEFT JOIN of j"),
        (
            "WITH RECURSIVE n(k) AS (SELECT min(name_key) FROM metric UNION ALL SELECT 1) SELECT k FROM n",
            "recursive",
        ),
        ("UPDATE log_file SET state = 'open' WHERE log_file.name = %(name)s", "names no job"),
        ("UPDATE train_job SET last_grown_at = clock_timestamp() WHERE train_job.id = %(id)s", "clock"),
        (
            "INSERT INTO train_job (base_dir_id) VALUES (%s) ON CONFLICT (base_dir_id, train_id) DO NOTHING",
            "ON CONFLICT",
        ),
        ("SELECT id FROM train_job WHERE train_job.state = 'live' FOR UPDATE", "locks rows"),
    ],
)
def test_the_rules_tell_what_is_against_them(sql: str, rule: str) -> None:
    assert any(rule in told for told in violations(sql)), violations(sql)


@pytest.mark.slow
def test_every_statement_keeps_to_the_rules(
    postgres_server: str, postgres_url: str, corpus: Path, tmp_path: Path
) -> None:
    needs_databases(postgres_server)
    with distributed(postgres_url, Part.ALL), _statements() as noted:
        _do_everything(postgres_url, corpus, tmp_path)
    assert len(noted) > 150
    ours = re.compile(rf"\b({'|'.join(metadata.tables)})\b")  # others ask PostgreSQL's catalogs
    told = {each for sql in noted if ours.search(sql) for each in violations(sql)}
    assert told == set()


def _do_everything(url: str, corpus: Path, tmp_path: Path) -> None:
    base, settings = tmp_path / "base", Settings(keep_every_step_days=1, keep_thinned_buckets=10)
    shutil.copytree(corpus, base)
    _train_long(base, begun=1_700_000_000)
    for number in range(2):
        log = Log().train(network="N").evaluation({"acc": 0.5}).user_info(team="a")
        log.write_lineage(base / f"own_{number}").chmod(0o400)
        Log().version().scalar(1, "loss", 1.0).damaged(1).write_summary(base / f"own_{number}").chmod(0o400)
    with LineageStore(url, settings=settings) as store:
        for place in (base, corpus):
            store.ingest(place)
        _ask(store, base)
        store.job((base, "./own_0")).annotate(label=1, remark="r")
        Log().version().scalar(2, "loss", 2.0).write_summary(base / "own_0", 1_800_000_000)
        store.ingest(base)
        _ask(store, base)
        list(examine(url, settings, []))
        follower = Follower(store.engine, base, settings)
        follower.tick()
        follower.close()
        store.export(to=tmp_path / "export", format="csv")
        store.export(to=tmp_path / "changed", format="csv", since=tmp_path / "export")
        store.export(to=tmp_path / "events", format="openlineage")
        copy_store(url, f"sqlite:///{tmp_path / 'copy.db'}")
        (long,) = column(store.engine, "SELECT job_id FROM v_job WHERE train_id = './long'")
        with writing(store.engine) as session:
            session.change(f"UPDATE train_job SET last_grown_at = NULL WHERE train_job.id = {long}")
        assert len(list(store.removal.long_series(base))) == store.removal.thin(base).series
        _train_long(base, begun=1_700_000_100, first=55)
        store.ingest(base)
        store.repair.retry(base)
        store.job((base, "./own_1")).reingest()
        assert not [each for found in store.repair.verify(base) for each in found.differences]
        store.removal.remove(CleanUp(condition={"metric/acc": {"gt": 0.1}}), base)
        store.removal.restore(base, "./own_1")
        base.rename(tmp_path / "moved")
        store.base_dirs.move(base, tmp_path / "moved")
        (tmp_path / "moved" / "own_0").rename(tmp_path / "gone")
        store.ingest(tmp_path / "moved")
        for place in (tmp_path / "moved", corpus):
            store.base_dirs.forget(place)


def _train_long(base: Path, *, begun: int, first: int = 0) -> None:
    log = Log().version()
    for step in range(first, first + 110):
        log.scalar(step, "loss", step / 7)
    log.write_summary(base / "long", begun).chmod(0o400)


def _ask(store: LineageStore, base: Path) -> None:
    (job, *_) = store.lineage.jobs(base, limit=1)
    store.lineage.jobs(train_ids=[job.train_id])
    store.lineage.contents(base, [job.train_id])
    store.job((base, job.train_id)).report()
    store.job((base, job.train_id)).evaluation_rows()
    store.repair.why(base)
    store.repair.problems()
    store.health.findings()
    store.health.measures()
    store.health.status()
    store.names()
    store.values("network")
    store.changes.since(None)
    for where, sort in (
        ({"metric/accuracy": {"gt": 0.1}}, "metric/accuracy"),
        ({"or": [{"tag": {"eq": 1}}, {"not": {"user_defined/team": {"eq": "a"}}}]}, "tag"),
        ({"network": {"in": ["N", "LeNet5"]}, "metric_best/acc": {"is_null": False}}, "network"),
        ({"state": {"eq": "finished"}}, "update_time"),
    ):
        order = {} if sort == "update_time" else {"sorted_by": [[sort, "descending"], ["epoch", "ascending"]]}
        store.lineage.filter({**where, **order, "limit": 5, "offset": 0})
        list(store.lineage.iterate({**where, **order}))
        store.jobs(where)
    for plugin, tags in store.job((base, job.train_id)).tags().items():
        if plugin == "scalar":
            store.job((base, job.train_id)).scalars(tags[0])
            store.job((base, job.train_id)).recorded(tags[0])
            store.buckets([((base, job.train_id), tags[0])], points=2, superseded=True)
            store.curves([(base, job.train_id)], tags[0])
        if plugin == "histogram":
            store.job((base, job.train_id)).histograms(tags[0])
    store.jobs(columns=["summary_dir", "metric/acc", "user_defined/team"])
    list(store.removal.find(CleanUp(older_than_s=0.0)))


@contextmanager
def _statements() -> Iterator[set[str]]:
    """The text of whatever is executed meanwhile, also of what goes past SQLAlchemy's events."""
    noted = set[str]()

    class Noting(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **options: Any) -> Any:
            noted.add(str(query))
            return super().execute(query, *args, **options)

        def executemany(self, query: Any, *args: Any, **options: Any) -> None:
            noted.add(str(query))
            super().executemany(query, *args, **options)

    class NotingOnServer(psycopg.ServerCursor[Any]):
        def execute(self, query: Any, *args: Any, **options: Any) -> Any:
            noted.add(str(query))
            return super().execute(query, *args, **options)

    def note(connection: Any, _: object) -> None:
        if isinstance(connection, psycopg.Connection):
            connection.cursor_factory = Noting
            connection.server_cursor_factory = NotingOnServer

    event.listen(Pool, "connect", note)
    try:
        yield noted
    finally:
        event.remove(Pool, "connect", note)
