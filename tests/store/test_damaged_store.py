"""A SQLite file that is damaged or cut off is named as that, wherever it is met, with the way to go on."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.cli.app import main
from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError, MindInsightException, NotAStoreError
from lineage_store.findings import Finding
from lineage_store.operations import doctor
from lineage_store.operations.backup import restore_backup

PAGE = 4096


@pytest.fixture
def path(sqlite_url: str, tmp_path: Path) -> Path:
    """A store with some pages, closed."""
    for number in range(3):
        log = Log().version()
        for step in range(2_000):
            log.scalar(step, f"loss_{step % 20}", float(step))
        log.write_summary(tmp_path / "base" / f"job_{number}")
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
        store.job((tmp_path / "base", "./job_1")).annotate(remark="ours")
    found = Path(str(make_url(sqlite_url).database))
    with closing(sqlite3.connect(found)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        assert connection.execute("PRAGMA page_size").fetchone() == (PAGE,)
    assert found.stat().st_size > 40 * PAGE
    return found


def overwritten(path: Path, at: int, what: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(what)


def page_of(path: Path, name: str, nth: int = 0) -> int:
    """The position of a page of a table or an index: its root, or a later one."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    return (int(root) - 1 + nth) * PAGE


def cut(share: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


_NOISE = bytes(range(256)) * 16
DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut in the middle": cut(0.5),
    "cut at the end": cut(0.97),
    "cut within the first page": lambda path: os.truncate(path, 1000),
    "a header of zeros": lambda path: overwritten(path, 0, b"\0" * 100),
    "the first page of zeros": lambda path: overwritten(path, 0, b"\0" * PAGE),
    "a header with an impossible page size": lambda path: overwritten(path, 16, b"\x03\x03"),
    "a header of noise": lambda path: overwritten(path, 0, _NOISE[:100]),
    "noise in a table": lambda path: overwritten(path, page_of(path, "scalar_sample"), _NOISE),
    "zeros in a table": lambda path: overwritten(path, page_of(path, "train_job"), b"\0" * PAGE),
    "noise in an index": lambda path: overwritten(path, page_of(path, "ix_train_job_state"), _NOISE),
    "a row that its index does not know": lambda path: _unindexed(path),
    "noise in every page but the first": lambda path: overwritten(
        path, PAGE, _NOISE * (path.stat().st_size // PAGE - 1)
    ),
}


def _unindexed(path: Path) -> None:
    """Change a state in the pages of the table only."""
    at = page_of(path, "train_job")
    page = path.read_bytes()[at : at + PAGE]
    assert b"./job_1" in page
    overwritten(path, at, page.replace(b"./job_1", b"./job_7"))


def doctors(url: str) -> list[Finding]:
    return [each for each in doctor.examine(url, Settings(), []) if each.is_wrong]


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_by_doctor_and_named_by_every_verb(
    sqlite_url: str, path: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[name](path)
    (found,) = doctors(sqlite_url)
    assert found.kind == "database_damaged"
    assert "backup" in found.remedy
    assert "log files are read again" in found.remedy
    for verb in (
        ["jobs"],
        ["status", "--check"],
        ["scalars", "./job_1", "loss_3"],
        ["sql", "SELECT count(*), sum(value) FROM scalar_sample"],
        ["sql", "SELECT state, count(*) FROM train_job INDEXED BY ix_train_job_state GROUP BY 1"],
        ["verify"],
        ["problems"],
        ["metrics"],
        ["ingest", str(tmp_path / "base")],
        ["backup", str(tmp_path / "backup")],
        ["db", "check"],
        ["db", "upgrade"],
        ["export", "v_scalar", "--to", str(tmp_path / "export")],
    ):
        main(["--database", sqlite_url, *verb])
        said = f"{verb}: {capsys.readouterr()}"
        assert "Unexpected" not in said
        assert "please report" not in said


def test_what_is_damaged_is_an_error_with_its_cause_in_the_api(sqlite_url: str, path: Path) -> None:
    DAMAGES["noise in every page but the first"](path)
    with pytest.raises(DatabaseUnavailableError) as caught, LineageStore(sqlite_url) as store:
        store.jobs()
    assert caught.value.cause == "damaged"
    assert "restore" in str(caught.value.hint)


def test_the_way_to_go_on_leads_to_a_whole_store(sqlite_url: str, path: Path, tmp_path: Path) -> None:
    with LineageStore(sqlite_url) as store:
        store.backup(tmp_path / "backup")
    DAMAGES["zeros in a table"](path)
    query = "SELECT path, train_id, tag, remark FROM annotation JOIN base_dir ON id = base_dir_id"
    with LineageStore(sqlite_url) as store, store.sql(query) as answer:
        assert [row[1:] for row in answer.rows] == [("./job_1", None, "ours")]
    path.rename(tmp_path / "damaged")
    with suppress(FileNotFoundError):
        path.with_name(f"{path.name}-wal").unlink()
        path.with_name(f"{path.name}-shm").unlink()
    assert restore_backup(sqlite_url, tmp_path / "backup").jobs == 3
    assert doctors(sqlite_url) == []


def test_a_damaged_backup_is_refused_whatever_is_damaged(sqlite_url: str, path: Path, tmp_path: Path) -> None:
    with LineageStore(sqlite_url) as store:
        store.backup(tmp_path / "backup")
    whole = (tmp_path / "backup").read_bytes()
    for name, damage in DAMAGES.items():
        (tmp_path / "backup").write_bytes(whole)
        damage(tmp_path / "backup")
        with pytest.raises(MindInsightException):
            restore_backup(f"sqlite:///{tmp_path}/new.db", tmp_path / "backup")
        assert not (tmp_path / "new.db").exists(), name


def test_a_check_that_takes_too_long_is_told_and_ended(
    sqlite_url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "CHECKED_WITHIN_S", 0.0)
    found = list(doctor.examine(sqlite_url, Settings(), []))
    (unchecked,) = [each for each in found if each.kind == "unchecked_store"]
    assert not unchecked.is_wrong
    assert "lineage-store backup" in unchecked.remedy


def test_an_empty_file_is_told_where_a_store_may_have_been(sqlite_url: str, path: Path) -> None:
    os.truncate(path, 0)
    (found,) = [each for each in doctor.examine(sqlite_url, Settings(), []) if each.kind == "empty_store"]
    assert "cut off" in found.what
    with pytest.raises(MindInsightException, match="no lineage store"):
        LineageStore(sqlite_url, create=False)


def test_a_file_of_another_program_is_no_damaged_store(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("text of another program " * 1000)
    with pytest.raises(NotAStoreError, match="file of another kind"):
        LineageStore(f"sqlite:///{other}")
