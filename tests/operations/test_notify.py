"""`[notify]`: a webhook or a command gets each event at least once, and ingest does not wait for it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.engines import opened
from helpers.following_daemon import daemon, write
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.ingest.lease import register
from lineage_store.operations import delivery, notifications
from lineage_store.operations.delivery import plan_of
from lineage_store.operations.notifications import Notifier, notifying
from lineage_store.store.writes import ingest_log

SECRET = "T0P-s3cret"


class Webhook:
    """A server that notes what it is told; `answer` gives the status for each request, None: never."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.answer: Callable[[int], int | None] = lambda _: 200
        self.ended = threading.Event()
        self.url = ""

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        told = [event for request in self.requests for event in request["events"]]
        return [event for event in told if kind in (None, event["kind"])]

    def told(self) -> Counter[tuple[str, str | None]]:
        """How often of what, by kind and job."""
        return Counter((event["kind"], event["train_id"]) for event in self.events())


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook.requests.append(body)
            hook.paths.append(self.path)
            status = hook.answer(len(hook.requests))
            if status is None:
                hook.ended.wait(60)
                return
            self.send_response(status)
            self.send_header("Location", f"{hook.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        hook.url = f"http://user:{SECRET}@127.0.0.1:{server.server_port}/hook/{SECRET}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hook
        finally:
            hook.ended.set()
            server.shutdown()
            thread.join()


def train(base_dir: Path, name: str, *, accuracy: float = 0.5, finished: bool = True) -> None:
    job, now = base_dir / name, time.time()
    paths = [
        Log(now).version().scalar(1, "loss", 0.5).write_summary(job, int(now)),
        (Log(now).train(network="LeNet5") if finished else Log(now))
        .evaluation({"accuracy": accuracy})
        .write_lineage(job, int(now)),
    ]
    for path in paths if finished else []:
        path.chmod(0o400)


def damage(base_dir: Path, name: str) -> None:
    now = time.time()
    Log(now).version().frame(b"\xff\xff\xff").scalar(2, "loss", 0.5).write_summary(base_dir / name, int(now))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    base_dir = tmp_path / "base"
    base_dir.mkdir()
    return base_dir


@contextmanager
def told_by(webhook: Webhook, url: str, base_dir: Path, **settings: object) -> Iterator[Any]:
    file = base_dir.parent / "lineage_store.toml"
    write(file, base_dirs=[str(base_dir)], **{"notify_url": webhook.url, **settings})
    with daemon(file, url) as running:
        yield running
    assert SECRET not in json.dumps(running.logged)


@pytest.mark.slow
def test_what_happens_is_told_once_also_over_a_restart(
    database_url: str, place: Path, webhook: Webhook
) -> None:
    bounds = {"notify_metrics": "accuracy>=0.9"}
    expected = {("finished", "./good"): 1, ("metric", "./good"): 1, ("problem", "./bad"): 1}
    with told_by(webhook, database_url, place, **bounds):
        train(place, "good", accuracy=0.95)
        train(place, "runs", finished=False)
        damage(place, "bad")
        wait_until(lambda: webhook.told() == expected)
    (metric,) = webhook.events("metric")
    assert (metric["metric"], metric["value"], metric["bound"]) == ("accuracy", 0.95, "accuracy >= 0.9")
    (problem,) = webhook.events("problem")
    assert problem["problem"] == "undecodable_event"
    assert problem["path"].startswith(str(place / "bad"))
    assert problem["remedy"]
    assert len({event["id"] for event in webhook.events()}) == 3
    with told_by(webhook, database_url, place, **bounds):
        train(place, "late")
        wait_until(lambda: webhook.told()["finished", "./late"])
        assert {event["outcome"] for event in webhook.events("finished")} == {"completed"}
        assert webhook.told() == {**expected, ("finished", "./late"): 1}


@pytest.mark.slow
def test_a_webhook_that_refuses_is_asked_again_and_nowhere_else(
    sqlite_url: str, place: Path, webhook: Webhook
) -> None:
    refusals = [500, 302, 404]
    webhook.answer = lambda number: dict(enumerate(refusals, 1)).get(number, 204)
    with told_by(webhook, sqlite_url, place) as running:
        train(place, "good")
        wait_until(lambda: running.says("notifications recovered"))
    assert webhook.told() == {("finished", "./good"): 4}
    assert set(webhook.paths) == {f"/hook/{SECRET}"}
    assert "500" in running.says("notification failed, will retry")[0]["reason"]
    plan = plan_of(Settings(notify_url=webhook.url))
    assert plan is not None
    for refusal in refusals:
        webhook.answer = lambda _, refusal=refusal: refusal  # type: ignore[misc]
        with pytest.raises(delivery.NotTakenError, match=str(refusal)):
            delivery.deliver(plan, b'{"events": []}')


@pytest.mark.slow
def test_ingest_goes_on_while_a_webhook_never_answers_and_a_kill_loses_nothing(
    database_url: str, place: Path, webhook: Webhook
) -> None:
    webhook.answer = lambda _: None
    with opened(database_url) as engine, told_by(webhook, database_url, place) as running:
        train(place, "first")
        wait_until(lambda: webhook.told()["finished", "./first"])
        train(place, "second")
        wait_until(lambda: len(column(engine, "SELECT state FROM train_job WHERE state = 'finished'")) == 2)
        running.kill()
    webhook.answer = lambda _: 200
    with told_by(webhook, database_url, place):
        wait_until(lambda: {("finished", "./first"), ("finished", "./second")} <= set(_taken(webhook)))


def _taken(webhook: Webhook) -> list[tuple[str, str | None]]:
    """What was told after the one request that was never answered."""
    return [
        (each["kind"], each["train_id"]) for request in webhook.requests[1:] for each in request["events"]
    ]


def test_a_base_dir_that_is_not_searched_any_more_is_told_as_lagging(
    sqlite_url: str, place: Path, webhook: Webhook
) -> None:
    with told_by(webhook, sqlite_url, place, discovery_interval_s=1e6, notify_lag_s=1.0):
        wait_until(lambda: webhook.told() == {("lag", None): 1})
    assert webhook.events()[0]["base_dir"] == str(place)


@pytest.mark.slow
def test_of_two_daemons_one_tells(postgres_url: str, place: Path, webhook: Webhook) -> None:
    with told_by(webhook, postgres_url, place), told_by(webhook, postgres_url, place):
        for number in range(3):
            train(place, f"job_{number}")
            wait_until(lambda number=number: webhook.told()["finished", f"./job_{number}"])  # type: ignore[misc]
    assert set(webhook.told().values()) == {1}


def test_another_address_is_told_what_the_one_before_did_not_take(
    sqlite_url: str, place: Path, webhook: Webhook
) -> None:
    with told_by(webhook, sqlite_url, place, notify_url="http://127.0.0.1:1/nobody") as running:
        train(place, "good")
        wait_until(lambda: running.says("notification failed, will retry"))
        running.reload("settings reloaded", base_dirs=[str(place)], notify_url=webhook.url)
        wait_until(lambda: webhook.told() == {("finished", "./good"): 1})
        assert not running.says("lease released")


def test_a_command_is_told_on_its_stdin_until_it_ends_well(
    sqlite_url: str, place: Path, webhook: Webhook
) -> None:
    told = place.parent / "told"
    script = place.parent / "tell me"
    script.write_text(f'#!/bin/sh\ncat >> "{told}"\necho >> "{told}"\n[ $(wc -l < "{told}") -ge 2 ]\n')
    script.chmod(0o700)
    with told_by(webhook, sqlite_url, place, notify_url="", notify_command=f"'{script}'") as running:
        train(place, "good")
        wait_until(lambda: running.says("notifications recovered"))
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    assert [line["events"][0]["train_id"] for line in lines] == ["./good", "./good"]
    assert "it ended with 1" in running.says("notification failed, will retry")[0]["reason"]
    assert not webhook.requests


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "DEADLINE_S", 0.2)
    plan = plan_of(Settings(notify_command="sh -c 'sleep 600'"))
    assert plan is not None
    with pytest.raises(delivery.NotTakenError, match="did not end within"):
        delivery.deliver(plan, b"{}")


def test_a_server_that_answers_a_byte_now_and_then_is_cut_off(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "DEADLINE_S", 0.2)
    monkeypatch.setattr(delivery, "STEP_S", 600.0)
    webhook.answer = lambda _: None
    plan = plan_of(Settings(notify_url=webhook.url))
    assert plan is not None
    with pytest.raises(delivery.NotTakenError, match="within") as refused:
        delivery.deliver(plan, b'{"events": []}')
    assert SECRET not in str(refused.value)


def test_a_name_that_is_not_resolved_in_time_holds_nobody_and_nothing_is_sent_later(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, resolves, resolved = socket.getaddrinfo, threading.Event(), threading.Event()

    def resolve_late(*arguments: Any) -> Any:
        assert resolves.wait(600)
        try:
            return resolve(*arguments)
        finally:
            resolved.set()

    webhook.answer = lambda _: None
    monkeypatch.setattr(socket, "getaddrinfo", resolve_late)
    monkeypatch.setattr(delivery, "DEADLINE_S", 0.2)
    monkeypatch.setattr(delivery, "STEP_S", 600.0)
    plan = plan_of(Settings(notify_url=webhook.url))
    assert plan is not None
    before = set(threading.enumerate())
    with ThreadPoolExecutor(1) as pool:
        delivering = pool.submit(delivery.deliver, plan, b'{"events": []}')
        try:
            with pytest.raises(delivery.NotTakenError, match="within"):
                delivering.result(30)
            assert not resolved.is_set()
        finally:
            resolves.set()
    assert resolved.wait(60)
    wait_until(lambda: set(threading.enumerate()) <= before)
    assert not webhook.requests


def _tell(engine: Engine, webhook: Webhook, until: Callable[[], bool]) -> None:
    """Send notifications without a daemon, until something is so."""
    with notifying(engine, plan_of(Settings(notify_url=webhook.url))):
        wait_until(until)


def _problems(webhook: Webhook) -> dict[str | None, int]:
    """The number of problems that were told, by job."""
    told: Counter[str | None] = Counter()
    for event in webhook.events("problem"):
        told[event["train_id"]] += event["problems"]
    return dict(told)


def _begin(engine: Engine, webhook: Webhook) -> None:
    """Let everything from now on be news."""
    Notifier(engine).use(plan_of(Settings(notify_url=webhook.url)))


def test_a_job_with_very_many_problems_does_not_delay_the_others(
    engine: Engine, place: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_log, "MOST_OF_JOB", 20)
    register(engine, place)
    _begin(engine, webhook)
    now = int(time.time())
    for number in range(60):
        log = Log(now).version().frame(b"\xff\xff\xff").scalar(2, "loss", 0.5).torn(3)
        log.write_summary(place / "hostile", now - number).chmod(0o400)
    damage(place, "honest")
    train(place, "good")
    ingest(engine, place)
    _tell(engine, webhook, lambda: bool(webhook.requests))
    (first,) = webhook.requests
    told = [(event["kind"], event["train_id"], event.get("problem")) for event in first["events"]]
    assert {("problem", "./honest", "undecodable_event"), ("finished", "./good", None)} <= set(told)
    hostile = ("more_notes", "more_problems", "torn_file", "undecodable_event")
    assert {kind for _, job, kind in told if job == "./hostile"} == {*hostile, None}
    assert len(told) == 3 + len(hostile)
    assert _problems(webhook) == {"./hostile": 120, "./honest": 1}
    (many,) = (
        each
        for each in first["events"]
        if (each["train_id"], each.get("problem")) == ("./hostile", "torn_file")
    )
    assert "20 new ones, such as hostile/" in many["what"]


def test_problems_of_very_many_jobs_are_told_together_beside_the_news_of_others(
    engine: Engine, place: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_EVENTS_AT_A_TIME", 10)
    monkeypatch.setattr(notifications, "_MOST_WAITING", 20)
    register(engine, place)
    _begin(engine, webhook)
    for number in range(60):
        damage(place, f"bad_{number}")
    train(place, "good")
    ingest(engine, place)
    _tell(engine, webhook, lambda: sum(_problems(webhook).values()) + sum(_jobs(webhook)) >= 60)
    assert ("finished", "./good") in {
        (event["kind"], event["train_id"]) for event in webhook.requests[0]["events"]
    }
    assert max(len(request["events"]) for request in webhook.requests) <= 11
    assert len(webhook.requests) <= 4
    told = Counter(event["train_id"] for event in webhook.events("problem"))
    assert told.pop(None) == 1
    assert set(told.values()) == {1}
    assert len(told) + sum(_jobs(webhook)) == 60
    before = len(webhook.requests)
    train(place, "late")
    ingest(engine, place)
    _tell(engine, webhook, lambda: len(webhook.requests) > before)
    assert [event["train_id"] for event in webhook.requests[-1]["events"]] == ["./late"]


def _jobs(webhook: Webhook) -> list[int]:
    return [event["jobs"] for event in webhook.events("problem") if "jobs" in event]


def test_a_slow_receiver_does_not_put_off_the_next_look(
    sqlite_engine: Engine, place: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_SHARE", 0.02)

    def slowly(_: int) -> int:
        time.sleep(4)
        return 200

    webhook.answer = slowly
    register(sqlite_engine, place)
    with notifying(sqlite_engine, plan_of(Settings(notify_url=webhook.url))):
        for name in ("first", "second"):
            train(place, name)
            ingest(sqlite_engine, place)
            wait_until(lambda name=name: webhook.told()["finished", f"./{name}"])  # type: ignore[misc]


def test_many_jobs_that_finish_leave_room_for_a_problem(
    sqlite_engine: Engine, place: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_EVENTS_AT_A_TIME", 5)
    register(sqlite_engine, place)
    _begin(sqlite_engine, webhook)
    for number in range(20):
        train(place, f"job_{number}")
    damage(place, "honest")
    ingest(sqlite_engine, place)
    _tell(sqlite_engine, webhook, lambda: len(webhook.events()) == 21)
    assert "./honest" in {event["train_id"] for event in webhook.requests[0]["events"]}


def test_a_job_that_is_damaged_again_and_again_is_told_of_at_intervals(
    engine: Engine, place: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(engine, place)
    plan, now = plan_of(Settings(notify_url=webhook.url)), int(time.time())
    with notifying(engine, plan):
        for number in range(3):
            log = Log(now).version().frame(b"\xff\xff\xff").scalar(2, "loss", 0.5)
            log.write_summary(place / "hostile", now - number)
            damage(place, f"honest_{number}")
            ingest(engine, place)
            wait_until(lambda number=number: webhook.told()["problem", f"./honest_{number}"])  # type: ignore[misc]
        assert webhook.told()["problem", "./hostile"] == 1
        monkeypatch.setattr(notifications, "JOB_RESTS_S", 0.0)
        wait_until(lambda: webhook.told()["problem", "./hostile"] == 2)
    assert [event["problems"] for event in webhook.events("problem") if event["train_id"] == "./hostile"] == [
        1,
        3,
    ]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"notify_url": f"ftp://host/{SECRET}"}, "notify_url is no address"),
        ({"notify_url": f"file:///{SECRET}"}, "notify_url is no address"),
        ({"notify_url": f"https://host/{SECRET}\r\nX: y"}, "notify_url is no address"),
        ({"notify_url": f"https://host:{SECRET}/"}, "notify_url is no address"),
        ({"notify_url": f"https://host/{SECRET}", "notify_command": "tell"}, "both"),
        ({"notify_command": "tell", "notify_on": "problem, finshed"}, "Did you mean finished?"),
        ({"notify_command": "tell", "notify_metrics": "accuracy=0.9"}, "is no bound"),
        ({"notify_command": f"tell '{SECRET}"}, "cannot be split"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_without_the_address(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_of(Settings(**settings))
    assert reason in str(refused.value)
    assert SECRET not in str(refused.value)
