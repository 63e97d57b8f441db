"""A server on stores that it may only read, or that vanish: a hot standby, another user's file, a replaced one."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from helpers.databases import end_all_sessions
from helpers.served import serving
from helpers.standby import on_standby
from lineage_store import LineageStore

API = "/api/v1"


def pages(client: httpx.Client) -> tuple[int, int]:
    answer = client.get(f"{API}/jobs")
    return answer.status_code, len(answer.json().get("jobs", ()))


def annotated(client: httpx.Client, key: str) -> tuple[int, str]:
    answer = client.put(f"{API}/jobs/{key}/run_039/annotation", json={"tag": 1})
    return answer.status_code, answer.json()["kind"] if answer.content else ""


def key_of(client: httpx.Client) -> str:
    (base_dir,) = client.get(f"{API}/base-dirs").json()["base_dirs"]
    return str(base_dir["key"])


def test_a_hot_standby_is_served_and_takes_no_remarks(
    standby_server: str, postgres_url: str, corpus: Path
) -> None:
    with LineageStore(postgres_url) as store:
        store.ingest(corpus)
    with serving(on_standby(standby_server, postgres_url), allow_remarks=True) as client:
        assert pages(client) == (200, 20)
        assert client.get(f"{API}/health").status_code == 200
        key = key_of(client)
        assert annotated(client, key) == (503, "database_read-only")
        series = {"base": key, "name": "many_scalars", "tag": "loss"}
        assert client.post(f"{API}/series", json={"series": [series]}).status_code == 200


def test_a_file_that_nobody_may_write_is_served(sqlite_url: str, corpus: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.db"
    with LineageStore(sqlite_url) as store:
        store.ingest(corpus)
        store.backup(snapshot, mode=0o444)
    with serving(f"sqlite:///{snapshot}", allow_remarks=True) as client:
        assert pages(client) == (200, 20)
        assert annotated(client, key_of(client))[0] in (403, 503)
        with LineageStore(sqlite_url) as store:
            store.base_dirs.forget(corpus)
            store.backup(snapshot, mode=0o444)
        assert pages(client) == (200, 0)  # the one that took its place


def test_sessions_that_end_are_made_anew(postgres_url: str, corpus: Path) -> None:
    with LineageStore(postgres_url) as store:
        store.ingest(corpus)
    with serving(postgres_url) as client:
        assert pages(client) == (200, 20)
        end_all_sessions(postgres_url)
        answers = [pages(client) for _ in range(3)]
        assert answers[-1] == (200, 20)
        assert {status for status, _ in answers} <= {200, 503}


def test_a_file_that_goes_away_is_told_until_it_is_back(
    sqlite_url: str, corpus: Path, tmp_path: Path
) -> None:
    with LineageStore(sqlite_url) as store:
        store.ingest(corpus)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with serving(sqlite_url) as client:
        assert pages(client) == (200, 20)
        shutil.copy(path, tmp_path / "kept.db")
        path.unlink()
        answer = client.get(f"{API}/jobs")
        assert (answer.status_code, answer.json()["kind"].startswith("database_")) == (503, True)
        shutil.copy(tmp_path / "kept.db", path)
        assert pages(client) == (200, 20)
