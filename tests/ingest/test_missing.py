"""Rows of vanished files stay and are marked; files that cannot be seen do not count as vanished."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.base_dirs import path_meant
from helpers.ingesting import column, ingest, open_problems, rows, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.ingest import pipeline
from lineage_store.ingest.scan import survey
from lineage_store.ingest.scan.discovery import FoundFiles
from lineage_store.store.database.db import open_engine

LOG = Log().version().scalar(1, "loss", 0.5)
FILE = "events.out.events.summary.1700000000.0.host_MS"


def states(engine: Engine) -> dict[str, str]:
    return dict(tuple(row) for row in rows(engine, "SELECT train_id, state FROM train_job"))


def test_a_missing_file_keeps_its_rows_and_is_marked(engine: Engine, base_dir: Path) -> None:
    path = LOG.write_summary(base_dir / "job")
    Log().train(network="N").write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    path.unlink()
    ingest(engine, base_dir)
    assert visible_scalars(engine) == {1: 0.5}
    assert column(engine, "SELECT state FROM log_file ORDER BY kind") == ["open", "missing"]
    assert open_problems(engine) == [("missing_file", f"job/{FILE}")]
    assert states(engine) == {"./job": "finished"}  # the end of its training was recorded


def test_a_missing_job_keeps_its_rows_and_is_marked(engine: Engine, base_dir: Path) -> None:
    LOG.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    shutil.rmtree(base_dir / "job")
    ingest(engine, base_dir)
    assert rows(engine, "SELECT state, source_present FROM train_job") == [("missing", False)]
    assert visible_scalars(engine) == {1: 0.5}


def test_what_reappears_is_as_it_was(engine: Engine, base_dir: Path, tmp_path: Path) -> None:
    LOG.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    (base_dir / "job").rename(tmp_path / "away")
    ingest(engine, base_dir)
    (tmp_path / "away").rename(base_dir / "job")
    report = ingest(engine, base_dir)
    assert report.counts.events == 0
    assert open_problems(engine) == []
    assert rows(engine, "SELECT state, generation FROM log_file") == [("open", 1)]
    assert states(engine) == {"./job": "live"}


def test_a_file_that_grew_while_it_was_away_goes_on_at_its_bookmark(engine: Engine, base_dir: Path) -> None:
    path = LOG.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    path.unlink()
    ingest(engine, base_dir)
    Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25).write(path)
    assert ingest(engine, base_dir).counts.events == 1
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}


def test_an_unmounted_base_dir_keeps_everything_and_says_so(
    engine: Engine, base_dir: Path, tmp_path: Path
) -> None:
    LOG.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    base_dir.rename(tmp_path / "unmounted")
    with pytest.raises(LineageParamSummaryPathError, match="cannot be listed: No such file"):
        ingest(engine, base_dir)
    assert states(engine) == {"./job": "live"}
    assert visible_scalars(engine) == {1: 0.5}


def test_a_job_deleted_in_mid_pass_costs_only_itself(engine: Engine, base_dir: Path) -> None:
    for name in ("a", "b", "c", "d"):
        LOG.write_summary(base_dir / name)
    settings = Settings(batch_files=1)
    pipeline.ingest(  # when "a" is committed, "b" is being read
        engine, base_dir, settings, progress=lambda _: shutil.rmtree(base_dir / "c", ignore_errors=True)
    )
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [3]
    ingest(engine, base_dir)
    assert states(engine)["./c"] == "missing"
    assert states(engine)["./d"] == "live"


def test_a_file_that_could_not_be_looked_at_is_not_missing() -> None:
    denied = PermissionError(13, "Permission denied")
    found = FoundFiles(unreadable={"./a/b": denied, "./c/file": denied})
    hidden = [("./a/b", "f"), ("./a/b/c", "f"), ("./c", "file")]
    seen = [("./a", "f"), ("./a/bc", "f"), ("./c", "f"), ("./", "f"), ("./c/file2", "f")]
    assert [found.hides(*place) for place in hidden] == [True] * 3
    assert [found.hides(*place) for place in seen] == [False] * 5


INGEST_AS_NOBODY = """
import os, sys
from pathlib import Path
from lineage_store.config import Settings
from lineage_store.ingest import refresh
from lineage_store.store.database.db import open_engine
import sqlalchemy.dialects.sqlite, pwd, grp
engine = open_engine(sys.argv[1])
os.setgid(65534); os.setuid(65534)
print(refresh.ingest(engine, Path(sys.argv[2]), Settings()).problems)
"""


@pytest.fixture
def place_of_nobody() -> Iterator[Path]:
    """A directory of a user who is bound by modes; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as place:
        os.chown(place, 65534, 65534)
        yield Path(place)


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0, reason="modes bind everyone but root, and only root can become someone"
)
def test_what_is_unreadable_is_a_problem_with_a_remedy_and_is_not_missing(
    place_of_nobody: Path, sqlite_template: Path
) -> None:
    base_dir, store = place_of_nobody / "base", place_of_nobody / "store.sqlite3"
    shutil.copy(sqlite_template, store)
    os.chown(store, 65534, 65534)
    LOG.write_summary(base_dir / "job")
    file = LOG.write_summary(base_dir / "other")
    url = f"sqlite:///{store}"

    def problems() -> int:
        command = [sys.executable, "-c", INGEST_AS_NOBODY, url, str(base_dir)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return int(ran.stdout)

    assert problems() == 0
    (base_dir / "job").chmod(0o700)
    file.chmod(0o600)
    assert problems() == 2
    engine = open_engine(url)
    of_file, of_directory = rows(engine, "SELECT * FROM ingest_problem ORDER BY kind")
    assert (of_directory.kind, of_directory.path) == ("unreadable_path", "job")
    assert "owner root" in of_directory.reason
    assert "mode drwx------ (0700)" in of_directory.reason
    assert "Run the daemon as the training user" in of_directory.remedy
    assert (of_file.kind, of_file.path) == ("unreadable_file", f"other/{FILE}")
    assert "mode -rw------- (0600)" in of_file.reason
    assert column(engine, "SELECT state FROM log_file ORDER BY job_id") == ["open", "unreadable"]
    (base_dir / "job").chmod(0o755)
    file.chmod(0o644)
    assert problems() == 0
    assert column(engine, "SELECT state FROM log_file ORDER BY job_id") == ["open", "open"]
    engine.dispose()


def test_a_directory_that_goes_while_it_is_scanned_is_no_problem(
    base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LOG.write_summary(base_dir / "a")
    LOG.write_summary(base_dir / "b")
    scandir = os.scandir

    def scan_and_delete(of: int) -> object:
        if (path := path_meant(of)).endswith("/b"):
            Path(path, FILE).unlink()
            Path(path).rmdir()
        return scandir(of)

    monkeypatch.setattr(os, "scandir", scan_and_delete)
    found = survey.find_files(base_dir, Settings())
    assert [file.train_id for file in found.files] == ["./a"]
    assert found.unreadable == {}
