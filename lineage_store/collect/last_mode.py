"""A log file gets its closed mode also when the process that writes it is killed, as by MindSpore's writer process.

In: an open file's descriptor and the mode. Out: a small process of its own that waits until ours is gone, however that
came, and then sets the mode. Promises: it writes nothing, outlives signals to the training's process group, and ends
with the training at the latest; where no process can be started, the file keeps its open mode when the training is
killed.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys

log = logging.getLogger(__name__)

_SCRIPT = """
import os, sys, time
writer, mode = map(int, sys.argv[1:])
while os.getppid() == writer:
    time.sleep(0.2)
os.fchmod(0, mode)
"""

Keeper = subprocess.Popen[bytes]


def keeper_of(descriptor: int, mode: int) -> Keeper | None:
    """The process that gives the file this mode when ours has ended; None where there can be none."""
    if not sys.executable or getattr(sys, "frozen", False):  # which would begin the training's program again
        return None
    command = [sys.executable, "-I", "-S", "-c", _SCRIPT, str(os.getpid()), str(mode)]
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(  # noqa: S603 - our own words
            command, stdin=descriptor, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
        )
    except OSError as error:
        log.info("A log file keeps its open mode when this process is killed: %s", error)
        return None


def dismiss(keeper: Keeper) -> None:
    """End a keeper whose file was closed."""
    keeper.kill()
    keeper.wait()
