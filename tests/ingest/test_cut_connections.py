"""Connections to PostgreSQL that break at any byte, also in the answer to COMMIT, and servers that do not answer."""

from __future__ import annotations

import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from helpers.cut_proxy import TO_CLIENT, TO_SERVER, cut_proxy
from helpers.ingesting import column, ingest, ledger_is_closed, let_leases_expire
from helpers.log_writer import GrowingFile, Log
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.database import connections
from lineage_store.store.database.db import open_engine, reading

CUTS, STEPS_A_CUT = 14, 40


@pytest.fixture
def short_path() -> Iterator[Path]:
    """The path of a socket may not be long."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def test_a_connection_that_breaks_anywhere_loses_nothing_and_repeats_nothing(
    postgres_engine: Engine, postgres_url: str, base_dir: Path, short_path: Path
) -> None:
    chance, log, failures = random.Random(6), Log(), 0
    file = GrowingFile(base_dir / "job" / "events.out.events.summary.1700000000.0.host_MS", b"")
    with cut_proxy(postgres_url, short_path) as proxy:
        for number in range(CUTS):
            for step in range(number * STEPS_A_CUT, (number + 1) * STEPS_A_CUT):
                log.scalar(step, "loss", step / 7)
            file.content = log.content
            file.reveal_all()
            through = open_engine(proxy.url)
            try:
                ingest(through, base_dir, batch_rows=5, chunk_bytes=512)
            except DatabaseUnavailableError:
                failures += 1
            through.dispose()
            let_leases_expire(postgres_engine)
            if number == 0:
                whole = dict(proxy.passed)
            direction = (TO_SERVER, TO_CLIENT)[number % 2]
            proxy.cut_after(direction, chance.randrange(whole[direction]))
    ingest(postgres_engine, base_dir)
    steps = CUTS * STEPS_A_CUT
    assert failures > CUTS / 2
    assert column(postgres_engine, "SELECT value FROM scalar_sample ORDER BY step") == [
        pytest.approx(step / 7) for step in range(steps)
    ]
    assert column(postgres_engine, "SELECT event_count FROM log_file") == [steps]
    assert column(postgres_engine, "SELECT sample_count FROM series") == [steps]
    assert ledger_is_closed(postgres_engine)


def test_a_server_that_accepts_and_does_not_answer_is_down(
    postgres_url: str, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.CONNECTING, "connect_timeout", 2)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(short_path / ".s.PGSQL.5432"))
        silent.listen()
        url = make_url(postgres_url).update_query_dict({"host": str(short_path)})
        engine = open_engine(url.render_as_string(hide_password=False))
        with pytest.raises(DatabaseUnavailableError) as caught, reading(engine):
            pass
        assert caught.value.cause == "down"
