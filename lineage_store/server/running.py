"""Runs the server: listens, reports the address, opens a browser, shuts down on a signal.

In: settings. Out: `run` returns after SIGTERM or SIGINT, once the requests under way have ended or their time is up.
Does not know: how requests are answered (`application`) and how connections are limited (`connections`).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import webbrowser
from collections.abc import Callable

import uvicorn

from lineage_store.config import Settings
from lineage_store.errors import ConfigError, ExitCode
from lineage_store.server.application import create_app, prefix_of
from lineage_store.server.connections import STOPS_WITHIN_S, server_of
from lineage_store.server.guard import is_loopback

log = logging.getLogger(__name__)

_LOOKS_EVERY_S = 0.2


def run(settings: Settings, *, say: Callable[[str], None], opens_browser: bool) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError for a setting that is not allowed, or a port that is taken.

    Args:
        say: called with a sentence that names the address.
        opens_browser: open the start page, if there is a graphical display.
    """
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    app = create_app(settings)
    with _listening(settings) as listener:
        address = _address(settings, listener)
        asks = f" It asks for the token in {settings.serve_token_file}." if settings.serve_token_file else ""
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
        log.error("A question was still under way when the server ended.")
        os._exit(ExitCode.OK)


def _open(server: uvicorn.Server, address: str) -> None:
    while not server.started:
        time.sleep(0.05)
    webbrowser.open(address)
