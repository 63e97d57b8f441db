"""The databases' query plans, on enough analysed rows that plans matter."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Select, insert, literal, select, text

from helpers import databases
from helpers.answers import filter_lineage
from helpers.engines import opened
from helpers.stored_jobs import NOW, add_base_dir
from lineage_store import texts
from lineage_store.query.condition import SearchCondition
from lineage_store.query.condition_dict import parse
from lineage_store.query.job_sql import ChosenStatements, Want, choose, compile_count
from lineage_store.query.jobs import database_plan
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import INDEXED_CHARACTERS, Session
from lineage_store.store.schema import tables

JOBS = 6_000
FILTER: dict[str, Any] = {"epoch": {"ge": 10}, "optimizer": {"in": ["Adam", "SGD"]}}
BEST = {"sorted_name": "metric/acc", "sorted_type": "descending", "limit": 20}
WORST = {**BEST, "sorted_type": "ascending"}


@pytest.fixture(scope="module")
def stored(module_database_url: str) -> Iterator[Engine]:
    """Jobs for tests that only read."""
    _fill(module_database_url)
    with opened(module_database_url) as engine:
        yield engine


@pytest.fixture
def engine(stored: Engine, module_database_url: str, tmp_path: Path) -> Iterator[Engine]:
    """The same for a test that writes."""
    stored.dispose()
    with databases.copied(module_database_url, tmp_path, _fill) as url, opened(url) as engine:
        yield engine


def _fill(url: str) -> None:
    with opened(url) as engine, writing(engine) as session:
        _add_jobs(session, add_base_dir(session))
        session.change(text("ANALYZE"))


def _add_jobs(session: Session, base_dir_id: int) -> None:
    pick = random.Random(20260102)
    key, jobs, lineages, metrics = texts.key("acc"), [], [], []
    for job_id in range(1, JOBS + 1):
        jobs.append(
            {
                "id": job_id,
                "base_dir_id": base_dir_id,
                "train_id": f"./run{pick.random()}",
                "state": "finished",
                "source_present": True,
                "update_time": pick.randrange(10**6),
                "log_bytes": 0,
                "created_at": NOW,
            }
        )
        fields = {"epoch": pick.randrange(40), "optimizer": pick.choice(["Adam", "SGD", "Momentum", "Lamb"])}
        lineages.append({"job_id": job_id, "dataset_mark": "m", "model_lineage": EMPTY + " " * 900, **fields})
        value = {"name": "acc", "kind": "float", "value": pick.random(), "position": 0}
        metrics.append({"job_id": job_id, "name_key": key, **value})
    for table, rows in ((tables.train_job, jobs), (tables.lineage, lineages), (tables.metric, metrics)):
        session.change(insert(table), rows)


WANTED = Want(lineage=True, dataset=True)
EMPTY = '{"metric": {}, "user_defined": {}}'


def _plans(engine: Engine, condition: dict[str, Any]) -> list[str]:
    """The plan of each range's page."""
    parsed = parse(condition)
    return [_plan(engine, part.page, parsed) for part in _chosen(engine, parsed, None, count=False).ranges]


def _chosen(
    engine: Engine, condition: SearchCondition, base_dirs: tuple[int, ...] | None, *, count: bool
) -> ChosenStatements:
    with reading(engine) as session:
        return choose(session, condition, base_dirs, WANTED, count=count)


def _plan(engine: Engine, statement: Select[Any], condition: SearchCondition, **more: object) -> str:
    with reading(engine) as session:
        return database_plan(session, statement, **condition.values, **more)


def _sorts_everything(plan: str) -> bool:
    """Whether rows are sorted that no index delivered in the order of the first key; the page's own may be."""
    lines = [line.strip(" ->") for line in plan.splitlines() if line.startswith(" ")]
    return any(line.startswith(("Sort  (cost", "USE TEMP B-TREE FOR ORDER BY")) for line in lines)


@pytest.mark.parametrize("order", [BEST, WORST], ids=["best", "worst"])
@pytest.mark.parametrize("least", [0.2, 0.999], ids=["unselective", "selective"])
def test_a_page_by_a_filtered_metric_comes_from_its_index(
    stored: Engine, order: dict[str, Any], least: float
) -> None:
    (plan,) = _plans(stored, {**FILTER, **order, "metric/acc": {"gt": least}})
    assert "ix_metric_name_value" in plan
    assert "scalar_sample" not in plan
    if least == 0.2:
        assert not _sorts_everything(plan)


@pytest.mark.parametrize("base_dirs", [(1,), (1, 2)])
def test_the_newest_jobs_of_some_base_dirs_come_from_an_index(
    stored: Engine, base_dirs: tuple[int, ...]
) -> None:
    wanted = parse({**FILTER, "limit": 20})
    (found,) = _chosen(stored, wanted, base_dirs, count=False).ranges
    plan = _plan(stored, found.page, wanted)
    assert "ix_train_job_" in plan
    assert not _sorts_everything(plan)


def test_the_best_by_any_metric_come_from_its_index(stored: Engine) -> None:
    above, numbers, _below = _plans(stored, {**FILTER, **BEST})
    assert "ix_metric_name_value" in above
    assert "ix_metric_name_value" in numbers
    assert not _sorts_everything(numbers)


def test_few_jobs_of_a_network_are_found_by_its_index(engine: Engine) -> None:
    with writing(engine) as session:
        few, many = tables.lineage.c.job_id <= 20, tables.lineage.c.job_id > 20
        session.change(tables.lineage.update().where(few).values(network="Rare"))
        session.change(tables.lineage.update().where(many).values(network="Common"))
        session.change(text("ANALYZE"))
    good = {**FILTER, **BEST, "metric/acc": {"gt": 0.2}}
    rare, common = (parse({**good, "network": {"eq": network}}) for network in ("Rare", "Common"))
    with reading(engine) as session:
        chosen = [choose(session, each, None, WANTED, count=True) for each in (rare, common)]
        (part,), counting = chosen[0].ranges, chosen[0].count
        assert counting is not None
        plans = [database_plan(session, statement, **rare.values) for statement in (part.page, counting)]
    beginnings = [
        "FROM lineage" in str(each.ranges[0].page).partition("job_id IN (SELECT")[2] for each in chosen
    ]
    # PostgreSQL has histograms to know it by
    assert beginnings == [engine.dialect.name == "sqlite", False]
    assert all("ix_lineage_network" in plan for plan in plans)


def test_an_index_takes_texts_of_any_length(engine: Engine) -> None:
    pick = random.Random(20260103)
    long = "".join(chr(pick.randrange(0x100, 0xD000)) for _ in range(10_000))
    with writing(engine) as session:
        session.change(tables.lineage.update().where(tables.lineage.c.job_id == 7).values(network=long))
    with reading(engine) as session:
        assert filter_lineage(session, parse({"network": {"eq": long}}), None)["count"] == 1
        assert filter_lineage(session, parse({"network": {"eq": long[:-1]}}), None)["count"] == 0


@pytest.mark.slow
def test_texts_are_compared_as_a_whole_however_much_of_them_an_index_has(engine: Engine) -> None:
    """Around what the index has: shorter, as long, longer, and longer by another end."""
    some = {n: "损" * n for n in (INDEXED_CHARACTERS - 1, INDEXED_CHARACTERS, INDEXED_CHARACTERS + 1)}
    texts_of = [*some.values(), some[INDEXED_CHARACTERS] + "other"]
    with writing(engine) as session:
        for job_id, text_of in enumerate(texts_of, 1):
            of_job = tables.lineage.update().where(tables.lineage.c.job_id == job_id)
            session.change(of_job.values(network=text_of))
        session.change(text("ANALYZE"))

    def matching(condition: dict[str, Any]) -> int:
        with reading(engine) as session:
            return int(filter_lineage(session, parse(condition), None)["count"])

    for wanted in texts_of:
        assert matching({"network": {"eq": wanted}}) == 1
        assert matching({"network": {"in": [wanted, "none"]}}) == 1
        assert matching({"network": {"ne": wanted}}) == JOBS - 1
        assert matching({"network": {"not_in": [wanted, "none"]}}) == JOBS - 1
        assert matching({"network": {"like": wanted}}) == 1
        assert matching({"not": {"network": {"eq": wanted}}}) == JOBS - 1
        assert "ix_lineage_network" in _plans(engine, {"network": {"eq": wanted}, "limit": 20})[0]
    assert matching({"network": {"in": texts_of}}) == len(texts_of)
    assert matching({"network": {"in": [*texts_of, *map(str, range(100))]}}) == len(texts_of)
    assert matching({"network": {"eq": some[INDEXED_CHARACTERS] + "another"}}) == 0
    assert matching({"network": {"like": some[INDEXED_CHARACTERS] + "%"}}) == 3


def test_the_newest_jobs_come_from_the_index_of_update_times(stored: Engine) -> None:
    for condition in ({"limit": 20}, {**FILTER, "limit": 20}):
        (plan,) = _plans(stored, condition)
        assert "ix_train_job_newest" in plan
        assert not _sorts_everything(plan)


def test_few_of_the_newest_are_found_by_a_scan_where_they_are_counted(stored: Engine) -> None:
    few, many = ({"epoch": {"le": last}, "metric/acc": {"gt": 0.2}, "limit": 20} for last in (0, 30))
    for condition, are_few in ((few, stored.dialect.name == "sqlite"), (many, False)):
        wanted = parse(condition)
        chosen = _chosen(stored, wanted, None, count=True)
        assert (chosen.counted is not None) == (stored.dialect.name == "sqlite")
        plan = _plan(stored, chosen.ranges[0].page, wanted)
        assert ("SCAN lineage USING COVERING INDEX ix_lineage_fields" in plan) == are_few
        (walked,) = _chosen(stored, wanted, None, count=False).ranges
        assert "ix_train_job_newest" in _plan(stored, walked.page, wanted) or not are_few


@pytest.mark.parametrize(
    "condition", [{**BEST, "metric/acc": {"gt": 0.999}}, {"summary_dir": {"eq": "./run"}}, {}]
)
def test_what_an_index_tells_is_not_counted_first(stored: Engine, condition: dict[str, Any]) -> None:
    counted = _chosen(stored, parse({"limit": 20, **condition}), None, count=True).counted
    assert (counted is None) == bool(condition or stored.dialect.name == "postgresql")


def test_a_count_does_not_walk_the_values_of_a_metric(stored: Engine) -> None:
    condition = parse({**FILTER, "metric/acc": {"gt": 0.2}})
    plan = _plan(stored, compile_count(condition.where, None), condition)
    assert "ix_metric_name_value" not in plan
    assert "train_job" not in plan
    if stored.dialect.name == "sqlite":
        assert "SCAN lineage USING COVERING INDEX ix_lineage_fields" in plan
        assert "SEARCH metric USING PRIMARY KEY" in plan


@pytest.mark.parametrize("of_two", [False, True])
def test_nor_does_a_count_in_some_base_dirs(stored: Engine, of_two: bool) -> None:
    condition = parse({**FILTER, "metric/acc": {"gt": 0.2}, "user_defined/team": {"eq": "a"}})
    plan = _plan(stored, compile_count(condition.where, (1, 2) if of_two else (1,)), condition)
    assert "ix_metric_name_value" not in plan
    if stored.dialect.name == "sqlite":
        assert "SEARCH metric USING PRIMARY KEY" in plan


def test_pages_follow_one_another_across_the_ranges_of_an_order(engine: Engine) -> None:
    with writing(engine) as session:
        odd = tables.metric.c.job_id <= 30
        session.change(tables.metric.delete().where(tables.metric.c.job_id <= 10))
        text_value = {"kind": "text", "value": None, "text": "n/a"}
        session.change(tables.metric.update().where(odd, tables.metric.c.job_id > 20).values(text_value))
        nan = {"kind": "nan", "value": None}
        session.change(tables.metric.update().where(odd, tables.metric.c.job_id.between(11, 20)).values(nan))
    few = {"epoch": {"in": [1, 2]}}
    with reading(engine) as session:
        for order in (BEST, WORST):
            everything = filter_lineage(
                session, parse({**few, **{k: order[k] for k in ("sorted_name", "sorted_type")}}), None
            )
            pages: list[dict[str, Any]] = []
            for number in range(1 + everything["count"] // 7):
                wanted = parse({**few, **order, "limit": 7, "offset": number})
                pages += filter_lineage(session, wanted, None, count=False)["object"]
            assert pages == everything["object"]


BESIDE_LINEAGE: list[tuple[dict[str, Any], str]] = [
    ({"updated_at": {"gt": 999_000}}, "ix_train_job_newest"),
    ({"state": {"eq": "live"}}, "ix_train_job_state"),
    ({"outcome": {"in": ["failed"]}}, "ix_train_job_outcome"),
    ({"host": {"in": ["node-1"]}}, "ix_train_job_host"),
    ({"tag": {"eq": 3}}, "annotation"),
    ({"remark": {"like": "%paper%"}}, "annotation"),
]


@pytest.mark.parametrize(("condition", "index"), BESIDE_LINEAGE, ids=lambda each: str(each)[:20])
def test_what_is_known_beside_lineage_is_found_without_a_look_at_every_job(
    engine: Engine, condition: dict[str, Any], index: str
) -> None:
    jobs, few = tables.train_job, tables.train_job.c.id <= 20
    with writing(engine) as session:
        session.change(
            tables.train_job.update().where(few).values(state="live", outcome="failed", host="node-1")
        )
        notes = select(jobs.c.base_dir_id, jobs.c.train_id, literal(3), literal("paper"), literal(NOW)).where(
            few
        )
        names = ["base_dir_id", "train_id", "tag", "remark", "updated_at"]
        session.change(insert(tables.annotation).from_select(names, notes))
        session.change(text("ANALYZE"))
    wanted = parse({**condition, "limit": 20})
    (page,) = _chosen(engine, wanted, None, count=True).ranges
    assert index in _plan(engine, page.page, wanted) or engine.dialect.name == "postgresql"
    with reading(engine) as session:
        found = filter_lineage(session, wanted, None)
    assert found["count"] == 20 or "updated_at" in condition


def test_the_newest_by_name_are_the_newest(stored: Engine) -> None:
    newest = {"sorted_name": "updated_at", "sorted_type": "descending"}
    assert parse({**FILTER, **newest, "limit": 20}) == parse({**FILTER, "limit": 20})


def test_a_page_by_the_best_of_a_metric_comes_from_its_index(engine: Engine) -> None:
    names = ("job_id", "name_key", "name", "kind", "value", "position", "evaluation_no")
    key = literal(texts.summary_key("best/acc"))
    last = tables.metric.c
    rows = select(last.job_id, key, literal("best/acc"), last.kind, last.value, literal(0), literal(1))
    with writing(engine) as session:
        session.change(insert(tables.metric_summary).from_select(names, rows))
        session.change(text("ANALYZE"))
    order = {"sorted_name": "metric_best/acc", "sorted_type": "descending", "limit": 20}
    (plan,) = _plans(engine, {**FILTER, **order, "metric_best/acc": {"gt": 0.2}})
    assert "ix_metric_summary_name_value" in plan
    assert not _sorts_everything(plan)
