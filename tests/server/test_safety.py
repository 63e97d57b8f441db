"""Attacks on the server: names, sites, paths, headers, tokens, bodies, connections, and texts that are HTML."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from helpers.log_writer import Log
from helpers.scraped import scraped
from helpers.served import serving
from helpers.users import needs_root
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.errors import ConfigError
from lineage_store.server import connections, guard
from lineage_store.server.asking import Ask

API = "/api/v1"
LARGE = 64 << 20
"""More bytes than the system keeps for a client that takes none."""
TOKEN = "correct-horse-battery-staple"


large, broken = APIRouter(), APIRouter()


@large.get("/large")
async def answer_much(ask: Ask) -> Response:
    """An answer that takes long, and much memory."""
    return Response(await ask(lambda store: bytes(LARGE), heavy=True))


@broken.get("/broken")
async def fail() -> None:
    """An endpoint with a defect."""
    raise ZeroDivisionError("a secret")


@broken.get("/broken/midway")
async def fail_midway() -> Response:
    """An endpoint with a defect that shows once the answer has begun."""

    async def parts() -> AsyncIterator[bytes]:
        yield bytes(1)
        raise ZeroDivisionError

    return StreamingResponse(parts())


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


@pytest.fixture
def here(sqlite_url: str) -> Iterator[httpx.Client]:
    """A client of a server that asks for no token."""
    with serving(sqlite_url, allow_remarks=True) as client:
        yield client


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["kind"]


def raw(client: httpx.Client, *lines: str) -> bytes:
    """What is answered to a request written by hand."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), 60) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
        return b"".join(iter(lambda: connection.recv(65536), b""))


# --- by which name --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8080",
        "0.0.0.0",
        "[::2]",
        "[::1]evil.example",
        "localhost:evil.example",
        "localhost@x",
    ],
)
def test_a_foreign_name_reaches_nothing(here: httpx.Client, host: str) -> None:
    for path in (f"{API}/health", "/", "/v1/mindinsight/datavisual/plugins", "/nothing"):
        assert kind(here.get(path, headers={"Host": host})) == (421, "wrong_host")
    told = here.get(
        "/", headers={"Host": host, "X-Forwarded-Host": "localhost", "Forwarded": "host=localhost"}
    )
    assert told.status_code == 421


def test_no_name_or_two_reach_nothing(here: httpx.Client) -> None:
    assert b" 400 " in raw(here, f"GET {API}/health HTTP/1.1").splitlines()[0]
    assert b" 421 " in raw(here, f"GET {API}/health HTTP/1.0").splitlines()[0]
    two = raw(here, f"GET {API}/health HTTP/1.1", "Host: localhost", "Host: evil.example")
    assert b" 200 " not in two.splitlines()[0]


def test_names_that_the_settings_give_are_answered(sqlite_url: str, token_file: str) -> None:
    with serving(sqlite_url, names="Lineage.example, other.example", token_file=token_file) as client:
        asked = {"Host": "lineage.example:443", "Authorization": f"Bearer {TOKEN}"}
        assert client.get(f"{API}/health", headers=asked).status_code == 200


# --- from which site ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(here: httpx.Client, headers: dict[str, str]) -> None:
    place = f"{API}/jobs/0/x/annotation"
    assert kind(here.put(place, json={"tag": 1}, headers=headers)) == (403, "other_site")
    preflight = here.options(place, headers=headers | {"Access-Control-Request-Method": "PUT"})
    assert not [name for name in preflight.headers if name.startswith("access-control-")]


def test_a_page_of_this_site_may_ask_to_change(here: httpx.Client) -> None:
    origin = {"Origin": f"http://{here.base_url.host}:{here.base_url.port}", "Sec-Fetch-Site": "same-origin"}
    answer = here.put(f"{API}/jobs/0/x/annotation", json={"tag": 1}, headers=origin)
    assert kind(answer) == (404, "lineage_param_summary_path")


def test_a_cookie_does_not_make_another_site_trusted(sqlite_url: str, token_file: str) -> None:
    with serving(sqlite_url, token_file=token_file) as client:
        assert client.get("/", params={"token": TOKEN}).status_code == 303
        assert client.get(f"{API}/health").status_code == 200
        place, evil = f"{API}/jobs/0/x/annotation", {"Origin": "https://evil.example"}
        assert kind(client.put(place, json={"tag": 1}, headers=evil)) == (403, "other_site")
        assert kind(client.put(place, json={"tag": 1})) == (404, "lineage_param_summary_path")


# --- paths ----------------------------------------------------------------------------------------------------------

_UP = ["../" * 12, "..%2f" * 12, "..%252f" * 12, "%2e%2e/" * 12, "..%c0%af" * 12, "....//" * 12, "/", "%00/"]


@pytest.mark.parametrize("up", _UP)
def test_no_path_of_a_client_reaches_the_disk(here: httpx.Client, tmp_path: Path, up: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    place = f"{up}{str(secret).lstrip('/')}"
    asked = [
        f"jobs/{place}/x",
        f"jobs/{'0' * 12}/{place}",
        f"jobs/{'0' * 12}/{place}/files",
        f"payload/{'0' * 12}/{place}?plugin=image&tag={place}&step=0",
        f"payloads/{'0' * 12}/x?plugin=graph&tag={place}",
        f"jobs?base={place}",
    ]
    for path in asked:
        answer = raw(here, f"GET {API}/{path} HTTP/1.1", "Host: localhost")
        assert answer.split()[1][:1] == b"4", path
        assert b"a secret" not in answer


def test_a_job_is_not_asked_by_another_way_to_its_directory(sqlite_url: str, tmp_path: Path) -> None:
    Log().version().scalar(1, "loss", 1.0).write_summary(tmp_path / "base" / "job")
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
    with serving(sqlite_url) as client:
        key = client.get(f"{API}/base-dirs").json()["base_dirs"][0]["key"]
        assert client.get(f"{API}/jobs/{key}/job").status_code == 200
        for way in ("job%2F..%2Fjob", "%2E%2E%2Fbase%2Fjob", "job%252F.", "x%2F..%2Fjob"):
            answer = raw(client, f"GET {API}/jobs/{key}/{way} HTTP/1.1", "Host: localhost")
            assert b" 404 " in answer.splitlines()[0]


@pytest.mark.parametrize("linked", ["file", "directory"])
def test_a_symbolic_link_out_of_the_base_dir_is_not_followed(
    sqlite_url: str, tmp_path: Path, corpus: Path, linked: str
) -> None:
    base_dir, outside = tmp_path / "base", tmp_path / "outside"
    shutil.copytree(corpus, base_dir)
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        tag = store.job((base_dir, "./payloads")).tags()["image"][0]
        sample = store.job((base_dir, "./payloads")).images(tag)[0]
    job = base_dir / "payloads"
    shutil.copytree(job, outside)
    if linked == "file":
        (job / sample.place.log_file).unlink()
        (job / sample.place.log_file).symlink_to(outside / sample.place.log_file)
    else:
        shutil.rmtree(job)
        job.symlink_to(outside)
    with serving(sqlite_url) as client:
        key = client.get(f"{API}/base-dirs").json()["base_dirs"][0]["key"]
        asked: dict[str, Any] = {"plugin": "image", "tag": tag, "step": sample.step}
        answer = client.get(f"{API}/payload/{key}/payloads", params=asked)
        assert kind(answer) == (410, "payload_unavailable")
        assert "out of the base dir" in answer.json()["detail"]


# --- headers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/%0d%0aSet-Cookie:%20x=y", "//evil.example/", "/%5Cevil.example", "/%2F/evil.example"]
)
def test_the_way_from_token_to_cookie_leads_nowhere_else(sqlite_url: str, token_file: str, path: str) -> None:
    with serving(sqlite_url, token_file=token_file) as client:
        query = f"a=%0d%0aX-Injected:%201&token={TOKEN}"
        answer = raw(client, f"GET {path}?{query} HTTP/1.1", "Host: localhost").decode()
        head = answer.partition("\r\n\r\n")[0].lower()
        assert " 303 " in head.splitlines()[0]
        (location,) = (line for line in head.splitlines() if line.startswith("location:"))
        target = location.removeprefix("location: ")
        assert target.startswith("/")
        assert not target.startswith(("//", "/\\"))
        assert TOKEN not in target
        assert "\nx-injected" not in head
        (cookie,) = (line for line in head.splitlines() if line.startswith("set-cookie:"))
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie


def test_the_way_from_token_to_cookie_leads_to_the_same_place(sqlite_url: str, token_file: str) -> None:
    with serving(sqlite_url, token_file=token_file) as client:
        answer = client.get(f"/job/0/a%2520b%3Fc%23d/curves?x=1&token={TOKEN}")
        assert answer.headers["location"] == "/job/0/a%2520b%3Fc%23d/curves?x=1"


def test_every_answer_keeps_browsers_from_guessing(here: httpx.Client) -> None:
    answers = [
        here.get("/"),
        here.get(f"{API}/health"),
        here.get("/nothing"),
        here.get("/", headers={"Host": "x"}),
    ]
    for answer in answers:
        check_headers(answer)


def check_headers(answer: httpx.Response) -> None:
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_unforeseen_error_is_a_problem_with_safe_headers_that_is_counted_and_logged(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with serving(sqlite_url, routers=[broken]) as client:
        answer = client.request(method, "/broken")
        counted = scraped(client.get("/metrics").text)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    check_headers(answer)
    if method == "GET":
        assert (answer.json()["kind"], "secret" in answer.text) == ("internal", False)
    assert counted.value("lineage_store_requests_total", method=method, route="/broken", status=500) == 1
    (logged,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert logged.exc_info is not None
    assert logged.exc_info[0] is ZeroDivisionError


def test_an_answer_that_fails_midway_does_not_look_whole(sqlite_url: str) -> None:
    with serving(sqlite_url, routers=[broken]) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/broken/midway")
        assert client.get("/metrics").status_code == 200


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_without_the_token_nothing_is_answered(sqlite_url: str, token_file: str) -> None:
    with serving(sqlite_url, token_file=token_file) as client:
        for path in (
            "/",
            f"{API}/health",
            "/v1/mindinsight/datavisual/plugins",
            f"{API}/openapi.json",
            "/nothing",
        ):
            answer = client.get(path)
            assert kind(answer) == (401, "no_token")
            assert answer.headers["www-authenticate"] == "Bearer"
        for scheme, status in (("Bearer", 200), ("bearer", 200), ("Basic", 401)):
            headers = {"Authorization": f"{scheme} {TOKEN}"}
            assert client.get(f"{API}/health", headers=headers).status_code == status


@pytest.mark.parametrize("guess", [TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "\xff\xfe", "Basic eDp5"])
def test_a_wrong_token_waits_and_is_refused(sqlite_url: str, token_file: str, guess: str) -> None:
    with serving(sqlite_url, token_file=token_file) as client:
        headers = {b"Authorization": f"Bearer {guess}".encode("latin-1")}
        started = time.monotonic()
        assert kind(client.get(f"{API}/health", headers=headers)) == (401, "no_token")
        assert time.monotonic() - started >= guard.WRONG_TOKEN_WAITS_S
        started = time.monotonic()
        assert (
            client.get(f"{API}/health", headers={"Cookie": f"{guard.COOKIE}={'0' * 64}"}).status_code == 401
        )
        assert time.monotonic() - started >= guard.WRONG_TOKEN_WAITS_S


def test_who_guesses_keeps_nobody_waiting(sqlite_url: str, token_file: str) -> None:
    with serving(sqlite_url, token_file=token_file) as client, ThreadPoolExecutor(20) as guessers:
        wrong, right = {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {TOKEN}"}
        guesses = [guessers.submit(client.get, f"{API}/health", headers=wrong) for _ in range(60)]
        assert client.get(f"{API}/health", headers=right).status_code == 200
        assert not all(guess.done() for guess in guesses)
        assert {guess.result().status_code for guess in guesses} == {401}


def test_another_token_ends_the_sessions_of_the_one_before(sqlite_url: str, token_file: str) -> None:
    with serving(sqlite_url, token_file=token_file) as client:
        cookie = client.get("/", params={"token": TOKEN}).cookies[guard.COOKIE]
    Path(token_file).write_text("another-token-of-enough-length")
    with serving(sqlite_url, token_file=token_file) as client:
        assert client.get(f"{API}/health", headers={"Cookie": f"{guard.COOKIE}={cookie}"}).status_code == 401


@pytest.mark.parametrize("content", ["", "short", "ümläut-ümläut-ümläut-ümläut"])
def test_a_token_that_protects_nothing_is_refused(sqlite_url: str, token_file: str, content: str) -> None:
    Path(token_file).write_text(content)
    with (
        pytest.raises(ConfigError, match="at least 16 ASCII characters"),
        serving(sqlite_url, token_file=token_file),
    ):
        pass


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_of_another(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    os.lchown(path, 12345, 12345)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_fifo, "is no regular file"),
        (lambda path: path.chmod(0o606), "another user could have written it"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_bytes(b"\xff" * 20), "cannot be read"),
        pytest.param(lambda path: os.chown(path, 12345, 12345), "another user could", marks=needs_root),
        pytest.param(_link_of_another, "another user could", marks=needs_root),
    ],
)
def test_a_token_file_that_others_could_have_written_is_refused(
    sqlite_url: str, token_file: str, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(Path(token_file))
    with pytest.raises(ConfigError, match=said), serving(sqlite_url, token_file=token_file):
        pass


def test_a_token_file_that_everybody_can_read_is_warned_about(
    sqlite_url: str, token_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path(token_file).chmod(0o644)
    with serving(sqlite_url, token_file=token_file):
        assert "every user of this host can read the token file" in caplog.text


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"host": "::"}, {"names": "lineage.example"}])
def test_no_server_is_open_to_others_without_a_token(sqlite_url: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="without requiring a token"), serving(sqlite_url, **settings):
        pass


# --- bodies ---------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    here: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN_S", 0.5)  # so long the rest is taken, and thrown away
    assert kind(here.post(f"{API}/series", content=b" " * (1 << 21))) == (413, "body_too_large")

    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 65536

    with suppress(
        httpx.WriteError
    ):  # the connection may be closed before the answer is read: there is no end
        assert here.post(f"{API}/series", content=endless()).status_code == 413
    assert here.get(f"{API}/health").status_code == 200


def test_a_body_that_never_ends_is_given_up(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_WITHIN_S", 0.2)
    with serving(sqlite_url) as client:
        answer = raw(client, f"POST {API}/series HTTP/1.1", "Host: localhost", "Content-Length: 100")
        assert b" 408 " in answer.splitlines()[0]
        assert b"body_too_slow" in answer


@pytest.mark.parametrize(
    "body", [b"[" * 500_000, b"{" * 500_000, b'{"series": "\xff"}', b"\x00", b"NaN", b"{}"]
)
def test_a_body_that_makes_no_sense_is_refused(here: httpx.Client, body: bytes) -> None:
    answer = here.post(f"{API}/series", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_condition_that_is_nested_beyond_reason_is_refused(here: httpx.Client) -> None:
    for condition in ("[" * 20_000, '{"not":' * 1_000 + "{}" + "}" * 1_000):
        answer = here.get(f"{API}/jobs", params={"condition": condition})
        assert kind(answer) == (400, "lineage_search_condition_param")


@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.parametrize("length", [2 << 20, 20 << 20])
def test_who_sends_a_refused_body_to_its_end_gets_the_answer(
    sqlite_url: str, token_file: str, token: str, length: int
) -> None:
    """Also one that closes its connection afterwards, as urllib and HTTP/1.0 do."""
    head = [
        f"POST {API}/series HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "Connection: close",
    ]
    with serving(sqlite_url, token_file=token_file) as client:
        for body in (
            [f"Content-Length: {length}", "", " " * length],
            ["Transfer-Encoding: chunked", "", chunked(length)],
        ):
            with connect(client) as connection:
                connection.sendall("\r\n".join([*head, *body]).encode())
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 413" if token else b"HTTP/1.1 401")
            assert answer.endswith(b"}")


def chunked(length: int) -> str:
    return f"{length:x}\r\n{' ' * length}\r\n0\r\n\r\n"


def test_a_client_that_waits_to_be_asked_for_its_body_is_refused_at_once(here: httpx.Client) -> None:
    lines = [
        f"POST {API}/series HTTP/1.1",
        "Host: localhost",
        "Content-Length: 99999999",
        "Expect: 100-continue",
    ]
    assert raw(here, *lines).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_with_two_lengths_is_refused(here: httpx.Client, method: str) -> None:
    lines = [
        f"{method} {API}/series HTTP/1.1",
        "Host: localhost",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
    ]
    answer = raw(here, *lines, "", "0", "", f"GET {API}/health HTTP/1.1", "Host: localhost")
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"two_lengths" in answer
    assert answer.count(b"HTTP/1.1 ") == 1  # what follows is no request


# --- connections ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_silent_connections_keep_nobody_out(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096:
        pytest.skip("this user may not open that many files")
    monkeypatch.setattr(connections, "HEAD_WITHIN_S", 5.0)
    with serving(sqlite_url) as client, ExitStack() as opened:
        silent = [
            opened.enter_context(socket.create_connection((client.base_url.host, client.base_url.port or 0)))
            for _ in range(1000)
        ]
        for connection in silent[::2]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        assert client.get(f"{API}/health").status_code == 200
        for connection in silent:  # all are closed by and by
            connection.settimeout(60)
            assert connection.recv(1) == b""
        assert client.get(f"{API}/health").status_code == 200


def test_a_head_that_never_ends_is_given_up_behind_an_answer_too(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN_S", 0.5)
    with (
        serving(sqlite_url) as client,
        socket.create_connection((client.base_url.host, client.base_url.port or 0), 60) as connection,
    ):
        connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404")
        connection.sendall(b"GET / HTTP/1.1\r\n")
        while connection.recv(65536):
            pass


def test_a_client_that_takes_nothing_of_its_answer_is_given_up(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TAKES_WITHIN_S", 0.5)
    with (
        serving(sqlite_url, routers=[large]) as client,
        socket.create_connection((client.base_url.host, client.base_url.port or 0)) as connection,
    ):
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: not is_there(connection), pause_s=0.1)


def is_there(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"\r\n")  # answered by a reset when nobody is there any more
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_who_takes_nothing_holds_nobody_up(sqlite_url: str) -> None:
    with serving(sqlite_url, routers=[large], heavy_reads=1) as client, ExitStack() as opened:
        for _ in range(20):
            address = client.base_url.host, client.base_url.port or 0
            connection = opened.enter_context(socket.create_connection(address))
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.recv(1, socket.MSG_PEEK)  # the answer has begun
        assert len(client.get("/large").content) == LARGE
        assert client.get("/metrics").status_code == 200


def connect(client: httpx.Client, source: str = "") -> socket.socket:
    """A connection on which nothing is sent, from the address `source` of this host."""
    address = client.base_url.host, client.base_url.port or 0
    return socket.create_connection(address, 60, source_address=(source, 0) if source else None)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def few_connections(monkeypatch: pytest.MonkeyPatch) -> int:
    """As many connections as a server of this test has."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    return 20


def test_idle_connections_make_room_for_who_asks(sqlite_url: str, few_connections: int) -> None:
    with serving(sqlite_url) as client, ExitStack() as opened:
        for source in ("127.0.0.1", "127.0.0.2", ""):  # one client, another one, the one that asks
            idle = [opened.enter_context(connect(client, source)) for _ in range(2 * few_connections)]
            for connection in idle[::2]:
                with suppress(OSError):  # closed to make room for a later one
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
            with httpx.Client(base_url=client.base_url, timeout=60) as another:
                assert another.get(f"{API}/health").status_code == 200
        assert is_closed(idle[0])  # the oldest one of whoever has most


def test_guesses_of_a_token_make_room_for_who_has_it(
    sqlite_url: str, token_file: str, few_connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "WRONG_TOKEN_WAITS_S", 600.0)
    guess = f"GET {API}/health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {'x' * 20}\r\n\r\n"
    with serving(sqlite_url, token_file=token_file) as client, ExitStack() as opened:
        for _ in range(2 * few_connections):
            opened.enter_context(connect(client)).sendall(guess.encode())
        answer = client.get(f"{API}/health", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200


def test_a_request_under_way_keeps_its_connection_and_one_client_has_half_of_all(
    sqlite_url: str, few_connections: int
) -> None:
    ask = f"GET {API}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with serving(sqlite_url) as client, ExitStack() as opened:
        following = [opened.enter_context(connect(client)) for _ in range(few_connections // 2)]
        for connection in following:
            connection.sendall(ask)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        refused = opened.enter_context(connect(client))
        refused.sendall(ask)
        assert refused.recv(65536).startswith(b"HTTP/1.1 503")
        other = opened.enter_context(connect(client, "127.0.0.2"))
        other.sendall(ask)
        assert other.recv(65536).startswith(b"HTTP/1.1 200")
        assert all(is_there(connection) for connection in following)


def test_who_asks_without_end_leaves_a_place_to_others(sqlite_url: str) -> None:
    slow = APIRouter()
    ends = threading.Event()

    @slow.get("/slow")
    async def waits(ask: Ask) -> bool:
        return await ask(lambda store: ends.wait(60), heavy=True)

    with (
        serving(sqlite_url, routers=[slow], heavy_reads=3, pool_size=6) as client,
        httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other,
        ThreadPoolExecutor(8) as threads,
    ):
        asked = [threads.submit(httpx.get, f"{client.base_url}/slow", timeout=60) for _ in range(3)]
        wait_until(lambda: sum(each.done() for each in asked) == 1, pause_s=0.1)  # it waited for HEAVY_WAIT_S
        mine = threads.submit(other.get, f"{client.base_url}/slow", timeout=60)
        light = other.get(f"{client.base_url}/api/v1/base-dirs", timeout=60)
        assert light.status_code == 200
        ends.set()
        assert mine.result().status_code == 200
        assert sorted(each.result().status_code for each in asked) == [200, 200, 429]


# --- texts ----------------------------------------------------------------------------------------------------------


def test_html_in_names_tags_and_remarks_stays_text(sqlite_url: str, tmp_path: Path) -> None:
    html = "<script>alert(1)<!--"
    job = tmp_path / "base" / html.replace("/", "")
    Log().version().scalar(1, html, 1.0).write_summary(job)
    Log().train(network=html).user_info(team=html).write_lineage(job)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
        store.job((tmp_path / "base", f"./{html}")).annotate(remark=html)
    with serving(sqlite_url) as client:
        (found,) = client.get(f"{API}/jobs").json()["jobs"]
        assert (found["remark"], found["fields"]["network"]) == (html, html)
        for path in (f"{API}/jobs", f"{API}/{found['url']}/tags", f"{API}/jobs?where={html}", f"/{html}"):
            answer = client.get(path)
            assert answer.headers["content-type"] in ("application/json", "application/problem+json")
            assert answer.headers["x-content-type-options"] == "nosniff"
