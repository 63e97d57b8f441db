"""Backups of a store, and a restored store: what log files have gained since the backup is read again, once."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from helpers import databases
from helpers.contents import natural_contents
from helpers.databases import BY_JOBS
from helpers.fake_citus import distributed
from helpers.ingesting import column
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import (
    ConfigError,
    DatabaseUnavailableError,
    LeaseHeldError,
    LineageStoreError,
    NotAStoreError,
    SchemaTooNewError,
)
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import hold_lease
from lineage_store.operations.backup import RestoredStore, backup, restore_backup
from lineage_store.store.admin.partitioning import lay_out
from lineage_store.store.admin.roles import READING_LIMITS, Roles, grant_roles
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.schema import upgrade


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{databases.client_programs_directory()}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    for number in range(3):
        Log().version().scalar(1, "loss", number).write_summary(path / f"job_{number}")
    return path


@pytest.fixture
def url(database_url: str, base_dir: Path) -> str:
    """A store with a label."""
    if database_url.startswith("postgres"):
        databases.needs_databases(database_url)
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
        store.job((base_dir, "./job_1")).annotate(label=3, remark="ours")
    return database_url


def on_engine(url: str, ask: Callable[..., Any], *arguments: Any) -> Any:
    engine = open_engine(url)
    try:
        return ask(engine, *arguments)
    finally:
        engine.dispose()


def back_up(url: str, target: Path) -> Path:
    assert on_engine(url, backup, target) == target.stat().st_size
    return target


def grown(base_dir: Path) -> None:
    """What trainings write after the backup: further files of an old job, and a new job."""
    Log().version().scalar(2, "loss", 5.0).write_summary(base_dir / "job_0", timestamp=1_700_000_100)
    with next((base_dir / "job_1").iterdir()).open("ab") as file:
        file.write(Log().scalar(2, "loss", 6.0).content)
    Log().version().scalar(1, "loss", 7.0).write_summary(base_dir / "new")


in_one_piece = pytest.mark.skipif(
    BY_JOBS > 0, reason="a partitioned store is restored into a new database only"
)


@pytest.mark.slow
@in_one_piece
def test_what_log_files_gained_since_the_backup_is_read_again_and_all_is_there_once(
    url: str, base_dir: Path, tmp_path: Path
) -> None:
    then = on_engine(url, natural_contents)
    file = back_up(url, tmp_path / "backup")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    grown(base_dir)
    with LineageStore(url) as store:
        store.ingest(base_dir)
        store.job((base_dir, "./job_1")).annotate(remark="changed")
    now = on_engine(url, natural_contents)
    with pytest.raises(LineageStoreError, match="has contents") as refused:
        restore_backup(url, file)
    assert "--replace" in str(refused.value.hint)
    assert on_engine(url, natural_contents) == now
    found = restore_backup(url, file, replace=True)
    assert (found.jobs, found.left) == (3, None)
    assert found.last_ingest_at is not None
    assert on_engine(url, natural_contents) == then
    with LineageStore(url) as store:
        store.ingest(base_dir)
        store.job((base_dir, "./job_1")).annotate(remark="changed")
    assert on_engine(url, natural_contents) == now
    assert on_engine(url, column, "SELECT count(*) FROM v_scalar") == [6]


def test_a_backup_says_how_far_it_is_and_is_of_one_moment_while_the_store_is_written_to(
    sqlite_url: str, base_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.operations.backup.PAGES_AT_A_TIME", 20)
    to, far, restored = tmp_path / "backup.db", list[str](), list[str]()
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)

        def write(told: str) -> None:
            far.append(told)
            store.job((base_dir, "./job_1")).annotate(remark=f"{len(far)}")

        store.backup(to, progress=write)
    assert len(far) > 3
    assert far[-2:] == ["100%", "checking"]
    assert restore_backup(f"sqlite:///{tmp_path}/new.db", to, progress=restored.append).jobs == 3
    assert restored[-2:] == ["100%", "checking"]
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection:
        assert connection.execute("SELECT count(*) FROM annotation").fetchone() == (0,)


def test_a_store_is_restored_where_there_was_none(
    url: str, tmp_path: Path, postgres_server: str, request: pytest.FixtureRequest
) -> None:
    file = back_up(url, tmp_path / "backup")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    if url.startswith("postgres"):
        context = databases.postgres_database(postgres_server)
        other = context.__enter__()
        request.addfinalizer(lambda: context.__exit__(None, None, None))
    assert restore_backup(other, file).jobs == 3
    assert on_engine(other, natural_contents) == on_engine(url, natural_contents)
    with LineageStore(other) as store:
        store.job((tmp_path / "base", "./job_2")).annotate(label=1)  # it can be written


@pytest.mark.slow
@in_one_piece
def test_the_daemon_says_since_when_a_restored_store_lacks_which_files_and_reads_them(
    url: str, base_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = back_up(url, tmp_path / "backup")
    then = on_engine(url, column, "SELECT discovered_at FROM v_base_dir")
    grown(base_dir)
    with LineageStore(url) as store:
        store.ingest(base_dir)
    restore_backup(url, file, replace=True)
    engine = open_engine(url)
    caplog.set_level(logging.INFO)
    for _ in range(2):
        follower = Follower(engine, base_dir, Settings())
        follower.tick()
        follower.close()
    assert column(engine, "SELECT count(*) FROM v_scalar") == [6]
    engine.dispose()
    (told,) = (record.__dict__ for record in caplog.records if record.message == "catching up")
    assert [datetime.fromisoformat(told["searched_at"])] == [_as_time(each) for each in then]
    assert (told["new_files"], told["grown_files"], told["missing_files"]) == (2, 1, 0)
    assert told["bytes"] > 0


def _as_time(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


@pytest.mark.slow
@in_one_piece
def test_nothing_is_replaced_under_an_ingester(url: str, tmp_path: Path) -> None:
    file = back_up(url, tmp_path / "backup")
    engine = open_engine(url)
    (number,) = column(engine, "SELECT id FROM base_dir")
    with hold_lease(engine, number, 60.0, mode="once"), pytest.raises(LeaseHeldError):
        restore_backup(url, file, replace=True)
    engine.dispose()
    restore_backup(url, file, replace=True)


@pytest.mark.slow
def test_a_partitioned_store_is_restored_into_a_new_database_only(
    postgres_server: str, postgres_template: str, base_dir: Path, tmp_path: Path
) -> None:
    databases.needs_databases(postgres_server)
    with (
        databases.postgres_database(postgres_server, template=postgres_template) as url,
        databases.postgres_database(postgres_server) as other,
    ):
        with LineageStore(url) as store:
            store.ingest(base_dir)
        if not BY_JOBS:
            on_engine(url, lay_out, 2)
        file = back_up(url, tmp_path / "backup")
        before = on_engine(url, natural_contents)
        with pytest.raises(LineageStoreError, match="is partitioned") as refused:
            restore_backup(url, file, replace=True)
        assert "restore FILE" in str(refused.value.hint)
        assert restore_backup(other, file).jobs == 3
        assert on_engine(other, natural_contents) == before


@pytest.mark.slow
def test_a_database_of_any_name_is_backed_up(postgres_server: str, base_dir: Path, tmp_path: Path) -> None:
    databases.needs_databases(postgres_server)
    with databases.postgres_database(postgres_server, named='our %s {} "jobs"') as url:
        with LineageStore(url) as store:
            store.ingest(base_dir)
        file = back_up(url, tmp_path / "backup")
        assert restore_backup(url, file, replace=True).jobs == 3


def test_a_distributed_store_is_not_replaced(postgres_server: str, base_dir: Path, tmp_path: Path) -> None:
    databases.needs_databases(postgres_server)
    with databases.postgres_database(postgres_server) as url:
        with LineageStore(url) as store:
            store.ingest(base_dir)
        file = back_up(url, tmp_path / "backup")
        before = on_engine(url, natural_contents)
        with distributed(url), pytest.raises(LineageStoreError, match="is distributed"):
            restore_backup(url, file, replace=True)
        assert on_engine(url, natural_contents) == before


def test_what_is_no_backup_is_refused_and_the_store_stays(url: str, tmp_path: Path) -> None:
    whole = back_up(url, tmp_path / "backup").read_bytes()
    before = on_engine(url, natural_contents)
    bad = tmp_path / "bad"
    for content in (b"", b"text\n" * 1000, whole[: len(whole) // 2]):
        bad.write_bytes(content)
        with pytest.raises((LineageStoreError, DatabaseUnavailableError)):
            restore_backup(url, bad, replace=True)
    with pytest.raises(LineageStoreError, match="no file"):
        restore_backup(url, tmp_path / "none", replace=True)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises((NotAStoreError, LineageStoreError)):
        restore_backup(url, tmp_path / "other.db", replace=True)
    assert on_engine(url, natural_contents) == before
    assert not list(tmp_path.glob(".*")), "nothing is left behind"


@in_one_piece
@pytest.mark.parametrize("beginning", [b"SQLite format 3\0", b"PGDMP", b""])
def test_what_begins_as_no_backup_of_this_kind_is_told_by_its_name(
    url: str, tmp_path: Path, beginning: bytes
) -> None:
    if beginning == (b"PGDMP" if url.startswith("postgres") else b"SQLite format 3\0"):
        pytest.skip("it begins as one")
    other = tmp_path / "other"
    other.write_bytes(beginning + bytes(5000))
    with pytest.raises(
        LineageStoreError, match=f"{other} is no backup of a (SQLite|PostgreSQL) store"
    ) as refused:
        restore_backup(url, other, replace=True)
    assert "the same kind of database" in str(refused.value.hint)


def test_a_damaged_file_and_the_store_of_others_are_told_by_their_name(
    sqlite_url: str, base_dir: Path, tmp_path: Path
) -> None:
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
    bad, other = tmp_path / "bad", tmp_path / "other.db"
    bad.write_bytes(back_up(sqlite_url, tmp_path / "backup").read_bytes()[:20_000])
    with pytest.raises(LineageStoreError, match=f"from {bad}: .*malformed") as refused:
        restore_backup(sqlite_url, bad, replace=True)
    assert refused.value.hint == "It is damaged: use an older backup."
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    with pytest.raises(LineageStoreError, match=f"{other} is no backup of a store"):
        restore_backup(sqlite_url, other, replace=True)


@in_one_piece
def test_the_backup_of_a_newer_release_is_refused_and_the_store_stays(url: str, tmp_path: Path) -> None:
    newer = "UPDATE lineage_store_version SET version_num = '9999'"
    if url.startswith("postgres"):
        on_engine(url, execute, newer)
    file = back_up(url, tmp_path / "newer")
    if url.startswith("postgres"):
        on_engine(url, execute, newer.replace("9999", upgrade.HEAD))
    else:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(newer)
    before = on_engine(url, natural_contents)
    with pytest.raises(SchemaTooNewError, match=f"{file} has schema 9999"):
        restore_backup(url, file, replace=True)
    assert on_engine(url, natural_contents) == before


def execute(engine: Engine, statement: str) -> None:
    with writing(engine) as session:
        session.change(statement)


def test_what_is_no_regular_file_is_not_replaced(sqlite_url: str, base_dir: Path, tmp_path: Path) -> None:
    """Root could put a backup in the place of /dev/null."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        with pytest.raises(LineageStoreError, match="no regular file"):
            store.backup(fifo)
    assert fifo.is_fifo()


@pytest.mark.parametrize("mode", [0o440, 0o640])
def test_the_permissions_of_the_file_can_be_chosen(url: str, tmp_path: Path, mode: int) -> None:
    on_engine(url, lambda engine: backup(engine, tmp_path / "backup", mode=mode))
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == mode


def test_a_backup_that_fails_leaves_the_older_one(url: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(LineageStoreError, match="cannot be written"):
        on_engine(url, backup, tmp_path / "directory")
    with pytest.raises(LineageStoreError, match="cannot be written"):
        on_engine(url, backup, tmp_path / "nowhere" / "backup")


def test_a_sqlite_store_that_is_open_is_not_replaced(sqlite_url: str, base_dir: Path, tmp_path: Path) -> None:
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        file = tmp_path / "backup"
        store.backup(file)
        with pytest.raises(DatabaseUnavailableError, match="in use") as refused:
            restore_backup(sqlite_url, file, replace=True)
        assert refused.value.cause == "locked"
        with pytest.raises(LineageStoreError, match="store itself"):
            store.backup(Path(str(make_url(sqlite_url).database)))
        assert store.ingest(base_dir)
    restore_backup(sqlite_url, file, replace=True)


def test_a_sqlite_store_that_is_damaged_is_moved_away_first(
    sqlite_url: str, base_dir: Path, tmp_path: Path
) -> None:
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        store.backup(tmp_path / "backup")
    path = Path(str(make_url(sqlite_url).database))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (size - 100))
    with pytest.raises(LineageStoreError, match="cannot be read") as refused:
        restore_backup(sqlite_url, tmp_path / "backup", replace=True)
    assert "Move it out of the way" in str(refused.value.hint)
    path.unlink()
    assert restore_backup(sqlite_url, tmp_path / "backup").jobs == 3


_KILLED = """
import os, signal, sys
from pathlib import Path

steps_left = int(sys.argv[3])

def kill(event, arguments):
    global steps_left
    if event in ("sqlite3.connect", "os.rename", "os.chmod", "open"):
        steps_left -= 1
        if steps_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

from lineage_store.operations.backup import restore_backup
from lineage_store.store.schema import upgrade
sys.addaudithook(kill)
restore_backup(sys.argv[1], Path(sys.argv[2]), replace=True)
"""


@pytest.mark.slow
def test_a_restore_that_is_killed_leaves_the_store_as_it_was_or_as_it_is_to_be(
    sqlite_url: str, base_dir: Path, tmp_path: Path
) -> None:
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        store.backup(tmp_path / "backup")
    then = on_engine(sqlite_url, natural_contents)
    grown(base_dir)
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
    now = on_engine(sqlite_url, natural_contents)
    seen, steps = set(), 0
    while True:
        steps += max(3, steps // 8)
        command = [sys.executable, "-c", _KILLED, sqlite_url, str(tmp_path / "backup"), str(steps)]
        ended = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
        found = on_engine(sqlite_url, natural_contents)
        assert found in (now, then)
        seen.add(found == then)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert seen == {False, True}


@pytest.mark.parametrize("name", ["backup", "odd *.db"])
def test_what_a_killed_backup_has_left_goes_with_the_next(sqlite_url: str, tmp_path: Path, name: str) -> None:
    target = tmp_path / "backups" / name
    target.parent.mkdir()
    (target.parent / ".unfinished-another.host-1").mkdir()  # who may be at work
    killed = "import os, sys; from pathlib import Path\n"
    killed += "from lineage_store.output_files import replacing\n"
    killed += "with replacing(Path(sys.argv[1]), 0o600) as new:\n"
    killed += "    Path(f'{new.path}-journal').touch()\n    os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", killed, target], check=False).returncode == -signal.SIGKILL
    assert len(list(target.parent.rglob("*"))) == 4
    with LineageStore(sqlite_url) as store:
        store.backup(target)
    assert {path.name for path in target.parent.iterdir()} == {name, ".unfinished-another.host-1"}


def test_a_program_of_postgresql_dies_with_us(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pg_restore that goes on would replace the store when somebody works with it again."""
    (tmp_path / "pg_restore").write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo 'pg_restore (PostgreSQL) 99' && exit\n"
        f"echo $$ > '{tmp_path}/pid.new'; mv '{tmp_path}/pid.new' '{tmp_path}/pid'; exec sleep 1000\n"
    )
    (tmp_path / "pg_restore").chmod(0o700)
    run = "import sys; from lineage_store.store.database.db import open_engine\n"
    run += "from lineage_store.store.admin import client_programs\n"
    run += "client_programs.run_program(open_engine(sys.argv[1]), 'pg_restore', 'x')"
    path = f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"
    with subprocess.Popen(
        [sys.executable, "-c", run, postgres_url], env={**os.environ, "PATH": path}
    ) as ours:
        wait_until((tmp_path / "pid").exists)
        ours.kill()
    theirs = int((tmp_path / "pid").read_text())
    wait_until(lambda: lives_no_more(theirs))


def lives_no_more(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_no_secret_of_the_url_is_in_the_process_list(postgres_url: str, tmp_path: Path) -> None:
    secret = {"sslpassword": "s3cret of the key = 'x'"}
    url = make_url(postgres_url).update_query_dict(secret).set(password="s3cret").render_as_string(False)
    target = tmp_path / "backup"
    with (
        psycopg.connect(databases.plain(postgres_url)) as blocker,
        ThreadPoolExecutor(1) as pool,
    ):
        blocker.execute("LOCK TABLE base_dir")
        backing_up = pool.submit(on_engine, url, backup, target)
        waiting = SQL("SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'base_dir'::regclass")
        wait_until(lambda: blocker.execute(waiting).fetchone() or backing_up.done())
        dumps = [command for command in _command_lines() if "--format=custom" in command]
        commands = [command for command in dumps if str(make_url(url).database) in command]
        blocker.rollback()
        assert backing_up.result(60) > 0
    assert any("--dbname=" in command for command in commands)
    assert "s3cret" not in str(commands)


def _command_lines() -> list[str]:
    found = list[str]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_text(errors="replace").replace("\0", " "))
    return found


def test_a_secret_beside_a_service_is_refused_with_the_place_for_it(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    services.write_text("[ours]\napplication_name=of the service\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    of_a_service = make_url(postgres_url).update_query_dict({"service": "ours"})
    back_up(of_a_service.render_as_string(False), tmp_path / "backup")
    url = of_a_service.update_query_dict({"sslpassword": "s3cret"}).render_as_string(False)
    with pytest.raises(ConfigError, match="sslpassword") as refused:
        on_engine(url, backup, tmp_path / "other")
    assert "service file" in str(refused.value.hint)
    assert "s3cret" not in f"{refused.value} {refused.value.hint}"


def test_without_pg_dump_of_a_version_that_fits_it_says_what_to_install(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LineageStoreError, match="There is no pg_dump of PostgreSQL") as refused:
        on_engine(postgres_url, backup, tmp_path / "backup")
    assert "postgresql-client-" in str(refused.value.hint)
    old = tmp_path / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.1'\n")
    old.chmod(0o700)
    with pytest.raises(LineageStoreError, match=r"found .*pg_dump \(9\)"):
        on_engine(postgres_url, backup, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_rights_and_limits_of_roles_are_put_back_in_another_database(
    postgres_url: str, postgres_server: str, tmp_path: Path
) -> None:
    databases.needs_databases(postgres_server)
    names = [f"kept_{kind}_{os.getpid()}" for kind in ("ingest", "reader", "analyst")]
    ingest, reader, analyst = names
    with psycopg.connect(databases.plain(postgres_url), autocommit=True) as connection:
        for name in names:
            connection.execute(
                SQL("CREATE ROLE {} {}").format(Identifier(name), databases.login(postgres_url))
            )
    try:
        on_engine(postgres_url, grant_roles, Roles(ingest=ingest, readers=(reader,), analysts=(analyst,)))
        file = back_up(postgres_url, tmp_path / "backup")
        with databases.postgres_database(postgres_server) as other:
            rights = (f"{ingest} (ingest)", f"{reader} (reader)", f"{analyst} (analyst)")
            assert restore_backup(other, file) == RestoredStore(0, None, None, rights=rights)
            settings = (
                "SELECT rolname, setconfig FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = setrole"
                " JOIN pg_database d ON d.oid = setdatabase WHERE datname = current_database() ORDER BY 1"
            )
            limits = sorted(f"{name}={value}" for name, value in READING_LIMITS.items())
            found = on_engine(other, lambda engine: [tuple(row) for row in _rows(engine, settings)])
            assert [(name, sorted(values)) for name, values in found] == [(analyst, limits), (reader, limits)]
            may = "SELECT has_table_privilege(:role, :name, :what)"
            for role, name, what, expected in [
                (analyst, "v_job", "SELECT", True),
                (analyst, "base_dir", "SELECT", False),
                (reader, "base_dir", "SELECT", True),
                (reader, "base_dir", "INSERT", False),
                (ingest, "base_dir", "INSERT", True),
            ]:
                engine = open_engine(other)
                assert column(engine, may, role=role, name=name, what=what) == [expected]
                engine.dispose()
            with psycopg.connect(databases.plain(other)) as each:
                for name in names:
                    each.execute(f"DROP OWNED BY {name}")
    finally:
        with psycopg.connect(databases.plain(postgres_url), autocommit=True) as connection:
            for name in names:
                connection.execute(f"DROP OWNED BY {name}")
                connection.execute(f"DROP ROLE {name}")


@pytest.mark.slow
def test_where_a_plain_owner_restores_one_statement_is_left_to_a_superuser(
    postgres_url: str, postgres_server: str, tmp_path: Path
) -> None:
    databases.needs_databases(postgres_server)
    owner, reader = names = [f"plain_{kind}_{os.getpid()}" for kind in ("owner", "reader")]
    with connected(postgres_url) as connection:
        for name in names:
            connection.execute(f"CREATE ROLE {name} LOGIN")
    try:
        on_engine(postgres_url, grant_roles, Roles(owner=owner, readers=(reader,)))
        file = back_up(postgres_url, tmp_path / "backup")
        with databases.postgres_database(postgres_server) as other:
            with connected(other) as connection:
                connection.execute(f"ALTER DATABASE {make_url(other).database} OWNER TO {owner}")
            left = restore_backup(make_url(other).set(username=owner).render_as_string(False), file).left
            assert left is not None
            with connected(other) as connection:
                temporary = "SELECT has_database_privilege(%s, current_database(), 'TEMPORARY')"
                assert connection.execute(temporary, [reader]).fetchone() == (False,)
                connection.execute(left)
                for name in names:
                    connection.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER")
                    connection.execute(f"DROP OWNED BY {name}")
    finally:
        with connected(postgres_url) as connection:
            for name in names:
                connection.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER")
                connection.execute(f"DROP OWNED BY {name}")
                connection.execute(f"DROP ROLE {name}")


def connected(url: str) -> psycopg.Connection[Any]:
    """As the superuser of the tests."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)


def _rows(engine: Any, query: str) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.exec_driver_sql(query))
