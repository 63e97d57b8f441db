"""Power cuts under SQLite while remarks are written: no confirmed remark is lost.

In: a run, and how often to cut. Out: how many remarks were confirmed, and how many the control lost, which writes them
without syncing, like rows from log files. Does not know how power is cut (`powercut`).
"""

from __future__ import annotations

import mmap
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from sqlalchemy import text

from helpers.engines import opened
from helpers.ingesting import ingest
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.store.database import db
from proofs import disk
from proofs.children import forked
from proofs.proof import SQLITE, Run

_MOST_CONTROLS = 20
_MOST_REMARKS = 200
_WITHIN_S = 60


def cut_remarks(run: Run, cuts: int) -> tuple[int, int]:
    """(remarks that were taken before the power was cut, those of them that the control lost)."""
    base_dir, of_all = run.directory("remarked"), 0
    Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    with run.store(SQLITE) as url:
        with opened(url) as engine:
            ingest(engine, base_dir)
        attack = partial(
            _cut_once, run.scratch / "remarks.img", Path(url.removeprefix("sqlite:///")), base_dir
        )
        for number in range(cuts):
            taken, kept = attack(run.chance("remarks", number).randint(1, _MOST_REMARKS), lambda: None)
            assert kept >= taken, f"remark {taken} was taken, {kept} is what the power cut left"
            of_all += taken
        for _ in range(_MOST_CONTROLS):
            taken, kept = attack(_MOST_REMARKS, _write_unsynced)
            if kept < taken:
                return of_all, taken - kept
    return of_all, 0


def _cut_once(
    image: Path, store: Path, base_dir: Path, after: int, fault: Callable[[], None]
) -> tuple[int, int]:
    """The numbers of the last remark that was taken before the cut, and of the one that is there afterwards.

    The power is cut when `after` remarks were taken, or a few more.
    """
    disk.make(image)
    written = mmap.mmap(-1, 8)
    with disk.mounted(image) as mount:
        url = f"sqlite:///{shutil.copy(store, mount)}"
        os.sync()
        with forked(partial(_write_remarks, url, base_dir, written, fault)):
            end = time.monotonic() + _WITHIN_S
            while (taken := _number(written)) < after:
                assert time.monotonic() < end, f"{taken} remarks within {_WITHIN_S} s"
                time.sleep(0.001)
            disk.cut(mount)
    with disk.mounted(image), opened(url) as engine, engine.connect() as connection:
        return taken, int(connection.execute(text("SELECT remark FROM annotation")).scalar() or 0)


def _write_remarks(url: str, base_dir: Path, written: mmap.mmap, fault: Callable[[], None]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it says of its disk is of no interest
    fault()
    with LineageStore(url) as store:
        for number in count(1):
            store.job((base_dir, "./job")).annotate(remark=str(number))
            written[:] = number.to_bytes(8)


def _number(written: mmap.mmap) -> int:
    return int.from_bytes(written[:])


def _write_unsynced() -> None:
    real = db.writing
    db.writing = partial(real, synced=False)
