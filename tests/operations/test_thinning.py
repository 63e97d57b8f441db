"""`[keep] every_step_days`: old scalars are thinned, answers about them stay true, files that grow are read again."""

from __future__ import annotations

import math
import random
import sqlite3
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, event, update

from helpers.contents import natural_contents
from helpers.engines import url_of
from helpers.following_daemon import daemon, write
from helpers.ingesting import column, ingest, rows, size_of
from helpers.kept_store import rows_of
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.ingest.lease import register
from lineage_store.operations import verify
from lineage_store.operations.base_dirs import forget
from lineage_store.operations.removal import CleanUp
from lineage_store.operations.store_copy import copy_contents
from lineage_store.query.export.exporting import ExportProgress
from lineage_store.query.samples import Curve, Scalars
from lineage_store.store.database.db import writing
from lineage_store.store.schema.tables import log_file, train_job
from lineage_store.store.writes import thinning
from lineage_store.store.writes.thinning import thinned

BUCKETS = 10
SAMPLES = 1_000
KEEP: dict[str, Any] = {"keep_every_step_days": 90, "keep_thinned_buckets": BUCKETS}
SERIES = "SELECT * FROM v_series WHERE tag = 'loss' ORDER BY log_file"
BUCKET_ROWS = "SELECT * FROM v_scalar_bucket WHERE tag = 'loss' ORDER BY log_file, first_step"


def values_of(count: int) -> list[float]:
    """A curve with spikes, from which a few values of no size stick out."""
    noise = random.Random(1)
    found = [1 / (step + 1) + noise.random() for step in range(count)]
    found[count // 3], found[count // 3 + 7], found[count // 2] = math.nan, math.nan, -math.inf
    found[3], found[-9] = 50.0, -50.0
    return found


def curve(first: int, values: list[float], tag: str = "loss") -> Log:
    log = Log().version()
    for step, value in enumerate(values, first):
        log.scalar(step, tag, value)
    return log


def train(
    base_dir: Path, name: str = "job", *, first: int = 0, samples: int = SAMPLES, begun: int = 1_700_000_000
) -> Path:
    log = curve(first, values_of(samples))
    for step in range(50):
        log.scalar(step, "short", step / 7)
    path = log.write_summary(base_dir / name, timestamp=begun)
    path.chmod(0o400)
    return path


def age(engine: Engine, days: float = 91) -> None:
    with writing(engine) as session:
        at = session.now() - timedelta(days=days)
        session.change(update(train_job).values(alive_at=at))


def set_ended(engine: Engine) -> None:
    with writing(engine) as session:
        session.change(update(train_job).values(state="stalled"))


def opened(engine: Engine, **settings: Any) -> LineageStore:
    return LineageStore(url_of(engine), settings=Settings(**KEEP | settings))


def scalars(engine: Engine, base_dir: Path) -> Scalars:
    with opened(engine) as store:
        return store.job((base_dir, "./job")).scalars("loss")


def curve_of_four(engine: Engine, base_dir: Path) -> Curve:
    with opened(engine) as store:
        (found,) = store.buckets([((base_dir, "./job"), "loss")], points=4)
    return found


def thin(engine: Engine, days: float = 91, **settings: Any) -> tuple[int, int]:
    """How many series were thinned, as many as were listed, and how many of their samples went."""
    age(engine, days)
    with opened(engine, **settings) as store:
        listed = list(store.removal.long_series())
        done = store.removal.thin()
        assert done.series == len(listed)
        assert list(store.removal.long_series()) == []
    return done.series, done.samples


def sound(engine: Engine, base_dir: Path) -> int:
    """How many series verify finds thinned, when it finds nothing wrong."""
    verdicts = list(verify.verify(engine, base_dir, register(engine, base_dir), Settings()))
    assert [found.what for verdict in verdicts for found in verdict.differences] == []
    assert all(verdict.unreadable is None for verdict in verdicts)
    return sum(verdict.thinned_series for verdict in verdicts)


@pytest.fixture
def job(engine: Engine, base_dir: Path) -> Path:
    """The log file of an ended job with one long scalar and a short one, in the store."""
    path = train(base_dir)
    ingest(engine, base_dir)
    return path


def test_few_samples_stay_and_buckets_tell_of_the_others(engine: Engine, base_dir: Path, job: Path) -> None:
    (before,) = rows(engine, SERIES)
    whole = scalars(engine, base_dir)
    done = thin(engine)
    (series,) = rows(engine, SERIES)
    left = scalars(engine, base_dir)
    assert done == (1, SAMPLES - len(left))
    assert len(left) <= 7 * BUCKETS
    assert left.thinned_count == series.thinned_count == done[1]
    assert series._asdict() == before._asdict() | {"thinned_count": done[1]}
    at = np.searchsorted(whole.steps, left.steps)
    for name in ("steps", "wall_times", "values"):
        np.testing.assert_array_equal(getattr(left, name), getattr(whole, name)[at])
    for name in ("first", "last", "min", "max"):
        assert series._mapping[f"{name}_step"] in left.steps
    buckets = rows(engine, BUCKET_ROWS)
    assert len(buckets) == BUCKETS
    assert sum(bucket._mapping["count"] for bucket in buckets) == SAMPLES
    for bucket in buckets:
        inside = (whole.steps >= bucket.first_step) & (whole.steps <= bucket.last_step)
        numbers = whole.values[inside]
        finite = numbers[np.isfinite(numbers)]
        assert bucket._mapping["count"] == len(numbers)
        assert (bucket.min, bucket.max) == (finite.min(), finite.max())
        assert (bucket.nan_count, bucket.inf_count) == (np.isnan(numbers).sum(), np.isinf(numbers).sum())
        assert bucket.mean == pytest.approx(finite.mean())
        kept = left.values[(left.steps >= bucket.first_step) & (left.steps <= bucket.last_step)]
        assert np.nanmin(kept) == np.nanmin(numbers)
        assert np.nanmax(kept) == np.nanmax(numbers)
        assert np.isnan(kept).any() == np.isnan(numbers).any()
    assert column(engine, "SELECT thinned_count FROM v_series WHERE tag = 'short'") == [0]
    assert sound(engine, base_dir) == 1


def test_a_curve_has_every_extreme_at_its_step(engine: Engine, base_dir: Path, job: Path) -> None:
    before = curve_of_four(engine, base_dir)
    gone = thin(engine)[1]
    after = curve_of_four(engine, base_dir)
    assert (before.thinned_count, after.thinned_count) == (0, gone)
    for name in ("min", "min_step", "max", "max_step"):
        np.testing.assert_array_equal(before.columns[name], after.columns[name], name)
    for name, end in (("first", 0), ("first_step", 0), ("last", -1), ("last_step", -1)):
        assert before.columns[name][end] == after.columns[name][end]


def test_only_long_scalars_of_jobs_that_ended_long_ago_are_thinned(engine: Engine, base_dir: Path) -> None:
    train(base_dir, "labelled")
    train(base_dir, "shorter", samples=10 * BUCKETS)
    curve(0, values_of(SAMPLES)).write_summary(base_dir / "live")
    ingest(engine, base_dir)
    with opened(engine) as store:
        store.job((base_dir, "./labelled")).annotate(label=1)
        assert list(store.removal.long_series()) == []
    assert thin(engine, days=89) == (0, 0)
    assert thin(engine) == (0, 0)
    assert thin(engine, keep_labelled=False)[0] == 1


def test_it_is_off_by_default(engine: Engine, base_dir: Path, job: Path) -> None:
    assert thin(engine, keep_every_step_days=0, keep_days=10_000) == (0, 0)
    with opened(engine, keep_every_step_days=0) as store, pytest.raises(ConfigError) as refused:
        store.removal.thin()
    assert "keep_every_step_days" in str(refused.value)


def test_who_follows_the_changes_is_told(engine: Engine, base_dir: Path, job: Path) -> None:
    with opened(engine) as store:
        age(engine)
        since = store.changes.since().since
        store.removal.thin()
        assert [change.train_id for change in store.changes.since(since).changes] == ["./job"]


def test_a_file_that_grows_is_read_again_in_full(engine: Engine, base_dir: Path) -> None:
    whole = curve(0, values_of(SAMPLES))
    path = whole.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    set_ended(engine)
    assert thin(engine)[0] == 1
    ingest(engine, base_dir)
    assert sound(engine, base_dir) == 1
    for step in (*range(SAMPLES, SAMPLES + 500), 5):  # and one is written again
        whole.scalar(step, "loss", 0.25)
    path.write_bytes(whole.content)
    ingest(engine, base_dir)
    (series,) = rows(engine, SERIES)
    assert (series.sample_count, series.thinned_count, series.last_step) == (SAMPLES + 500, 0, SAMPLES + 499)
    assert len(scalars(engine, base_dir)) == SAMPLES + 500
    assert rows(engine, BUCKET_ROWS) == []
    assert column(engine, "SELECT count(*) FROM scalar_bucket") == [0]
    assert sound(engine, base_dir) == 0
    set_ended(engine)
    assert thin(engine)[0] == 1
    assert len(rows(engine, BUCKET_ROWS)) == BUCKETS


def test_a_batch_that_was_read_before_its_file_was_thinned_is_refused(engine: Engine, base_dir: Path) -> None:
    log = curve(0, values_of(SAMPLES))
    path = log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    set_ended(engine)
    thin(engine)
    with writing(engine) as session:  # what whoever looked before knows
        session.change(update(log_file).values(thinned=False))
    path.write_bytes(log.scalar(SAMPLES, "loss", 1.0).content)
    ingest(engine, base_dir)
    assert column(engine, "SELECT last_step FROM series") == [SAMPLES - 1]
    with writing(engine) as session:
        session.change(update(log_file).values(thinned=True))
    ingest(engine, base_dir)
    assert column(engine, "SELECT last_step FROM series") == [SAMPLES]
    assert sound(engine, base_dir) == 0


def test_a_file_whose_end_is_torn_rests(engine: Engine, base_dir: Path) -> None:
    path = curve(0, values_of(SAMPLES)).torn(9).write_summary(base_dir / "job")
    path.chmod(0o400)
    for _ in range(2):
        ingest(engine, base_dir)
    assert thin(engine)[0] == 1
    for _ in range(2):
        ingest(engine, base_dir)
    assert column(engine, "SELECT generation FROM log_file") == [1]
    assert sound(engine, base_dir) == 1


def test_a_file_that_was_rewritten_has_no_buckets(engine: Engine, base_dir: Path, job: Path) -> None:
    thin(engine)
    job.chmod(0o600)
    curve(0, [1.0, 2.0]).write(job)
    ingest(engine, base_dir)
    (series,) = rows(engine, SERIES)
    assert (series.sample_count, series.thinned_count) == (2, 0)
    assert column(engine, "SELECT count(*) FROM scalar_bucket") == [0]
    assert sound(engine, base_dir) == 0


def test_reading_again_brings_every_step_back(engine: Engine, base_dir: Path, job: Path) -> None:
    whole = natural_contents(engine)
    thin(engine)
    with opened(engine) as store:
        store.job((base_dir, "./job")).reingest()
    again = natural_contents(engine)
    for table in ("scalar_sample", "scalar_bucket"):
        assert repr(again[table]).replace("_MS', 2,", "_MS', 1,") == repr(whole[table])
    assert sound(engine, base_dir) == 0


@pytest.mark.parametrize("again_from", [SAMPLES // 2, 377, 1, 0, SAMPLES])
def test_what_is_superseded_is_counted_right(engine: Engine, base_dir: Path, again_from: int) -> None:
    train(base_dir)
    ingest(engine, base_dir)
    thin(engine)
    train(base_dir, first=again_from, samples=60, begun=1_700_000_100)
    ingest(engine, base_dir)
    assert [row.superseded_count for row in rows(engine, SERIES)] == [SAMPLES - again_from, 0]
    assert sound(engine, base_dir) == 1


def test_no_bucket_lies_on_both_sides_of_a_restart(engine: Engine, base_dir: Path) -> None:
    train(base_dir)
    train(base_dir, first=433, samples=SAMPLES, begun=1_700_000_100)
    ingest(engine, base_dir)
    (before, _) = rows(engine, SERIES)
    assert thin(engine)[0] == 2
    (after, _) = rows(engine, SERIES)
    assert after.superseded_count == before.superseded_count == SAMPLES - 433
    found = [row for row in rows(engine, BUCKET_ROWS) if row.log_file == after.log_file]
    assert len(found) <= BUCKETS
    assert {row.first_step for row in found} >= {0, 433}
    assert [bool(row.is_effective) for row in found] == [row.first_step < 433 for row in found]
    assert scalars(engine, base_dir).steps[-1] == 433 + SAMPLES - 1
    assert sound(engine, base_dir) == 2


def test_what_is_wrong_with_a_thinned_series_is_found(engine: Engine, base_dir: Path, job: Path) -> None:
    thin(engine)
    (bucket, *_) = rows(engine, BUCKET_ROWS)
    faults = (
        f"DELETE FROM scalar_sample WHERE step = {bucket.last_step}",
        "UPDATE scalar_sample SET value = 7 WHERE step = 0",
        "UPDATE scalar_bucket SET max = max + 1 WHERE first_step = 0",
        "UPDATE series SET sample_count = sample_count + 1, thinned_count = thinned_count + 1 WHERE tag = 'loss'",
    )
    for fault in faults:
        with writing(engine) as session:
            session.change(fault)
        with pytest.raises(AssertionError):
            sound(engine, base_dir)
        with opened(engine) as store:
            store.job((base_dir, "./job")).reingest()
        thin(engine)
        assert sound(engine, base_dir) == 1


def left_behind(engine: Engine) -> list[int]:
    tables = ("series", "scalar_bucket", "scalar_sample")
    return [column(engine, f"SELECT count(*) FROM {table}")[0] for table in tables]


def test_nothing_of_it_is_left_of_what_goes(engine: Engine, base_dir: Path) -> None:
    for name in ("one", "other"):
        train(base_dir, name)
    ingest(engine, base_dir)
    assert thin(engine)[0] == 2
    with opened(engine, batch_rows=20) as store:
        assert store.removal.remove(CleanUp(older_than_s=0.0)).jobs == 2
    assert left_behind(engine) == [0, 0, 0]


def test_a_base_dir_that_is_forgotten_leaves_no_bucket(engine: Engine, base_dir: Path, job: Path) -> None:
    thin(engine)
    forget(engine, base_dir, Settings(batch_rows=20))
    assert left_behind(engine) == [0, 0, 0]


def test_a_base_dir_that_moved_keeps_its_buckets(engine: Engine, base_dir: Path, job: Path) -> None:
    thin(engine)
    before = rows(engine, "SELECT * FROM scalar_bucket ORDER BY first_step")
    base_dir.rename(base_dir.parent / "elsewhere")
    with opened(engine) as store:
        store.base_dirs.move(base_dir, base_dir.parent / "elsewhere")
    ingest(engine, base_dir.parent / "elsewhere")
    assert rows(engine, "SELECT * FROM scalar_bucket ORDER BY first_step") == before
    assert sound(engine, base_dir.parent / "elsewhere") == 1


def test_copies_and_exports_have_it(engine: Engine, base_dir: Path, job: Path, tmp_path: Path) -> None:
    thin(engine)
    url = url_of(engine)
    copied = copy_contents(url, f"sqlite:///{tmp_path}/copy.db")
    assert copied.rows["scalar_bucket"] == BUCKETS
    assert rows_of(f"sqlite:///{tmp_path}/copy.db") == rows_of(url)
    with opened(engine) as store:
        told = list[ExportProgress]()
        for view in ("v_scalar", "v_scalar_bucket"):
            store.export(view, to=tmp_path / view, format="csv", progress=told.append)
    (left,) = column(engine, "SELECT sum(sample_count - thinned_count) FROM v_series")
    assert [(each.name, each.rows) for each in told] == [("v_scalar", left), ("v_scalar_bucket", BUCKETS)]
    assert told[0].expected_rows == left


@pytest.mark.slow
def test_what_a_thinned_job_takes_is_known_within_a_third(engine: Engine, base_dir: Path) -> None:
    many = {"keep_thinned_buckets": 100}
    for number in range(6):
        log = Log().version()
        for step, value in enumerate(values_of(2_000)):
            log.scalars(step, dict.fromkeys("abcdefgh", value))
        log.write_summary(base_dir / f"job_{number}").chmod(0o400)
    before = size_of(engine)
    ingest(engine, base_dir)
    assert thin(engine, **many)[0] == 48
    with opened(engine, keep_store_bytes=1) as store:
        told = sum(job.store_bytes for job in store.removal.expired())
    vacuum(engine)
    taken = size_of(engine) - before
    assert taken * 2 / 3 < told < taken * 3 / 2, f"{told} are told, {taken} are taken"


def vacuum(engine: Engine) -> None:
    if engine.url.database and engine.dialect.name == "sqlite":
        with closing(sqlite3.connect(engine.url.database)) as database:
            database.execute("VACUUM")
        return
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM FULL")


@pytest.mark.slow
def test_one_that_is_ended_in_between_leaves_each_series_whole_or_thinned(
    engine: Engine, base_dir: Path
) -> None:
    log = Log().version()
    for step, value in enumerate(values_of(SAMPLES)):
        log.scalars(step, {"a": value, "b": -value, "c": 2 * value})
    log.write_summary(base_dir / "job").chmod(0o400)
    ingest(engine, base_dir)
    age(engine)
    left = 0

    def interrupt(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt

    for statements in range(1, 60, 3):
        left = statements
        with opened(engine) as store:
            event.listen(store.engine, "before_cursor_execute", interrupt)
            with suppress(KeyboardInterrupt):
                store.removal.thin()
        found = rows(engine, "SELECT series_no, sample_count - thinned_count AS stay FROM series")
        stored = rows(engine, "SELECT series_no, count(*) AS stay FROM scalar_sample GROUP BY series_no")
        assert sorted(stored) == sorted(found)
        assert sound(engine, base_dir) == sum(row.stay < SAMPLES for row in found)
        if all(row.stay < SAMPLES for row in found):
            break
    thin(engine)
    assert sound(engine, base_dir) == 3


def test_a_job_of_which_anything_changes_meanwhile_stays_whole(
    engine: Engine, base_dir: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(engine)

    def labelled(*arguments: Any) -> Any:
        with opened(engine) as store:
            store.job((base_dir, "./job")).annotate(label=1)
        return thinned(*arguments)

    monkeypatch.setattr(thinning, "thinned", labelled)
    with opened(engine) as store:
        assert store.removal.thin().samples == 0
    assert sound(engine, base_dir) == 0


@pytest.mark.slow
def test_a_daemon_thins_by_itself_and_reads_on(engine: Engine, database_url: str, base_dir: Path) -> None:
    for number in range(3):
        train(base_dir, f"job_{number}")
    ingest(engine, base_dir)
    age(engine)
    file = base_dir.parent / "lineage_store.toml"
    told = {"base_dirs": [str(base_dir)], "lease_s": 2, "keep_every_s": 1, **KEEP}
    write(file, **told)
    with daemon(file, database_url) as running:
        wait_until(lambda: len(rows(engine, BUCKET_ROWS)) == 3 * BUCKETS)
        wait_until(lambda: sum(said["series"] for said in running.says("series thinned")) == 3)
        gone = column(engine, "SELECT sum(thinned_count) FROM series")
        assert [sum(said["samples"] for said in running.says("series thinned"))] == gone
        train(base_dir, "job_0", first=SAMPLES, begun=1_700_000_100)
        wait_until(lambda: SAMPLES in column(engine, "SELECT first_step FROM v_series WHERE tag = 'loss'"))
    assert sound(engine, base_dir) == 3


# --- which samples stay --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [None, -5, 0, 1, 250, 999, 5000])
def test_buckets_cover_all_samples_without_a_gap(cut: int | None) -> None:
    steps = np.sort(np.random.default_rng(1).choice(2**40, SAMPLES, replace=False)) % 2**39
    steps = np.unique(steps) if cut is None else np.arange(SAMPLES)
    found = thinned(steps, np.zeros(len(steps)), BUCKETS, cut)
    assert len(found.buckets) <= BUCKETS
    assert sum(row["count"] for row in found.buckets) == len(steps)
    ends = [step for row in found.buckets for step in (row["first_step"], row["last_step"])]
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (steps[0], steps[-1])
    assert all(row["mean"] == 0.0 for row in found.buckets)


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 0.1, 5e-324])
def test_the_mean_of_equal_values_is_that_value(value: float) -> None:
    found = thinned(np.arange(300), np.full(300, value), BUCKETS, None)
    assert {row["mean"] for row in found.buckets} == {value}


def test_of_nothing_but_odd_values_the_first_of_each_kind_stays() -> None:
    values = np.array([math.nan, math.inf, -math.inf] * 100)
    found = thinned(np.arange(300), values, 2, None)
    assert found.kept == [0, 1, 2, 149, 150, 151, 152, 299]
    assert {(row["min"], row["max"], row["mean"]) for row in found.buckets} == {(None, None, None)}
