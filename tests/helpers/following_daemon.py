"""A daemon that follows a settings file in a process of its own, with its log; or one in a thread of this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.program import PROGRAM
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import LIMIT_FIELDS


@contextmanager
def following_here(store: LineageStore, *base_dirs: Path) -> Iterator[None]:
    """Run a daemon in a thread of this process."""
    stop = threading.Event()
    thread = threading.Thread(target=store.run_daemon, args=(base_dirs,), kwargs={"stop": stop})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


_LIMITS = "# limits: "


@dataclass
class Daemon:
    """A daemon process that follows the base dirs of a settings file."""

    file: Path
    process: subprocess.Popen[str]
    logged: list[dict[str, Any]] = field(default_factory=list)

    def says(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.logged if line["message"] == message]

    def kill(self) -> None:
        """Kill the process, whatever it does."""
        self.process.kill()
        self.process.wait()

    def reload(self, answer: str, **settings: object) -> dict[str, Any]:
        """Let the daemon read these settings; return what it logs about them."""
        before = len(self.says(answer))
        write(self.file, **settings)
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(self.says(answer)) > before)
        return self.says(answer)[-1]


def write(file: Path, **settings: object) -> None:
    """Write a settings file; limits, which no file has, stand in its first line for `daemon`."""
    eager = {"poll_interval_s": 0.05, "discovery_interval_s": 0.05, "log_format": "json"}
    limits = {field.name for field in LIMIT_FIELDS} & settings.keys()
    lines = [_LIMITS + " ".join(f"{name}={settings[name]}" for name in sorted(limits))]
    given = {name: value for name, value in {**eager, **settings}.items() if name not in limits}
    lines += [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    file.write_text("\n".join(lines))


@contextmanager
def daemon(file: Path, url: str, *arguments: object) -> Iterator[Daemon]:
    command = [str(PROGRAM), "--config", str(file), "daemon", *map(str, arguments)]
    limits = file.read_text().partition("\n")[0].removeprefix(_LIMITS) if file.exists() else ""
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url, "LINEAGE_STORE_LIMITS": limits}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        running = Daemon(file, process)
        assert process.stderr is not None
        lines = process.stderr

        reader = threading.Thread(target=lambda: running.logged.extend(map(json.loads, lines)))
        reader.start()
        try:
            wait_until(lambda: running.says("started"))
            yield running
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
        finally:
            process.kill()
            reader.join()
