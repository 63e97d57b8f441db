"""Extreme values of a job break no view, verb or question, neither about its neighbours nor about itself."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from helpers import extreme_jobs
from helpers.databases import plain_role
from helpers.following_daemon import following_here
from helpers.log_writer import Log
from helpers.program import Run
from helpers.waiting import wait_until
from lineage_store import LineageStore, filter_summary_lineage, get_summary_lineage
from lineage_store.config import Settings
from lineage_store.fields import FIELDS
from lineage_store.store.schema.views import VIEWS

HONEST = ("./honest_1", "./honest_2")
ACCURACY = {"./honest_1": 0.25, "./honest_2": 0.75}


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """Extreme jobs, and two honest ones."""
    path = tmp_path / "base"
    extreme_jobs.write(path)
    for train_id, accuracy in ACCURACY.items():
        job = path / train_id
        log = Log().version()
        for step in range(1, 5):
            log.scalar(step, "loss", 1.0 / step).histogram(step, "w", [0.0, 1.0])
        log.write_summary(job)
        about = Log().train(network="LeNet5", optimizer="Adam", learning_rate=0.5, loss=0.25)
        about.evaluation({"accuracy": accuracy}).user_info(team="vision").write_lineage(job)
    return path


@pytest.fixture
def lifetime() -> Iterator[ExitStack]:
    """What the test has opened is closed with it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def ingested(on_each: str, base_dir: Path, run: Run) -> Path:
    """The base dir, in a store of each kind."""
    finished = run("ingest", base_dir)
    assert (finished.code, finished.err) == (0, "")
    return base_dir


@pytest.mark.usefixtures("ingested")
@pytest.mark.slow
def test_every_view_can_be_read_in_full_and_honest_jobs_are_exact(
    on_each: str, run: Run, monkeypatch: pytest.MonkeyPatch, lifetime: ExitStack
) -> None:
    asker = on_each if on_each.startswith("sqlite") else lifetime.enter_context(plain_role(on_each))
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", asker)
    for view in VIEWS:
        for style in ("--json", "--csv"):
            finished = run("sql", f"SELECT * FROM {view.name}", style)
            assert (finished.code, finished.err) == (0, ""), view.name
            assert_reads(style, finished.out)
    honest = "SELECT {} FROM {} WHERE train_id LIKE './honest%' ORDER BY 1, 2"
    metrics = run("sql", honest.format("train_id, value, evaluation_no, is_latest", "v_metric"), "--json")
    assert [tuple(row.values())[:3] for row in json.loads(metrics.out)] == [
        (train_id, accuracy, 1) for train_id, accuracy in ACCURACY.items()
    ]
    samples = run("sql", honest.format("train_id, step, value", "v_scalar"), "--json")
    assert [tuple(row.values()) for row in json.loads(samples.out)] == [
        (train_id, step, 1.0 / step) if step in (1, 2, 4) else (train_id, step, pytest.approx(1 / 3))
        for train_id in HONEST
        for step in range(1, 5)
    ]


def assert_reads(style: str, text: str) -> None:
    if style == "--json":
        json.loads(text)
    else:
        csv.field_size_limit(2**31 - 1)
        header, *rows = csv.reader(io.StringIO(text, newline=""))
        assert all(len(row) == len(header) for row in rows)


@pytest.mark.slow
def test_every_verb_answers(ingested: Path, run: Run, tmp_path: Path, on_each: str) -> None:
    jobs = json.loads(run("jobs", "--json").out)
    assert len(jobs) == len(list(ingested.iterdir()))
    asked: list[tuple[object, ...]] = [
        ("init",),
        ("jobs",),
        ("jobs", "--csv"),
        ("status",),
        ("status", "--json", "--cycles", 3),
        ("status", "--check", "--within", "1d"),
        ("filter", "--all", "--json"),
        ("filter", "--all", "--csv"),
        ("filter", "--explain"),
        ("filter", ingested, "--refresh", "--limit", 5, "--page", 2),
        ("doctor", ingested),
        ("problems", "--all", "--json"),
        ("retry",),
        ("verify", "--json"),
        ("why", ingested, "--json"),
        ("gc", "--older-than", "0d", "--dry-run"),
        ("gc", "--removed"),
        ("compare", *HONEST, "./lineage", "./text_long", "--csv"),
        ("config", "show"),
        ("db", "check"),
        ("ingest", "--dry-run", ingested),
    ]
    if on_each.startswith("sqlite"):
        asked.append(("backup", "--mode", "444", tmp_path / "snapshot.db"))
    assert_answered(run, asked)
    assert run("forget", "--yes", ingested).code == 0


@pytest.mark.slow
def test_every_verb_about_a_job_or_a_file_answers(ingested: Path, run: Run, on_each: str) -> None:
    asked: list[tuple[object, ...]] = []
    for path in ingested.iterdir():
        asked += [("show", path), ("why", path, "--json"), ("reingest", path)]
        if on_each.startswith("sqlite"):  # which is the same on both
            asked += [("inspect", file, "--all") for file in path.iterdir()]
            asked += [("annotate", path, "--label", 3), ("verify", path), ("show", path, "--json")]
    with LineageStore(on_each) as store:
        for path in ingested.iterdir():
            for tag in store.job((ingested, f"./{path.name}")).tags().get("scalar", []):
                if "\0" not in tag and len(tag) < 1000:  # no argument of a command can hold them
                    asked += [("scalars", "--", path, tag), ("scalars", "--plot", "--", path, tag)]
    assert_answered(run, asked)


def assert_answered(run: Run, asked: Sequence[tuple[object, ...]]) -> None:
    for arguments in asked:
        finished = run(*arguments)
        assert finished.code == 0, (arguments, finished.err[-2000:])


@pytest.mark.slow
def test_every_question_in_python_is_answered(ingested: Path, on_each: str) -> None:
    with LineageStore(on_each) as store:
        everything = store.lineage.filter()
        assert everything["count"] == sum(1 for _ in store.lineage.iterate())
        json.dumps(everything)
        for field in FIELDS:
            for order in ("ascending", "descending") if field.searchable else ():
                by = {"sorted_name": field.name, "sorted_type": order}
                pages = [
                    found["summary_dir"]
                    for page in range(99)
                    for found in store.lineage.filter({**by, "limit": 7, "offset": page})["object"]
                ]
                whole = [found["summary_dir"] for found in store.lineage.filter(by)["object"]]
                assert pages == whole, field.name
                store.explain({**by, field.name: {"is_null": False}})
        for name in ("metric/accuracy", "metric/less", "user_defined/u", f"metric/{extreme_jobs.MEGABYTE}"):
            found = store.lineage.filter({name: {"is_null": False}, "sorted_name": name, "limit": 5})
            assert found["count"], name
        accurate = {"metric/accuracy": {"ge": 0.5, "lt": 1.0}, "network": {"eq": "LeNet5"}}
        assert [each["summary_dir"] for each in store.lineage.filter(accurate)["object"]] == ["./honest_2"]
        for train_id in [job.train_id for job in store.lineage.jobs()]:
            for plugin, tags in store.job((ingested, train_id)).tags().items():
                for tag in tags:
                    read_samples(store, ingested, train_id, plugin, tag)
            store.job((ingested, train_id)).report()
            if any(path.name.endswith("_lineage") for path in (ingested / train_id).iterdir()):
                store.job((ingested, train_id)).lineage()
                get_summary_lineage(str(ingested / train_id))
            assert store.repair.why(ingested / train_id).verdict == "stored"
        assert [each for each in store.repair.verify() if each.differences or each.unreadable] == []
        assert store.repair.problems() == []
        assert store.job((ingested, HONEST[0])).scalars("loss").values.tolist()[:2] == [1.0, 0.5]
    assert filter_summary_lineage(str(ingested), accurate)["count"] == 1


def read_samples(store: LineageStore, base_dir: Path, train_id: str, plugin: str, tag: str) -> None:
    if plugin == "scalar":
        found = store.job((base_dir, train_id)).scalars(tag)
        assert (found.steps[1:] > found.steps[:-1]).all()
        found.to_pandas()
        return
    for sample in getattr(store.job((base_dir, train_id)), f"{plugin}s")(tag):
        sample.read()


@pytest.mark.slow
def test_a_daemon_follows_them_and_their_neighbours(on_each: str, base_dir: Path) -> None:
    settings = Settings(poll_interval_s=0.05, discovery_interval_s=0.05)
    with LineageStore(on_each, settings=settings) as store, following_here(store, base_dir):
        jobs = len(list(base_dir.iterdir()))
        wait_until(lambda: len(store.lineage.jobs()) == jobs)
        wait_until(
            lambda: not count(store, "v_log_file WHERE bookmark_bytes < size_bytes OR event_count = 0")
        )
        path = next((base_dir / HONEST[0]).glob("*_MS"))
        with path.open("ab") as stream:
            stream.write(Log().scalar(5, "loss", 9.0).content)
        wait_until(lambda: store.job((base_dir, HONEST[0])).scalars("loss").values.tolist()[4:] == [9.0])
        assert store.repair.problems() == []


def count(store: LineageStore, source: str) -> Any:
    with store.engine.connect() as connection:
        return connection.exec_driver_sql(f"SELECT count(*) FROM {source}").scalar_one()
