"""`lineage-store serve` as a process: what it prints, its daemon, how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from helpers.log_writer import Log
from helpers.program import PROGRAM
from helpers.waiting import wait_until
from lineage_store import LineageStore

_EAGER = {"POLL_INTERVAL_S": "0.05", "DISCOVERY_INTERVAL_S": "0.05", "LEASE_S": "1"}


@contextmanager
def served(url: str, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The program, and a client of it."""
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url}
    environment |= {f"LINEAGE_STORE_{name}": value for name, value in _EAGER.items()}
    command = [str(PROGRAM), "serve", "--port", "0", "--no-open", *map(str, arguments)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            address = next(found[0] for line in lines if (found := re.search(r"http://\S+/", line)))
            with httpx.Client(base_url=address, timeout=60) as client:
                yield process, client
        finally:
            process.kill()


def jobs(client: httpx.Client) -> int:
    answer = client.get("api/v1/train-jobs")
    return len(answer.json()["jobs"]) if answer.status_code == 200 else 0


def daemon_of(process: subprocess.Popen[str]) -> int | None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    every = [path.read_text().split() for path in children.parent.parent.glob("*/children")]
    pids = [int(pid) for found in every for pid in found]
    return pids[0] if pids else None


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_with_a_base_dir_it_follows_that_and_ends_its_daemon(postgres_url: str, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    Log().train(network="LeNet5").write_lineage(base_dir / "one")
    with served(postgres_url, base_dir) as (process, client):
        wait_until(lambda: jobs(client) == 1)
        Log().train(network="LeNet5").write_lineage(base_dir / "two")
        wait_until(lambda: jobs(client) == 2)
        daemon = daemon_of(process)
        assert daemon is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not is_there(daemon)


@pytest.mark.slow
def test_a_daemon_that_was_killed_is_started_anew(sqlite_url: str, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    Log().train(network="LeNet5").write_lineage(base_dir / "one")
    with served(sqlite_url, base_dir) as (process, client):
        wait_until(lambda: jobs(client) == 1)
        killed = daemon_of(process)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        Log().train(network="LeNet5").write_lineage(base_dir / "two")
        wait_until(lambda: jobs(client) == 2)
        assert daemon_of(process) not in (None, killed)


@pytest.mark.slow
def test_its_daemon_ends_even_when_the_server_is_killed(sqlite_url: str, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    Log().train(network="LeNet5").write_lineage(base_dir / "one")
    with served(sqlite_url, base_dir) as (process, client):
        wait_until(lambda: jobs(client) == 1)
        daemon = daemon_of(process)
        assert daemon is not None
        process.kill()
        wait_until(lambda: not is_there(daemon))


def test_without_a_base_dir_it_shows_what_is_there(sqlite_url: str, tmp_path: Path) -> None:
    Log().train(network="LeNet5").write_lineage(tmp_path / "base" / "one")
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
    with served(sqlite_url) as (process, client):
        assert jobs(client) == 1
        assert "lineage_store" in client.get("").text
        assert daemon_of(process) is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_another_asgi_server_serves_the_application_of_the_environment(
    sqlite_url: str, tmp_path: Path
) -> None:
    Log().train(network="LeNet5").write_lineage(tmp_path / "base" / "one")
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
    environment = {
        **os.environ,
        "LINEAGE_STORE_DATABASE_URL": sqlite_url,
        "LINEAGE_STORE_SERVE_URL_PATH_PREFIX": "/p",
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]  # free again when this is closed
    command = [sys.executable, "-m", "uvicorn", "lineage_store.server:app", "--port", str(port)]
    with (
        subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/p/", timeout=60) as client,
    ):
        try:
            wait_until(lambda: answers(client))
            assert jobs(client) == 1
        finally:
            server.kill()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("").status_code == 200
    except httpx.ConnectError:
        return False


def refusal(url: str, *arguments: object) -> str:
    """What the program says that does not begin to serve."""
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url}
    command = [str(PROGRAM), "serve", "--no-open", *map(str, arguments)]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    return refused.stderr


def test_a_port_that_is_taken_is_told(sqlite_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = refusal(sqlite_url, "--port", taken.getsockname()[1])
    assert "Address already in use" in told
    assert "--port" in told


def test_another_address_needs_a_token(sqlite_url: str) -> None:
    assert "--token-file" in refusal(sqlite_url, "--port", 0, "--host", "0.0.0.0")
