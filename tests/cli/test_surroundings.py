"""The program in a poor environment: streams that are closed or full, no home, few descriptors, two users."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.ingesting import column, visible_scalars
from helpers.log_writer import Log
from helpers.program import PROGRAM, Run
from helpers.users import ANOTHER_USER, another_user, needs_root, open_elsewhere
from lineage_store import LineageStore
from lineage_store.config import Settings, load
from lineage_store.errors import ConfigError, MindInsightException, PermissionDeniedError
from lineage_store.store import opened
from lineage_store.store.database.db import open_engine

MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n"


def shell(script: str, *words: object, url: str) -> subprocess.CompletedProcess[str]:
    """Run the program by a shell's line, in which it is `"$@"`."""
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url}
    command = ["bash", "-c", script, "bash", str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)


@pytest.mark.parametrize(
    "words", [["jobs"], ["jobs", "--json"], ["sql", "--csv", MANY], ["sql", "--json", MANY], ["status"]]
)
@pytest.mark.slow
def test_a_stdout_that_is_full_is_told(stored: Path, on_sqlite: str, words: list[str]) -> None:
    told = shell('"$@" >/dev/full', *words, url=on_sqlite)
    assert told.returncode == 1
    assert told.stderr.startswith("Error: The output could not be written to its end: No space left")
    assert len(told.stderr.splitlines()) == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
@pytest.mark.slow
def test_streams_that_are_closed_or_full_keep_nobody_from_work(
    on_sqlite: str, base_dir: Path, closed: str
) -> None:
    for words, code in (
        (["ingest", base_dir], 0),
        (["verify"], 0),
        (["jobs", "--csv"], 0),
        (["show", "x"], 1),
    ):
        done = shell(f'"$@" {closed}', *words, url=on_sqlite)
        assert done.returncode == code, (words, done)
        assert "Unexpected" not in done.stdout + done.stderr
    engine = open_engine(on_sqlite)
    assert visible_scalars(engine)[4] == 1.0
    engine.dispose()


@pytest.mark.parametrize("limits", ["exec 2>/dev/full", "exec <&- >&- 2>&-", "ulimit -n 64"])
@pytest.mark.slow
def test_a_daemon_that_is_short_of_something_reads_all_the_same(
    sqlite_url: str, base_dir: Path, limits: str
) -> None:
    for number in range(60):
        Log().scalar(1, "few", number).write_summary(base_dir / f"job_{number}")
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": sqlite_url}
    command = ["bash", "-c", f'{limits}; exec "$@"', "bash", str(PROGRAM), "daemon", str(base_dir)]
    with (
        subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as daemon,
        LineageStore(sqlite_url, settings=Settings()) as store,
    ):
        try:
            end = time.monotonic() + 60
            while column(store.engine, "SELECT count(*) FROM scalar_sample") != [64]:
                assert daemon.poll() is None, "it ended"
                assert time.monotonic() < end
                time.sleep(0.1)
            assert [file for file in store.repair.verify() if file.differences or file.unreadable] == []
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(60) == 0
        finally:
            daemon.kill()


def test_a_user_without_a_home_has_a_store_elsewhere(
    run: Run, base_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unknown(_: int) -> pwd.struct_passwd:
        raise KeyError

    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "LINEAGE_STORE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(opened, "FALLBACK", tmp_path / "fallback")
    before = set(tmp_path.iterdir())
    done = run("ingest", base_dir)
    assert (done.code, "Unexpected" in done.err) == (0, False), done.err
    assert set(tmp_path.iterdir()) - before == {tmp_path / "fallback"}


@needs_root
def test_a_state_directory_that_may_not_be_written_to_is_passed_over_unless_the_store_is_there(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = shared / "state" / "lineage-store"
    state.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(state.parent))
    monkeypatch.setattr(opened, "FALLBACK", shared / "fallback")
    opened.default_url(make_directory=False)  # what is imported late is root's
    os.chown(state, ANOTHER_USER, -1)
    state.chmod(0o500)
    with another_user():
        assert opened.default_url() == f"sqlite:///{shared}/fallback/store.db"
    assert stat.S_IMODE((shared / "fallback").stat().st_mode) == 0o700
    (shared / "fallback" / "store.db").touch()
    state.chmod(0o700)
    with another_user():
        assert opened.default_url() == f"sqlite:///{shared}/fallback/store.db"
    (state / "store.db").touch()
    state.chmod(0o500)
    with another_user():
        assert opened.default_url() == f"sqlite:///{state}/store.db"
        assert opened.default_url(make_directory=False) == f"sqlite:///{state}/store.db"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that two users share."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest closes its own to others
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


@needs_root
def test_two_users_of_one_store_do_not_lock_each_other_out(shared: Path) -> None:
    store = shared / "store.db"
    with another_user():
        assert _jobs_after_another("theirs", store) == 1
    assert _jobs_after_another("roots", store) == 2  # root is the last to close it
    with open_elsewhere(store), another_user():
        assert _jobs_after_another("theirs_again", store) == 3
    assert {path.stat().st_uid for path in shared.glob("store.db*")} == {ANOTHER_USER}


@needs_root
def test_what_another_user_has_closed_is_told_as_that(shared: Path) -> None:
    closed, base_dir = shared / "closed", shared / "base"
    closed.mkdir(mode=0o700)
    store = f"sqlite:///{shared}/store.db"
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    for path in (base_dir, base_dir / "job", *(base_dir / "job").iterdir()):
        path.chmod(0o755)
    LineageStore(
        f"sqlite:///{closed}/store.db", settings=Settings()
    ).close()  # what is imported late is root's
    with another_user(), LineageStore(store, settings=Settings()) as ours:
        ours.ingest(base_dir)
        for refused in (ours.backup, lambda path: ours.base_dirs.move(base_dir, path)):
            with pytest.raises(MindInsightException):
                refused(closed / "x")
        with pytest.raises(PermissionDeniedError, match="may not enter its directory"):
            LineageStore(f"sqlite:///{closed}/store.db", settings=Settings())


@needs_root
def test_a_settings_file_that_this_user_may_not_read_is_passed_over(
    shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(shared)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shared))
    file = shared / "lineage-store" / "lineage_store.toml"
    file.parent.mkdir(mode=0o755)
    file.write_text("lease_s = 3.0\n")
    file.chmod(0o600)
    assert load(environment={}).settings.lease_s == 3
    with another_user():
        assert load(environment={}).settings.lease_s != 3
        with pytest.raises(ConfigError, match="cannot be read"):
            load(config_file=file, environment={})
    assert f"{file} is skipped: this user may not read it." in caplog.text


def _jobs_after_another(name: str, path: Path) -> int:
    """How many jobs a store has after one more of this user was ingested."""
    Log().scalar(1, "loss", 0.5).write_summary(path.parent / "base" / name)
    (path.parent / "base").chmod(0o777)
    with LineageStore(f"sqlite:///{path}", settings=Settings()) as store:
        store.ingest(path.parent / "base")
        return len(store.lineage.jobs())
