"""The verbs `backup`, `restore` and `db copy`, as an operator uses them."""

from __future__ import annotations

from pathlib import Path

from helpers.ingesting import column
from helpers.log_writer import Log
from helpers.program import Run
from lineage_store.store.database.db import open_engine


def test_a_store_is_backed_up_and_restored_and_says_since_when_it_reads_again(
    run: Run, stored: Path, tmp_path: Path
) -> None:
    assert run("annotate", "./good", "--label", 2).code == 0
    saved = run("backup", "kept.db")
    assert (saved.code, saved.err) == (0, "")
    assert saved.out == f"kept.db: {(tmp_path / 'kept.db').stat().st_size:,} bytes.\n"
    Log().version().scalar(1, "loss", 1.0).write_summary(stored / "new")
    run("ingest", stored)
    run("annotate", "./good", "--label", 5)
    refused = run("restore", "kept.db")
    assert refused.code == 1
    assert "has contents" in refused.err
    assert "--replace" in refused.err
    restored = run("restore", "kept.db", "--replace")
    assert restored.code == 0
    assert "holds 2 jobs again.\nWhat log files have gained since 20" in restored.out
    assert "3 jobs" in run("ingest", stored).out


def test_a_store_is_copied_into_another_database(
    run: Run, stored: Path, on_sqlite: str, empty_postgres_url: str, tmp_path: Path
) -> None:
    copied = run("db", "copy", on_sqlite, empty_postgres_url)
    assert copied.code == 0
    assert copied.out.startswith("Copied and compared: ")
    assert "scalar_sample: 4 rows." in copied.err
    again = run("-q", "db", "copy", empty_postgres_url, f"sqlite:///{tmp_path}/back.db")
    assert (again.out, again.code) == (copied.out, 0)
    engine = open_engine(f"sqlite:///{tmp_path}/back.db")
    assert column(engine, "SELECT count(*) FROM v_job") == [2]
    engine.dispose()
    assert run("-q", "db", "copy", on_sqlite, empty_postgres_url).out == copied.out
    run("annotate", "./good", "--label", 2)
    refused = run("db", "copy", on_sqlite, empty_postgres_url)
    assert refused.code == 1
    assert "not empty" in refused.err
