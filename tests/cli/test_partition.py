"""`db partition`, and what `db check` and `doctor` report of a store that is partitioned or distributed."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from helpers.databases import DISTRIBUTED, needs_databases, plain
from helpers.fake_citus import distributed
from helpers.program import Run
from lineage_store.store.schema.upgrade import upgrade


def test_the_verbs_partition_check_and_undo(
    empty_postgres_url: str, run: Run, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", empty_postgres_url)
    upgrade(empty_postgres_url)
    assert run("ingest", base_dir).code == 0
    assert run("db", "partition", "--by-jobs", 3).out == "Samples are in 2 partitions of 3 jobs.\n"
    assert run("db", "check").out.splitlines()[1] == "Samples are in 2 partitions of 3 jobs."
    assert "Samples are in 2 partitions" in run("doctor").out
    assert run("db", "partition", "--by-jobs", 3).out.startswith("Nothing to do.")
    assert run("db", "partition", "--undo").out == "Samples have no partitions.\n"
    assert run("db", "partition").code == run("db", "partition", "--undo", "--by-jobs", 3).code == 2


def test_sqlite_is_refused(on_sqlite: str, run: Run) -> None:
    refused = run("db", "partition", "--by-jobs", 3)
    assert (refused.code, refused.err.splitlines()[0]) == (1, "Error: Only PostgreSQL has partitions.")


@pytest.mark.skipif(bool(DISTRIBUTED), reason="this one has Citus")
def test_a_store_without_citus_is_not_distributed(on_each: str, run: Run) -> None:
    for flags in (["--samples"], ["--samples", "--dry-run"]):
        refused = run("db", "distribute", *flags)
        assert (refused.code, refused.out) == (1, "")
        assert "docs/citus.md" in refused.err
    assert run("db", "distribute").code == run("db", "distribute", "--all").code == 2


def test_check_and_doctor_show_how_a_store_is_distributed(
    postgres_server: str, postgres_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = "scalar_sample, payload_sample are distributed by job, 4 shards each, over 2 workers."
    needs_databases(postgres_server)
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", postgres_url)
    with distributed(postgres_url):
        assert run("db", "check").out.endswith(f"{layout}\n")
        looked = run("doctor")
        assert layout in looked.out
        assert "max_prepared_transactions is 0 on the coordinator" in looked.out
        assert "local_table_join_policy" not in looked.out
        refused = run("db", "partition", "--by-jobs", 3)
        assert (refused.code, "docs/citus.md" in refused.err) == (1, True)
        assert run("db", "partition", "--undo").out.startswith("Nothing to do.")
        with psycopg.connect(plain(postgres_url), autocommit=True) as connection:
            name = make_url(postgres_url).database
            connection.execute(f"ALTER DATABASE {name} SET citus.local_table_join_policy = 'never'")
        assert "citus.local_table_join_policy is never on the coordinator" in run("doctor").out
