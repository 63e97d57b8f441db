"""Give a log file its closed mode even if the process that writes it is killed, as MindSpore's writer process does.

In: an open file's descriptor and the mode. Out: a small keeper process that waits until our process has ended for any
reason, and then sets the mode. Promises: the keeper writes nothing, gets no signals to the training's process group,
and ends within a second of the training's process. If it cannot be started, a killed training leaves the file in its
open mode.
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
    """Start the process that gives the file this mode when ours has ended; return None if it cannot be started."""
    if not sys.executable or getattr(sys, "frozen", False):  # frozen: would rerun the training
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
