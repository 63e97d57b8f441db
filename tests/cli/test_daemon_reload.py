"""SIGHUP: a daemon goes on with the new contents of the settings file."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.engines import opened
from helpers.following_daemon import daemon, write
from helpers.ingesting import column
from helpers.log_writer import Log
from helpers.waiting import wait_until


@pytest.fixture
def store(database_url: str) -> Iterator[Engine]:
    with opened(database_url) as engine:
        yield engine


def jobs(base_dirs: Sequence[Path], name: str) -> None:
    for base_dir in base_dirs:
        Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / name)


def led(engine: Engine) -> list[str]:
    return column(engine, "SELECT base_dir FROM v_base_dir WHERE leader IS NOT NULL ORDER BY base_dir")


def read(engine: Engine, name: str) -> list[str]:
    query = "SELECT base_dir FROM v_job WHERE train_id = :name AND log_bytes > 0 ORDER BY base_dir"
    return column(engine, query, name=f"./{name}")


@pytest.mark.slow
def test_base_dirs_come_and_go_while_the_others_are_followed_on(
    store: Engine, database_url: str, tmp_path: Path
) -> None:
    stays, goes, comes = (tmp_path / name for name in ("a_stays", "b_goes", "c_comes"))
    jobs([stays, goes, comes], "first")
    file = tmp_path / "lineage_store.toml"
    write(file, base_dirs=[str(stays), str(goes)])
    with daemon(file, database_url) as running:
        wait_until(lambda: led(store) == read(store, "first") == [str(stays), str(goes)])
        epoch = "SELECT epoch FROM ingest_lease JOIN base_dir ON base_dir.id = base_dir_id WHERE path = :path"
        before = column(store, epoch, path=str(stays))
        told = running.reload("settings reloaded", base_dirs=[str(stays), str(comes)])
        assert told["base_dirs"] == [str(stays), str(comes)]
        wait_until(lambda: led(store) == [str(stays), str(comes)])
        jobs([stays, goes, comes], "second")
        wait_until(lambda: read(store, "second") == [str(stays), str(comes)])
        assert column(store, epoch, path=str(stays)) == before  # nobody let go of it
        assert [line["base_dir"] for line in running.says("lease released")] == [str(goes)]


@pytest.mark.slow
def test_intervals_change_and_nothing_is_missed(sqlite_url: str, tmp_path: Path) -> None:
    base_dir, file = tmp_path / "base", tmp_path / "lineage_store.toml"
    jobs([base_dir], "first")
    write(file, base_dirs=[str(base_dir)], discovery_interval_s=1e6, poll_interval_s=1e6)
    with opened(sqlite_url) as store, daemon(file, sqlite_url) as running:
        wait_until(lambda: read(store, "first"))
        jobs([base_dir], "second")
        told = running.reload("settings reloaded", base_dirs=[str(base_dir)])
        assert told["changed"] == ["poll_interval_s", "discovery_interval_s"]
        wait_until(lambda: read(store, "second"))


WRONG: list[tuple[dict[str, object], str]] = [
    ({"poll_interval_s": "soon"}, "Setting poll_interval_s = 'soon'"),
    ({"poll_interval_s": 0}, "must be at least 0.05."),
    ({"lease_s": 1e10}, "must be at most 1000000000."),
    ({"log_format": "xml"}, "must be one of"),
    ({"pol_interval_s": 1.0}, "Unknown setting 'pol_interval_s'"),
    ({"base_dirs": []}, "There is no base dir to follow."),
    ({"notify_url": "ftp://host/x"}, "Setting notify_url is no address"),
    ({"notify_command": "mail 'x"}, "Setting notify_command cannot be split"),
    ({"no word": 1}, "cannot be read"),
]


@pytest.mark.slow
def test_settings_that_are_refused_are_told_and_the_old_ones_stay(sqlite_url: str, tmp_path: Path) -> None:
    base_dir, file = tmp_path / "base", tmp_path / "lineage_store.toml"
    jobs([base_dir], "first")
    write(file, base_dirs=[str(base_dir)])
    with opened(sqlite_url) as engine, daemon(file, sqlite_url) as running:
        for number, (wrong, reason) in enumerate(WRONG):
            told = running.reload("settings reload failed", **{"base_dirs": [str(base_dir)], **wrong})
            assert reason in told["reason"]
            assert told["remedy"], reason
            jobs([base_dir], f"after_{number}")
            wait_until(lambda number=number: read(engine, f"after_{number}"))  # type: ignore[misc]
        file.unlink()
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(running.says("settings reload failed")) > len(WRONG))
        told = running.says("settings reload failed")[-1]
        assert told["reason"] == f"There is no configuration file {file}."
        assert told["remedy"].startswith("Put it there, or name another one with --config")
        assert not running.says("lease released")


def test_what_takes_a_restart_is_told_by_name(sqlite_url: str, tmp_path: Path) -> None:
    base_dir, file = tmp_path / "base", tmp_path / "lineage_store.toml"
    jobs([base_dir], "first")
    write(file)
    with daemon(file, sqlite_url, base_dir) as running:
        told = running.reload("settings need restart", statement_timeout_s=7.0)
        assert told["settings"] == ["statement_timeout_s"]
        # What was named on the command line is followed on, whatever the file says.
        assert running.says("settings reloaded")[-1]["base_dirs"] == [str(base_dir)]
