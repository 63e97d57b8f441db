"""The findings of the doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.finding_kinds import Severity
from lineage_store.findings import THE_STORE, Finding
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.lease import register as register_base_dir
from lineage_store.operations.doctor import examine


def findings(url: str, *base_dirs: Path, settings: Settings | None = None) -> list[Finding]:
    return list(examine(url, settings or Settings(), base_dirs))


def kinds(found: list[Finding], subject: object) -> list[str]:
    return [finding.kind for finding in found if finding.subject == str(subject)]


def noted(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.severity is Severity.NOTE]


def test_a_healthy_store_has_no_complaints(database_url: str, tmp_path: Path) -> None:
    Log().version().write_summary(tmp_path / "base" / "run")
    with LineageStore(database_url) as store:
        store.ingest(tmp_path / "base")
    found = findings(database_url)
    assert {finding.severity for finding in found} == {Severity.OK}
    assert any(
        "No ingester holds its lease" in finding.what
        for finding in found
        if finding.subject == str(tmp_path / "base")
    )


def test_no_store_yet_is_fine_and_none_is_made(empty_sqlite_url: str, tmp_path: Path) -> None:
    assert {finding.severity for finding in findings(empty_sqlite_url)} == {Severity.OK}
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_down_is_a_finding() -> None:
    found = findings("postgresql://me:secret@127.0.0.1:1/db")
    assert kinds(found, THE_STORE)[-1] == "database_down"
    assert "secret" not in str(found)


def test_a_base_dir_that_is_not_there(sqlite_url: str, tmp_path: Path) -> None:
    (finding,) = [item for item in findings(sqlite_url, tmp_path / "none") if item.is_wrong]
    assert finding.kind == "unlistable_base_dir"
    assert "No such file" in finding.what
    assert "mounted" in finding.remedy


def test_a_sqlite_that_is_too_old_is_a_finding_of_the_store(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr("sqlite3.sqlite_version", "3.34.1")
    (finding,) = [each for each in findings(sqlite_url) if each.is_wrong]
    assert finding.what == "It cannot be used: This Python has SQLite 3.34.1; 3.35 or newer is needed."
    assert finding.remedy == "Use a Python with a newer SQLite, or PostgreSQL."


def test_log_files_that_lie_too_deep(sqlite_url: str, tmp_path: Path) -> None:
    Log().version().write_summary(tmp_path / "base" / "team" / "run")
    base_dir = tmp_path / "base"
    assert "deeper_log_files" in kinds(findings(sqlite_url, base_dir), base_dir)
    assert noted(findings(sqlite_url, base_dir, settings=Settings(recursive=True))) == []


def test_deeper_log_files_are_told_beside_jobs_that_ingest_finds(sqlite_url: str, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    Log().version().write_summary(base_dir / "run")
    Log().version().write_summary(base_dir / "run" / "again")
    (finding,) = noted(findings(sqlite_url, base_dir))
    assert "such as in run/again" in finding.what
    assert "recursive = true" in finding.remedy
    everywhere = findings(sqlite_url, base_dir, settings=Settings(recursive=True))
    assert noted(everywhere) == []


def test_one_jobs_directory_is_told_from_a_base_dir(sqlite_url: str, tmp_path: Path) -> None:
    Log().version().write_summary(tmp_path / "base" / "run")
    (finding,) = noted(findings(sqlite_url, tmp_path / "base" / "run"))
    assert "one job's directory" in finding.what
    assert f"Ingest {tmp_path / 'base'};" in finding.remedy
    assert noted(findings(sqlite_url, tmp_path / "base")) == []


def test_a_base_dir_that_anybody_may_write_to(sqlite_url: str, tmp_path: Path) -> None:
    Log().version().write_summary(tmp_path / "base" / "run")
    (tmp_path / "base").chmod(0o777)
    assert "open_to_everybody" in kinds(findings(sqlite_url, tmp_path / "base"), tmp_path / "base")


def test_who_leads_is_told(sqlite_url: str, tmp_path: Path) -> None:
    Log().version().write_summary(tmp_path / "base" / "run")
    with (
        LineageStore(sqlite_url) as store,
        hold_lease(
            store.engine, register_base_dir(store.engine, tmp_path / "base"), 60, mode="daemon"
        ) as lease,
    ):
        found = findings(sqlite_url)
    assert any(finding.what == f"{lease.holder} holds its lease." for finding in found)


@pytest.mark.parametrize("settings", [Settings(base_dirs=("/does/not/exist",))])
def test_the_base_dirs_of_the_settings_are_looked_at(sqlite_url: str, settings: Settings) -> None:
    assert kinds(findings(sqlite_url, settings=settings), "/does/not/exist")[0] == "unlistable_base_dir"


def test_a_link_that_leads_to_itself_is_no_matter_of_rights(sqlite_url: str, tmp_path: Path) -> None:
    Log().version().write_summary(tmp_path / "base" / "run")
    (tmp_path / "base" / "circle").symlink_to("circle")
    found = findings(sqlite_url, tmp_path / "base", settings=Settings(follow_symlinks=True))
    (told,) = [each for each in found if each.kind == "unreadable_path"]
    assert "circle is a symbolic link" in told.what
    assert told.remedy.startswith("Links that stay inside the base dir")
