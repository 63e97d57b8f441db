"""The daemon that follows base dirs while the server runs, in a process of its own, because a daemon may exit.

In: base dirs, a database URL, a settings file. Out: a child process that runs the daemon, restarted when it exits.
Promises: the child ends with the server, even when the server is killed, because its standard input is then closed. It
is not restarted after an error that a restart cannot fix (wrong settings, a schema of another version).
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from lineage_store.errors import ExitCode
from lineage_store.setting_sources import ENVIRONMENT_PREFIX

log = logging.getLogger(__name__)

FINAL = (ExitCode.OK, ExitCode.USAGE, ExitCode.SCHEMA)
"""After these exit codes the daemon is not restarted."""
LEAST_WAIT_S, MOST_WAIT_S = 1.0, 60.0
STOPS_WITHIN_S = 30.0


class DaemonProcess:
    """A context manager that runs a daemon for the length of its block."""

    def __init__(
        self, base_dirs: Sequence[str], database_url: str, config_file: Path | None, *, recursive: bool
    ) -> None:
        flags = ["--recursive"] if recursive else []
        # -P: import nothing from the working directory, where anybody may have put a module.
        program = [sys.executable, "-P", "-m", "lineage_store", "daemon", "--until-eof"]
        self._command = [*program, *flags, "--", *map(os.path.abspath, base_dirs)]
        # The server notifies systemd, not the child. The URL is no argument: the process list would show its password.
        self._environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        self._environment[f"{ENVIRONMENT_PREFIX}DATABASE_URL"] = database_url
        if config_file is not None:
            self._environment[f"{ENVIRONMENT_PREFIX}CONFIG"] = str(config_file.absolute())
        self._ending, self._process = threading.Event(), self._start()
        self._thread = threading.Thread(target=self._look_after, daemon=True)

    def __enter__(self) -> DaemonProcess:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._process.terminate()
        self._thread.join(STOPS_WITHIN_S)
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - runs this program itself
            self._command, env=self._environment, stdin=subprocess.PIPE, start_new_session=True
        )

    def _look_after(self) -> None:
        wait_s = LEAST_WAIT_S
        while True:
            started = time.monotonic()
            code = self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            if self._ending.is_set() or code in FINAL:
                if code in FINAL and code != ExitCode.OK:
                    log.error(
                        "The daemon ended with exit code %s: mend that, and start the server anew.", code
                    )
                return
            wait_s = LEAST_WAIT_S if time.monotonic() - started > MOST_WAIT_S else wait_s
            log.warning("The daemon ended with exit code %s; it is started again in %g s.", code, wait_s)
            if self._ending.wait(wait_s):
                return
            wait_s, self._process = min(2 * wait_s, MOST_WAIT_S), self._start()
            if self._ending.is_set():
                self._process.terminate()
