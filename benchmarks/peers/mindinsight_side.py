"""MindInsight's side of `make bench-peers`; runs in an environment of its own, so it imports nothing of ours.

In: one request per line, as JSON: ["load", job_dir], ["warm", base_dir], ["query", base_dir, condition],
["query_warm", condition] or ["serve", base_dir]. Out: a line of JSON each: the seconds, and the result (number of
tags, or the count and the ids, or the address of its server). Except in "serve", MindInsight's limit of 999 jobs is
lifted, because answers about the first 999 of 10,000 jobs would not be comparable.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

os.environ.setdefault("MINDINSIGHT_LOG_LEVEL", "4")

from mindinsight.datavisual.data_transform.data_manager import DataManager  # type: ignore[import-not-found]
from mindinsight.datavisual.data_transform.ms_data_loader import MSDataLoader  # type: ignore[import-not-found]
from mindinsight.datavisual.data_transform.summary_watcher import SummaryWatcher  # type: ignore[import-not-found]
from mindinsight.lineagemgr.cache_item_updater import LineageCacheItemUpdater  # type: ignore[import-not-found]
from mindinsight.lineagemgr.model import filter_summary_lineage  # type: ignore[import-not-found]

SummaryWatcher.MAX_SUMMARY_DIR_COUNT = 10**9
_warm: dict[str, Any] = {}


def load(job_dir: str) -> object:
    """Load all summary files of one job; return the number of tags."""
    loader = MSDataLoader(job_dir)
    loader.load()
    return len(loader.get_events_data().list_tags_by_plugin("scalar"))


def warm(base_dir: str) -> object:
    """Fill the server's cache of lineage once."""
    manager = _warm["manager"] = DataManager(base_dir)
    manager.register_brief_cache_item_updater(LineageCacheItemUpdater())
    for thread in manager.start_load_data(reload_interval=0):
        thread.join()
    return base_dir


def query(base_dir: str, condition: dict[str, Any]) -> object:
    """Query the files, with MindInsight's function."""
    return _shown(filter_summary_lineage(summary_base_dir=base_dir, search_condition=condition))


def query_warm(condition: dict[str, Any]) -> object:
    """Query the cache, as MindInsight's server does."""
    return _shown(filter_summary_lineage(data_manager=_warm["manager"], search_condition=condition))


def serve(base_dir: str) -> object:
    """Start MindInsight's server in a process that ends with this one; return its address once it has read all jobs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "gunicorn", "-b", address, "-w", "1", "--threads", "5"]
    environment = os.environ | {"MINDINSIGHT_SUMMARY_BASE_DIR": base_dir}
    server = subprocess.Popen(
        [*command, "mindinsight.backend.application:APP"], env=environment, stdout=sys.stderr
    )
    atexit.register(server.terminate)
    while True:
        try:
            with urllib.request.urlopen(
                f"http://{address}/v1/mindinsight/datavisual/train-jobs?limit=1"
            ) as answer:
                found = json.load(answer)
            if found["load_status"] == "loaded" and found["total"]:
                return address
        except (OSError, KeyError):
            pass
        time.sleep(0.2)


def _shown(answer: dict[str, Any]) -> object:
    return [answer["count"], [job["summary_dir"] for job in answer["object"]]]


REQUESTS: dict[str, Callable[..., object]] = {
    "load": load,
    "warm": warm,
    "query": query,
    "query_warm": query_warm,
    "serve": serve,
}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that the server ends too
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the libraries' output out of the answers
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        began = time.perf_counter()
        found = REQUESTS[name](*arguments)
        print(json.dumps([time.perf_counter() - began, found]), file=answers, flush=True)


if __name__ == "__main__":
    main()
