"""Kills before calls: processes in which `fatal_calls.c` counts writes, sends, fsyncs, unlinks and truncations.

In: work. Out: what it returns, or how it ended. The counting library must be loaded when a process starts: `preloaded`
starts a process for a proof, whose forks can then be killed at a call. Kills at random calls and kills at random
moments find different defects.
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar
from unittest import mock

from proofs.children import KILLED, forked, shared_library
from proofs.proof import Run, Stores

T = TypeVar("T")


def preloaded(run: Run, name: str, work: Callable[[Run], T]) -> T:
    """Do work where `kill_at` works, with stores and a directory of its own. Raises SkippedError without a compiler."""
    library = shared_library("fatal_calls.c", run.scratch)
    with (
        mock.patch.dict(os.environ, {"LD_PRELOAD": str(library)}),
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
    ):
        return process.submit(_work, work, run.size, run.seed, run.directory(name)).result()


def _work(work: Callable[[Run], T], size: int, seed: int, scratch: Path) -> T:
    del os.environ["LD_PRELOAD"]  # servers and other programs need no library
    with ExitStack() as lifetime:
        run = Run(size, seed, scratch, Stores(scratch, lifetime))
        run.stores.start()
        return work(run)


def kill_at(call: int) -> None:
    """Let this process die before its call of a number; -1: at none."""
    ctypes.CDLL(None).kill_at_call(ctypes.c_long(call))


@dataclass(slots=True)
class Aim:
    """When to kill, so that most kills meet a process at work."""

    latest_s: float = 0.2
    last_call: float = 150.0

    def kill(
        self,
        chance: random.Random,
        work: Callable[[], object],
        begun: Callable[[int], object] = lambda _: None,
    ) -> int:
        """Kill a fork that does some work, at a random moment or call; how it ended. `begun` is told its number."""
        at_call = chance.random() < 0.5
        call = chance.randint(1, round(self.last_call)) if at_call else -1
        with forked(partial(_until, call, work)) as child:
            begun(child.pid)
            ended = child.wait() if at_call else child.kill_after(chance.uniform(0, self.latest_s))
        sooner_or_later = 1.1 if ended == KILLED else 0.7  # one in five comes to its end
        if at_call:
            self.last_call *= sooner_or_later
        else:
            self.latest_s *= sooner_or_later
        return ended


def _until(call: int, work: Callable[[], object]) -> None:
    kill_at(call)
    work()
