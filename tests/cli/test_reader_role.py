"""Every verb that only asks, run as the roles that may only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy.engine import make_url

from helpers.databases import login, plain
from helpers.program import Run
from lineage_store import LineageStore
from lineage_store.config import Settings

ROLES = ("verbs_reader", "verbs_analyst")
ASKING = [
    ["status"],
    ["status", "--cycles", "2"],
    ["jobs"],
    ["show", "./good"],
    ["filter"],
    ["filter", "--where", "metric/accuracy>0.6"],
    ["filter", "--explain"],
    ["filter", "BASE_DIR"],
    ["filter", "BASE_DIR", "--refresh"],
    ["sql", "SELECT count(*) FROM v_job"],
    ["scalars", "./good", "loss"],
    ["tags", "./good"],
    ["evaluations", "./good"],
    ["compare", "./good", "./poor"],
    ["why", "BASE_DIR"],
    ["why", "BASE_DIR/good"],
    ["problems"],
    ["verify"],
    ["gc", "--removed"],
    ["gc", "--older-than", "1d", "--dry-run"],
    ["ingest", "--dry-run", "BASE_DIR"],
    ["doctor"],
    ["db", "current"],
    ["db", "check"],
]


@pytest.fixture
def asked(
    postgres_url: str, base_dir: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The URL of a store with two jobs, by role."""
    reader, analyst = ROLES
    with LineageStore(postgres_url, settings=Settings()) as store:
        store.ingest(base_dir)
    with psycopg.connect(plain(postgres_url), autocommit=True) as admin:
        for role in ROLES:
            admin.execute(SQL("CREATE ROLE {} {}").format(Identifier(role), login(postgres_url)))
        try:
            monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", postgres_url)
            assert run("db", "grant", "--reader", reader, "--analyst", analyst).code == 0
            yield {
                role: make_url(postgres_url).set(username=role).render_as_string(hide_password=False)
                for role in ROLES
            }
        finally:
            for role in ROLES:
                admin.execute(f"DROP OWNED BY {role}")
                admin.execute(f"DROP ROLE {role}")


@pytest.mark.slow
def test_a_reader_uses_every_verb_that_only_asks(
    asked: dict[str, str], base_dir: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", asked["verbs_reader"])
    outcomes = {}
    for words in ASKING:
        done = run(*(word.replace("BASE_DIR", str(base_dir)) for word in words))
        outcomes[" ".join(words)] = (done.code, done.err if done.code else "")
    assert outcomes == dict.fromkeys(map(" ".join, ASKING), (0, ""))


@pytest.mark.parametrize(
    ("role", "words", "refused", "grants"),
    [
        ("verbs_analyst", ["filter"], "permission denied", "db grant --reader ROLE"),
        ("verbs_reader", ["annotate", "./good", "--label", "3"], "permission denied", "--ingest ROLE"),
        ("verbs_reader", ["db", "grant", "--analyst", "verbs_analyst"], "another role", "A superuser grants"),
    ],
)
def test_who_lacks_a_right_is_told_who_grants_it(
    asked: dict[str, str],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    words: list[str],
    refused: str,
    grants: str,
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", asked[role])
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=off")
    done = run(*words)
    assert done.code == 1, done.err
    assert refused in done.err
    assert grants in done.err
