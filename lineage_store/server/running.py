"""Runs the server: listens, reports the address, shuts down on a signal; and a daemon beside it.

In: settings; base dirs to follow. Out: `run_server` returns after SIGTERM or SIGINT, once the requests under way have
ended or their time is up. Promises: the daemon is a process of its own, because a daemon may exit, and is restarted
when it does, unless a restart cannot fix why (wrong settings, a schema of another version). It ends with the server,
even when the server is killed, because its standard input is then closed.
Does not know: how requests are answered (`application`) and how connections are limited (`connections`).
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from lineage_store.config import ENVIRONMENT_PREFIX, Settings
from lineage_store.errors import ConfigError, ExitCode
from lineage_store.server.application import application_for, prefix_of
from lineage_store.server.connections import STOPS_WITHIN_S, server_of
from lineage_store.server.guard import is_loopback

log = logging.getLogger(__name__)

_LOOKS_EVERY_S = 0.2
FINAL = (ExitCode.OK, ExitCode.USAGE, ExitCode.SCHEMA)
"""After these exit codes the daemon is not restarted."""
LEAST_WAIT_S, MOST_WAIT_S = 1.0, 60.0
CHILD_STOPS_WITHIN_S = 30.0


def run_server(settings: Settings, *, say: Callable[[str], None], opens_browser: bool) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError for a setting that is not allowed, or a port that is taken.

    Args:
        say: called with a sentence that names the address.
        opens_browser: open the start page, if there is a graphical display.
    """
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    app = application_for(settings)
    with _listening(settings) as listener:
        address = _address(settings, listener)
        asks = f" It requires the token in {settings.serve_token_file}." if settings.serve_token_file else ""
        say(f"Serving at {address} (Ctrl-C ends it).{asks}")
        server = server_of(app)
        ended = threading.Event()
        threading.Thread(target=_end_in_time, args=(server, ended), daemon=True).start()
        if opens_browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            threading.Thread(target=_open, args=(server, address), daemon=True).start()
        try:
            server.run([listener])
        except KeyboardInterrupt:  # uvicorn raises it again after a clean shutdown
            return
        finally:
            ended.set()


def _listening(settings: Settings) -> socket.socket:
    host, port = settings.serve_host, settings.serve_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"The server cannot listen at {host}, port {port}: {getattr(error, 'strerror', None) or error}.",
            hint="Name another port (--port; 0 takes any that is free) or address (--host).",
        ) from error


def _address(settings: Settings, listener: socket.socket) -> str:
    host = settings.serve_host if is_loopback(settings.serve_host) else socket.gethostname()
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}{prefix_of(settings)}/"


def _end_in_time(server: uvicorn.Server, ended: threading.Event) -> None:
    """End the process when the server takes too long to end: a thread cannot be ended, and it may wait for a disk."""
    while not server.should_exit:
        if ended.wait(_LOOKS_EVERY_S):
            return
    if not ended.wait(STOPS_WITHIN_S):
        log.error("A question was still running when the server ended.")
        os._exit(ExitCode.OK)


def _open(server: uvicorn.Server, address: str) -> None:
    while not server.started:
        time.sleep(0.05)
    webbrowser.open(address)


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
        self._thread.join(CHILD_STOPS_WITHIN_S)
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
                    log.error("The daemon ended with exit code %s: fix that, and restart the server.", code)
                return
            wait_s = LEAST_WAIT_S if time.monotonic() - started > MOST_WAIT_S else wait_s
            log.warning("The daemon ended with exit code %s; restarting it in %g s.", code, wait_s)
            if self._ending.wait(wait_s):
                return
            wait_s, self._process = min(2 * wait_s, MOST_WAIT_S), self._start()
            if self._ending.is_set():
                self._process.terminate()
