"""A daemon's own metrics, at a port of this host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from helpers.program import PROGRAM, Run
from helpers.scraped import scraped


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def daemon(base_dir: Path) -> Iterator[str]:
    """The address of a daemon's metrics."""
    port = free_port()
    command = [str(PROGRAM), "daemon", str(base_dir), "--metrics-port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(os.environ)) as process:
        try:
            yield f"http://127.0.0.1:{port}/metrics"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_a_daemon_tells_its_metrics_to_its_host(on_each: str, base_dir: Path) -> None:
    with daemon(base_dir) as address:
        end = time.monotonic() + 60
        while True:
            try:
                found = scraped(httpx.get(address, timeout=60).text)
                if found.value("lineage_store_ingested_samples_total", base_dir=base_dir) == 4:
                    break
            except (httpx.TransportError, ValueError):  # not there yet; nothing of that name yet
                pass
            assert time.monotonic() < end, "the daemon does not tell what it has read"
            time.sleep(0.2)
        assert "process_cpu_seconds_total" in found.labels()
        refused = httpx.get(address, headers={"Host": "rebound.example"}, timeout=60)
        assert (refused.status_code, "lineage_store" in refused.text) == (421, False)


def test_a_port_that_is_taken_is_refused(run: Run, on_sqlite: str, base_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("daemon", base_dir, "--metrics-port", port)
    assert refused.code == 2
    assert f"Metrics cannot be served on port {port}" in refused.err


def test_without_the_extra_the_error_says_what_to_install(
    run: Run, on_sqlite: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    refused = run("daemon", base_dir, "--metrics-port", free_port())
    assert refused.code == 2
    assert "pip install 'lineage-store[web]'" in refused.err
