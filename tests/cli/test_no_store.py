"""A path without a store: verbs that read say so, and create none."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.program import Run
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError, SchemaTooOldError

NEEDS_A_STORE = [
    "annotate ./run --label 1",
    "backup backup.db",
    "compare ./run ./other",
    "db check",
    "db grant --analyst reader",
    "db upgrade",
    "evaluations ./run",
    "filter",
    "filter .",
    "forget . --yes",
    "move . ..",
    "gc --missing --dry-run",
    "histograms ./run weights --to files",
    "images ./run input --to files",
    "jobs",
    "problems",
    "reingest ./run",
    "retry",
    "scalars ./run loss",
    "serve",
    "show ./run",
    "sql VALUES(1)",
    "status",
    "status --check",
    "tags ./run",
    "verify",
    "why .",
]


@pytest.mark.parametrize("line", NEEDS_A_STORE)
def test_a_mistyped_path_is_told_and_stays_empty(run: Run, tmp_path: Path, line: str) -> None:
    refused = run("--database", f"sqlite:///{tmp_path}/stoer.db", *line.split())
    assert refused.code == 5
    assert f"There is no lineage store at sqlite:///{tmp_path}/stoer.db." in refused.out + refused.err
    assert "`lineage-store init` makes a store there" in refused.out + refused.err
    assert not list(tmp_path.glob("*.db*"))


WITHOUT_CONTENT = pytest.mark.parametrize("content", [b"", b"x"], ids=["empty", "a byte"])


@WITHOUT_CONTENT
@pytest.mark.parametrize("line", NEEDS_A_STORE)
def test_a_file_without_content_stays_as_it_is(run: Run, tmp_path: Path, line: str, content: bytes) -> None:
    file = tmp_path / "z.db"
    file.write_bytes(content)
    refused = run("--database", f"sqlite:///{file}", *line.split())
    assert refused.code == 4
    assert f"There is no lineage store at sqlite:///{file}." in refused.out + refused.err
    assert [(path.name, path.read_bytes()) for path in tmp_path.glob("*.db*")] == [("z.db", content)]


@WITHOUT_CONTENT
def test_a_file_without_content_becomes_a_store_by_init_alone(
    run: Run, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "z.db"
    file.write_bytes(content)
    assert "There is no store there yet" in run("--database", f"sqlite:///{file}", "doctor").out
    assert [(path.name, path.read_bytes()) for path in tmp_path.glob("*.db*")] == [("z.db", content)]
    assert run("--database", f"sqlite:///{file}", "init").code == 0
    assert run("--database", f"sqlite:///{file}", "jobs").code == 0


def test_a_directory_that_is_missing_is_named(run: Run, tmp_path: Path) -> None:
    refused = run("--database", f"sqlite:///{tmp_path}/none/store.db", "jobs")
    assert refused.code == 5
    assert f"the directory {tmp_path}/none does not exist, or is not mounted" in refused.err


def test_an_empty_database_stays_empty(run: Run, empty_postgres_url: str) -> None:
    for _ in range(2):
        refused = run("--database", empty_postgres_url, "jobs")
        assert refused.code == 4
        assert "There is no lineage store at postgresql" in refused.err


def test_the_default_store_is_made_by_ingest_alone(
    run: Run, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LINEAGE_STORE_DATABASE_URL", raising=False)
    assert run("jobs").code == 5
    assert run("ingest", base_dir).code == 0
    assert "./good" in run("jobs").out


def test_init_makes_a_store(run: Run, tmp_path: Path) -> None:
    to_it = ("--database", f"sqlite:///{tmp_path}/store.db")
    assert run(*to_it, "init").code == 0
    assert run(*to_it, "jobs").code == 0


def test_the_api_makes_a_store_unless_told_not_to(empty_database_url: str) -> None:
    with pytest.raises((DatabaseUnavailableError, SchemaTooOldError)):
        LineageStore(empty_database_url, settings=Settings(), create=False)
    LineageStore(empty_database_url, settings=Settings()).close()
    LineageStore(empty_database_url, settings=Settings(), create=False).close()
