"""Log files are read in processes beside the server: whatever is in them, it goes on, and ends when it should."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from helpers import bombs
from helpers.log_writer import Log
from helpers.served import server_process, serving
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.server import decoding
from lineage_store.server.mindinsight.routes import BEGIN

API = "/api/v1"
JOB = "a"


@dataclass(frozen=True)
class Served:
    """A server of one job: its process id, and the requests for the job's payloads."""

    client: httpx.Client
    server: int
    key: str
    graph_tag: str

    def image(self) -> httpx.Response:
        return self._payload("image", "i", 1)

    def histogram(self) -> httpx.Response:
        return self._payload("histogram", "h", 1)

    def graph(self) -> httpx.Response:
        return self._payload("graph", self.graph_tag, 1)

    def mindinsights_graph(self) -> httpx.Response:
        asked = {"train_id": f"./{JOB}", "mode": "normal"}
        return self.client.get(f"{BEGIN}datavisual/graphs/nodes", params=asked)

    def _payload(self, plugin: str, tag: str, step: int) -> httpx.Response:
        asked: Mapping[str, Any] = {"plugin": plugin, "tag": tag, "step": step}
        return self.client.get(f"{API}/payload/{self.key}/{JOB}", params=asked)

    def readers(self) -> list[int]:
        """The process ids of those that read log files."""
        return [pid for pid in children_of(self.server) if "worker.serve" in command_of(pid)]


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:  # the thread has ended
            continue
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def has_ended(pid: int) -> bool:
    """Whether a process has ended with all of its threads, which its parent may not have asked yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return True


def peak_mebibytes(pid: int) -> int:
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in each)
    return int(line.split()[1]) >> 10


def job_with_graph(base_dir: Path, nodes: int) -> None:
    log = Log().image(1, "i", np.zeros((1, 1, 3), np.uint8)).histogram(1, "h", [0.0, 1.0])
    log.frame(bombs.graph_event(nodes)).write_summary(base_dir / JOB)


def ingested(url: str, base_dir: Path) -> str:
    """Ingest a base dir, and return the tag of its job's graph."""
    with LineageStore(url) as store:
        store.ingest(base_dir)
        (tag,) = store.job((base_dir, f"./{JOB}")).tags()["graph"]
    return tag


def of_server(client: httpx.Client, pid: int, tag: str) -> Served:
    (listed,) = client.get(f"{API}/base-dirs").json()["base_dirs"]
    return Served(client, pid, listed["key"], tag)


@pytest.fixture
def five_slow_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's own process answers five slow questions at once, of which one client has four."""
    monkeypatch.setenv("LINEAGE_STORE_LIMITS", "serve_heavy_reads=5")


@pytest.fixture
def bomb(sqlite_url: str, tmp_path: Path) -> str:
    """The tag of a graph of 3.8 MB that ingest takes, and that would take gigabytes."""
    job_with_graph(tmp_path / "base", 1_900_000)
    return ingested(sqlite_url, tmp_path / "base")


@contextmanager
def small_server(url: str, base_dir: Path, slow_questions: int = 1) -> Iterator[Served]:
    """A server in this process, on a job with a graph of three nodes."""
    job_with_graph(base_dir, 3)
    tag = ingested(url, base_dir)
    with serving(url, heavy_reads=slow_questions) as client:
        yield of_server(client, os.getpid(), tag)


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Stop processes for the length of a block: they look as if they read for ever."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if command_of(pid):
                os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_graph_that_would_take_gigabytes_is_refused_by_name_and_the_server_stays_small(
    sqlite_url: str, bomb: str, five_slow_questions: None, tmp_path: Path
) -> None:
    with server_process(sqlite_url) as (process, client), ThreadPoolExecutor(4) as clients:
        wait_until(lambda: client.get(f"{API}/health").status_code == 200)
        served = of_server(client, process.pid, bomb)
        assert served.image().status_code == 200
        before = peak_mebibytes(process.pid)
        ours = [clients.submit(served.graph) for _ in range(2)]
        theirs = [clients.submit(served.mindinsights_graph) for _ in range(2)]
        for answer in (each.result() for each in ours):
            assert (answer.status_code, answer.json()["kind"]) == (422, "payload_too_costly")
            assert re.search("MiB of memory|longer than|processor time", answer.json()["detail"])
            assert f"of {tmp_path}/base/{JOB}/" in answer.json()["detail"]
            assert "Python API" in answer.json()["remedy"]
        for answer in (each.result() for each in theirs):
            assert (answer.status_code, answer.json()["error_code"]) == (422, "5054500C")
            assert str(tmp_path) not in answer.text
        assert served.image().status_code == 200
        assert peak_mebibytes(process.pid) < before + 50


@pytest.mark.slow
def test_on_a_signal_the_server_ends_though_four_such_questions_are_under_way(
    sqlite_url: str, bomb: str, five_slow_questions: None
) -> None:
    with server_process(sqlite_url) as (process, client), ThreadPoolExecutor(4) as clients:
        wait_until(lambda: client.get(f"{API}/health").status_code == 200)
        served = of_server(client, process.pid, bomb)
        asked = [clients.submit(give_up, served.graph) for _ in range(4)]
        readers = list[int]()
        while len(readers) < 4:
            new = set(served.readers()) - set(readers)
            for pid in new:
                os.kill(pid, signal.SIGSTOP)  # so that none of them ends by itself
            readers += new
        process.send_signal(signal.SIGTERM)
        # A question may take 30 s; uvicorn ends in its own time, and then raises the signal again.
        assert process.wait(25) == -signal.SIGTERM
        wait_until(lambda: not any(map(command_of, readers)), what="end of the readers")
        for each in asked:
            each.result(60)


def give_up(ask: Any) -> None:
    try:
        ask()
    except httpx.TransportError:
        return


@pytest.mark.slow
def test_readers_end_with_a_server_that_is_killed(sqlite_url: str, bomb: str) -> None:
    with server_process(sqlite_url) as (process, client), ThreadPoolExecutor(1) as clients:
        wait_until(lambda: client.get(f"{API}/health").status_code == 200)
        served = of_server(client, process.pid, bomb)
        clients.submit(give_up, served.graph)
        readers = wait_until(served.readers)
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(command_of, readers)), what="end of the readers")


def test_a_reader_is_ended_when_its_client_goes(sqlite_url: str, tmp_path: Path) -> None:
    with small_server(sqlite_url, tmp_path) as served:
        assert served.graph().status_code == 200
        (reader,) = served.readers()
        with stopped([reader]):
            with pytest.raises(httpx.ReadTimeout):
                served.client.get(
                    f"{API}/payload/{served.key}/{JOB}",
                    params={"plugin": "graph", "tag": served.graph_tag, "step": 1},
                    timeout=1.0,
                )
            wait_until(lambda: reader not in served.readers(), what="end of the reader")
        assert served.graph().status_code == 200


def test_one_process_answers_one_question_after_the_other(sqlite_url: str, tmp_path: Path) -> None:
    with small_server(sqlite_url, tmp_path) as served:
        for _ in range(3):
            assert served.histogram().status_code == 200
            assert served.mindinsights_graph().status_code == 200
            assert served.image().status_code == 200
        assert len(served.readers()) == 1


def test_an_image_does_not_wait_for_a_slow_question(sqlite_url: str, tmp_path: Path) -> None:
    with small_server(sqlite_url, tmp_path) as served, ThreadPoolExecutor(1) as other:
        assert served.graph().status_code == 200
        (reader,) = served.readers()
        with stopped([reader]):
            asked = other.submit(served.graph)
            wait_until(lambda: "decoding" in {each.name for each in threading.enumerate()})
            assert served.image().status_code == 200
            assert not asked.done()
        assert asked.result(60).status_code == 200


@pytest.mark.slow
def test_who_finds_no_free_process_is_told_when_to_ask_again(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "WAITS_S", 0.5)
    with small_server(sqlite_url, tmp_path) as served, ThreadPoolExecutor(8) as others:
        assert served.graph().status_code == 200
        held: list[int] = []
        asked: list[Future[httpx.Response]] = []
        try:
            while not (refused := [each.result() for each in asked if each.done()]):
                for pid in set(served.readers()) - set(held):
                    os.kill(pid, signal.SIGSTOP)
                    held.append(pid)
                asked.append(others.submit(served.image))
                time.sleep(0.2)
                asked = [each for each in asked if not each.done() or each.result().status_code != 200]
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)
        assert {each.status_code for each in refused} == {503}
        assert refused[0].json()["kind"] == "readers_busy"
        assert refused[0].headers["retry-after"] == "1"
        monkeypatch.undo()
        assert served.image().status_code == 200


def test_a_disk_that_takes_too_long_is_told_by_name(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "BESIDE_S", 0.0)
    job_with_graph(tmp_path, 3)
    tag = ingested(sqlite_url, tmp_path)
    with serving(sqlite_url, reading_deadline_s=5.0) as client:
        served = of_server(client, os.getpid(), tag)
        wait_until(lambda: served.graph().status_code == 200)  # a busy machine may take so long for anything
        (reader,) = served.readers()
        with stopped([reader]):
            answer = served.graph()
        assert (answer.status_code, answer.json()["kind"]) == (422, "payload_too_costly")
        assert "Reading took longer than 5 s." in answer.json()["detail"]


@pytest.mark.slow
def test_a_question_that_takes_too_much_processor_time_is_refused_by_name(
    sqlite_url: str, tmp_path: Path
) -> None:
    job_with_graph(tmp_path, 100_000)
    tag = ingested(sqlite_url, tmp_path)
    with serving(sqlite_url, reading_deadline_s=0.1) as client:
        served = of_server(client, os.getpid(), tag)
        answer = served.graph()
        assert (answer.status_code, answer.json()["kind"]) == (422, "payload_too_costly")
        assert "Reading took more than 0.1 s of processor time." in answer.json()["detail"]
        assert f"of {tmp_path}/{JOB}/" in answer.json()["detail"]


def test_a_large_process_that_nobody_needs_ends(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "KEPT_BYTES", 0)
    monkeypatch.setattr(decoding, "IDLE_S", 0.1)
    with small_server(sqlite_url, tmp_path) as served:
        assert served.graph().status_code == 200
        wait_until(lambda: not served.readers(), what="end of the reader")
        assert served.graph().status_code == 200


def test_a_reader_that_was_killed_meanwhile_costs_no_answer(sqlite_url: str, tmp_path: Path) -> None:
    with small_server(sqlite_url, tmp_path) as served:
        assert served.graph().status_code == 200
        (reader,) = served.readers()
        os.kill(reader, signal.SIGKILL)
        wait_until(lambda: has_ended(reader), what="end of the reader")
        assert served.graph().status_code == 200


def test_a_process_that_reads_log_files_has_neither_the_web_framework_nor_the_database() -> None:
    making = ("own.payload_forms", "mindinsight.graphs", "mindinsight.landscapes", "mindinsight.tensors")
    imports = "; ".join(f"import lineage_store.server.{module}" for module in making)
    libraries = {"fastapi", "pydantic", "sqlalchemy", "starlette", "uvicorn"}
    script = f"import sys; {imports}; print(*sorted({libraries} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert loaded.stdout.split() == []
