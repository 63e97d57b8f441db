"""The stream of changes: each change once, for any number of clients, fast or slow, over restarts of the server."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import signal
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers import faults
from helpers.event_stream import Event, event_stream
from helpers.scraped import scraped
from helpers.served import server_process, serving
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.query.changes import encode
from lineage_store.server import connections, create_app
from lineage_store.server.own import changes as watcher

JOBS = ("./run_000", "./run_001", "./run_004")


@pytest.fixture
def store(stored_url: str) -> Iterator[LineageStore]:
    """The served store, for writing."""
    with LineageStore(stored_url, settings=Settings()) as store:
        yield store


def label(store: LineageStore, corpus: Path, *jobs: str, tag: int = 1) -> None:
    for job in jobs:
        store.job((corpus, job)).annotate(label=tag)


def watchers() -> int:
    return sum(thread.name == "watcher" for thread in threading.enumerate())


def changes(events: Iterator[Event]) -> list[tuple[str, str | None]]:
    """Those of the next event that has some."""
    return next(event for event in events if event.kind == "changes").jobs


def test_what_changes_is_told_with_where_to_go_on(
    client: httpx.Client, store: LineageStore, corpus: Path
) -> None:
    with event_stream(client) as events:
        begin = next(events)
        assert (begin.kind, begin.token) == ("begin", store.changes.since("now").since)
        label(store, corpus, JOBS[0])
        event = next(events)
        assert event.jobs == [("changed", JOBS[0])]
        assert event.token == store.changes.since("now").since
        (change,) = event.data["changes"]
        assert change["base_dir"] == str(corpus)
        assert client.get(f"/api/v1/{change['url']}").json()["job"]["train_id"] == JOBS[0]


def test_who_comes_back_is_told_what_he_missed_and_nothing_twice(
    client: httpx.Client, store: LineageStore, corpus: Path
) -> None:
    with event_stream(client) as events:
        since = next(events).token
    label(store, corpus, *JOBS[:2])
    with event_stream(client, since) as events:
        missed = next(events)
        assert missed.jobs == [("changed", job) for job in JOBS[:2]]
        assert next(events).kind == "begin"
        label(store, corpus, JOBS[2])
        assert changes(events) == [("changed", JOBS[2])]


def test_a_token_may_be_in_the_address_as_a_page_gives_it(
    client: httpx.Client, store: LineageStore, corpus: Path
) -> None:
    since = store.changes.since("now").since
    label(store, corpus, JOBS[0])
    with client.stream("GET", "/api/v1/events", params={"since": since}) as response:
        assert any(JOBS[0] in line for line in response.iter_lines())


def test_the_same_is_told_page_by_page_to_who_asks(
    client: httpx.Client, store: LineageStore, corpus: Path
) -> None:
    since = client.get("/api/v1/changes", params={"since": "now"}).json()["since"]
    label(store, corpus, *JOBS)
    pages = [client.get("/api/v1/changes", params={"since": since, "limit": 2}).json()]
    pages.append(client.get("/api/v1/changes", params={"since": pages[0]["since"]}).json())
    assert [[each["train_id"] for each in page["changes"]] for page in pages] == [[*JOBS[:2]], [JOBS[2]]]
    assert [page["more"] for page in pages] == [True, False]
    refused = client.get("/api/v1/changes", params={"since": "seven"})
    assert (refused.status_code, refused.json()["kind"]) == (400, "lineage_param_value")


def test_a_forged_token_is_a_problem(client: httpx.Client, corpus: Path) -> None:
    since = client.get("/api/v1/changes", params={"since": "now"}).json()["since"]
    ((path, place),) = json.loads(zlib.decompress(base64.urlsafe_b64decode(since + "==="))).items()
    forged = json.dumps({path: [place[0], -(2**70), ""]})
    token = base64.urlsafe_b64encode(zlib.compress(forged.encode())).decode()
    answer = client.get("/api/v1/changes", params={"since": token})
    assert (answer.status_code, answer.json()["kind"]) == (400, "lineage_param_value")


def test_what_is_no_token_is_a_problem(client: httpx.Client) -> None:
    answer = client.get("/api/v1/events", headers={"Last-Event-ID": "seven"})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert "no token of changes" in answer.json()["detail"]


def test_many_that_changed_come_in_pages(
    client: httpx.Client, store: LineageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "PAGE", 3)
    every = {(change.kind.value, change.train_id) for change in store.changes.since().changes}
    told = list[tuple[str, str | None]]()
    with event_stream(client, encode({})) as events:
        for event in events:
            if event.kind == "begin":
                break
            assert len(event.jobs) <= 3
            told += event.jobs
    assert sorted(told) == sorted(every)


def test_a_silent_stream_shows_signs_of_life(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "HEARTBEAT_S", 0.05)
    with event_stream(client) as events:
        assert [next(events).kind for _ in range(3)] == ["begin", "comment", "comment"]


def test_one_thread_looks_for_all_clients_and_none_when_they_are_gone(
    stored_url: str, store: LineageStore, corpus: Path
) -> None:
    with serving(stored_url) as client, ExitStack() as streams:
        alone = [
            streams.enter_context(
                event_stream(streams.enter_context(httpx.Client(base_url=client.base_url, timeout=60)))
            )
            for _ in range(20)
        ]
        assert {next(events).kind for events in alone} == {"begin"}
        assert watchers() == 1
        label(store, corpus, JOBS[0])
        assert {tuple(changes(events)) for events in alone} == {(("changed", JOBS[0]),)}
        streams.close()
        wait_until(lambda: watchers() == 0)


def test_a_database_that_is_away_is_told_and_so_is_its_return(
    client: httpx.Client, store: LineageStore, corpus: Path, stored_url: str
) -> None:
    with event_stream(client) as events:
        since = next(events).token
        with faults.down(store.engine):
            away = next(events)
            assert (away.kind, away.token, away.data["reachable"]) == ("store", "", False)
            assert away.data["what"]
        with LineageStore(stored_url, settings=Settings()) as again:
            label(again, corpus, JOBS[1])
        rest = [next(events), next(events)]
    back, change = sorted(rest, key=lambda event: event.kind, reverse=True)
    assert (back.kind, back.data) == ("store", {"reachable": True})
    assert change.jobs == [("changed", JOBS[1])]
    with event_stream(client, since) as events:
        assert changes(events) == [("changed", JOBS[1])]


def test_a_client_too_many_is_refused(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "MOST_STREAMS", 2)  # of which one client has half
    with event_stream(client) as events:
        next(events)
        refused = httpx.get(f"{client.base_url}/api/v1/events")
    assert (refused.status_code, refused.json()["kind"]) == (429, "too_many_streams")


def test_a_client_that_does_not_read_is_told_to_resume_and_nothing_is_kept_for_it(
    stored_url: str, store: LineageStore, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "KEPT_EVENTS", 3)
    app = create_app(replace(Settings(), database_url=stored_url))
    begun, told = threading.Event(), bytearray()

    async def served() -> None:
        reads = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(600)
            raise AssertionError

        async def send(message: Any) -> None:
            told.extend(message.get("body", b""))
            if b"event: begin" in told:
                begun.set()
                await reads.wait()

        async with app.router.lifespan_context(app):
            stream = asyncio.create_task(app(scope(), receive, send))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            for number in range(6):
                before = app.state.watcher._newest
                await asyncio.to_thread(label, store, corpus, JOBS[0], tag=number)
                while app.state.watcher._newest == before:
                    await asyncio.sleep(0.01)
            assert len(app.state.watcher._kept) == 3
            reads.set()
            await asyncio.wait_for(stream, 60)

    asyncio.run(served())
    assert told.endswith(b"event: resume\ndata: {}\n\n")


def scope() -> dict[str, Any]:
    """A request as a server gives it to an application."""
    return {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": "/api/v1/events",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "root_path": "",
    }


def test_a_server_that_is_told_to_end_does_not_wait_for_its_clients(sqlite_url: str) -> None:
    with server_process(sqlite_url) as (process, client), event_stream(client) as events:
        assert next(events).kind == "begin"
        process.send_signal(signal.SIGTERM)
        assert list(events) == []
        assert process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_over_killed_servers_a_client_misses_nothing_and_is_told_nothing_twice(
    stored_url: str, store: LineageStore, corpus: Path
) -> None:
    """A writer labels jobs all the time; servers are killed while their client reads."""
    chance, told, since = random.Random(7), list[tuple[str, int]](), store.changes.since("now").since
    enough = threading.Event()

    def write() -> None:
        while not enough.is_set():
            label(store, corpus, chance.choice(JOBS))

    def read(*, killed: bool) -> None:
        nonlocal since
        with server_process(stored_url) as (process, client), event_stream(client, since) as events:
            for event in events:
                since = event.token or since
                if event.kind == "changes":
                    told.extend((each["train_id"], each["revision"]) for each in event.data["changes"])
                elif not killed:
                    return
                else:
                    threading.Timer(chance.random(), process.kill).start()

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(3):
        with suppress(httpx.HTTPError):
            read(killed=True)
    enough.set()
    writer.join()
    read(killed=False)
    assert len(told) == len(set(told)), "a change was told twice"
    last = dict(told)
    assert {
        change.train_id: change.revision
        for change in store.changes.since().changes
        if change.train_id in last
    } == last
    assert len(told) > len(JOBS)


def test_a_client_that_takes_nothing_of_what_it_follows_is_given_up(
    stored_url: str, store: LineageStore, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TAKES_WITHIN_S", 0.5)
    with serving(stored_url) as client, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # the least that there is
        connection.connect((client.base_url.host, client.base_url.port))
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(1, socket.MSG_PEEK)  # the stream has begun

        def given_up() -> bool:
            label(store, corpus, *JOBS)
            return scraped(client.get("/metrics").text).value("lineage_store_event_streams") == 0

        wait_until(given_up)
