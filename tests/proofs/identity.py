"""However files are rewritten, renamed, copied, linked, removed and restored, each path shows its own content.

Random histories, many side by side in a base dir, are followed by single ingests, and by a daemon's follower that
remembers what it saw; either is started anew now and then. The model is a few lines: a path shows the scalars of its
file, once that has a complete frame, and of a removed file those that it showed last. Only contents distinguish files:
rewritten ones may keep their size, inode and modification time. The control takes an inode for a file.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy import Engine

from helpers import oracle
from helpers.engines import opened
from helpers.ingesting import ingest, rows
from helpers.log_writer import FIRST_WALL_TIME, Log
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.read import log_reader
from lineage_store.ingest.scan.discovery import path_of
from proofs import ledger
from proofs.children import at_once
from proofs.proof import KINDS, SQLITE, Control, Outcome, Proof, Run

AT_ONCE = 50
"""So many histories share a base dir."""
ROUNDS = 3
PATIENCE_S = 30.0
NAMES = [f"events.out.events.summary.{1_700_000_000 + number}.0.host_MS" for number in range(2)]
_SHOWN = (
    "SELECT train_id, name, step, value FROM scalar_sample JOIN series USING (job_id, series_no)"
    " JOIN log_file USING (job_id, file_no) JOIN train_job ON train_job.id = job_id WHERE current"
)

Scalars = dict[int, float]


@dataclass
class _History:
    """The jobs of one history: what is on disk, and what the store is to show, by the path below the base dir."""

    base_dir: Path
    name: str
    chance: random.Random
    shown: dict[str, Scalars] = field(default_factory=dict)
    numbers: Any = field(default_factory=count)

    def act(self) -> None:
        """Do something to a file."""
        files = self.files()
        actions: list[Callable[[Path], None]] = [self.append, self.tear, self.rewrite, self.rewrite_alike]
        actions += [self.replace, self.rename, self.rename_job, self.copy_job, self.link, self.remove]
        if not files or self.chance.random() < 0.1:
            self.write(self.new_path(), self.content(self.chance.randint(0, 20)))
        else:
            self.chance.choice(actions)(self.chance.choice(files))

    def files(self) -> list[Path]:
        """The log files that are on disk."""
        return sorted(self.base_dir.glob(f"{self.name}_*/events*"))

    def settle(self) -> None:
        """Give every file whole frames."""
        for path in self.files():
            self.write(path, self.content(5))

    def expect(self) -> dict[str, Scalars]:
        """What the store is to show after a pass."""
        for path in self.files():
            _, scalars = _whole(path.read_bytes())
            name = str(path.relative_to(self.base_dir))
            if scalars:
                self.shown[name] = scalars
        return self.shown

    # --- actions ---

    def append(self, path: Path) -> None:
        """Frames behind the whole ones."""
        end, scalars = _whole(path.read_bytes())
        log = self.log()
        for step in range(len(scalars), len(scalars) + self.chance.randint(1, 10)):
            self.add(log, step)
        with path.open("r+b") as stream:
            stream.truncate(end)
            stream.seek(end)
            stream.write(log.content)

    def tear(self, path: Path) -> None:
        """The file loses its end, or is empty."""
        size = path.stat().st_size
        os.truncate(path, self.chance.choice((0, size // 2, max(0, size - 1))))

    def rewrite(self, path: Path) -> None:
        """Other content of any size, in the same inode."""
        self.write(path, self.content(self.chance.randint(0, 30)))

    def rewrite_alike(self, path: Path) -> None:
        """Other content of the same size, and of the same modification time."""
        status = path.stat()
        self.write(path, self.content(len(_whole(path.read_bytes())[1])))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def replace(self, path: Path) -> None:
        """As rsync does: a temporary file, then renamed."""
        temporary = path.with_name(f".{path.name}.Ab12cd")
        temporary.write_bytes(self.content(self.chance.randint(0, 30)))
        if self.chance.random() < 0.8:
            temporary.replace(path)

    def rename(self, path: Path) -> None:
        """Another name in the same job, perhaps over another file."""
        path.replace(path.with_name(self.chance.choice(NAMES)))

    def rename_job(self, path: Path) -> None:
        """Another name for the whole job."""
        path.parent.rename(self.new_path().parent)

    def copy_job(self, path: Path) -> None:
        """`cp -a`."""
        shutil.copytree(path.parent, self.new_path().parent)

    def link(self, path: Path) -> None:
        """The same inode in a job of its own."""
        other = self.new_path()
        other.parent.mkdir()
        os.link(path, other)

    def remove(self, path: Path) -> None:
        """Gone, and perhaps another one made at once, which often gets its inode."""
        path.unlink()
        if self.chance.random() < 0.5:
            self.write(path, self.content(self.chance.randint(1, 30)))

    # --- contents ---

    def new_path(self) -> Path:
        """A file of a job that is not there yet."""
        return self.base_dir / f"{self.name}_{next(self.numbers)}" / self.chance.choice(NAMES)

    def write(self, path: Path, content: bytes) -> None:
        """Put content into a file, in the inode it has."""
        path.parent.mkdir(exist_ok=True)
        with path.open("r+b" if path.exists() else "xb") as stream:
            stream.write(content)
            stream.truncate()

    def content(self, steps: int) -> bytes:
        """So many steps; equal sizes for equal numbers."""
        log = self.log()
        for step in range(steps):
            self.add(log, step)
        return log.content

    def log(self) -> Log:
        return Log(wall_time=FIRST_WALL_TIME + self.chance.randrange(1 << 30))

    def add(self, log: Log, step: int) -> None:
        log.scalar(step, "loss", float(self.chance.randrange(1, 1 << 20)))


def _whole(content: bytes) -> tuple[int, Scalars]:
    """Where the whole frames end, and their scalars."""
    end = 0
    scalars: Scalars = {}
    while (payload := oracle.sound_frame(content, end)) is not None:
        end += len(payload) + 16
        scalars |= {each.step: each.value for each in oracle.scalars_in(payload)}
    return end, scalars


# --- following the histories ---


def _prove(run: Run) -> Outcome:
    run.stores.start()
    halves = at_once([partial(_follow_many, run, kind) for kind in KINDS])
    passes, accounted = (
        sum(passes for passes, _ in halves),
        sum((files for _, files in halves), ledger.Ledger()),
    )
    counts = f"{run.size:,} histories in {passes:,} passes", "0 skipped, 0 repeated", str(accounted)
    return Outcome(counts, (Control("fingerprint and anchor", _count_mistaken(run)),))


def _follow_many(run: Run, kind: str) -> tuple[int, ledger.Ledger]:
    """Follow this kind of store's half of the histories; how many looks were taken, and the ledger."""
    accounted, looks = ledger.Ledger(), 0
    half = (run.size + KINDS.index(kind)) // len(KINDS)
    for number, first in enumerate(range(0, half, AT_ONCE)):
        with run.store(kind) as url, opened(url) as engine:
            base_dir = run.directory(f"{kind}_{number}")
            histories = _begin(run, base_dir, min(AT_ONCE, half - first))
            follow = (_Ingests, _Daemon)[number % 2](engine, base_dir)
            looks += _follow(engine, base_dir, histories, follow, run.chance(kind, number))
            accounted += ledger.check(engine)
            shutil.rmtree(base_dir)
    return looks, accounted


def _begin(run: Run, base_dir: Path, how_many: int) -> list[_History]:
    return [_History(base_dir, f"h{n}", run.chance(base_dir.name, n)) for n in range(how_many)]


@dataclass
class _Ingests:
    """One ingest after the other."""

    engine: Engine
    base_dir: Path

    def look(self) -> None:
        """Take in what has changed."""
        ingest(self.engine, self.base_dir)

    def restart(self) -> None:
        """Forget what is remembered."""
        self.engine.dispose()


@dataclass
class _Daemon:
    """A daemon's follower at quick ticks."""

    engine: Engine
    base_dir: Path
    follower: Follower | None = None

    def look(self) -> None:
        """Take in what has changed, as far as a tick does."""
        self.follower = self.follower or Follower(self.engine, self.base_dir, QUICK)
        time.sleep(QUICK.discovery_interval_s)
        self.follower.tick()

    def restart(self) -> None:
        """Forget what is remembered."""
        if self.follower is not None:
            self.follower.close()
            self.follower = None


QUICK = Settings(poll_interval_s=0.05, discovery_interval_s=0.05, finished_interval_s=1)


def _follow(
    engine: Engine,
    base_dir: Path,
    histories: list[_History],
    follow: _Ingests | _Daemon,
    chance: random.Random,
) -> int:
    """Let things happen and look; how many looks were taken."""
    looks = 0
    for round_number in range(ROUNDS + 1):
        for history in histories:
            for _ in range(history.chance.randint(1, 3)):
                history.act()
            if round_number == ROUNDS:
                history.settle()
        if chance.random() < 0.3:
            follow.restart()
        expected = {name: shown for history in histories for name, shown in history.expect().items()}
        deadline = time.monotonic() + (PATIENCE_S if isinstance(follow, _Daemon) else 0)
        while True:
            follow.look()
            looks += 1
            wrong = _differences(_shown(engine), expected)
            if not wrong or time.monotonic() > deadline:
                break
        assert not wrong, f"{len(wrong)} paths in round {round_number}: {base_dir / wrong[0]}"
    follow.restart()
    return looks


def _shown(engine: Engine) -> dict[str, Scalars]:
    """What the store shows, by path; a step that is there twice fails."""
    found: dict[str, Scalars] = defaultdict(dict)
    for row in rows(engine, _SHOWN):
        path = f"{row.train_id.removeprefix('./')}/{row.name}"
        assert row.step not in found[path], f"step {row.step} is there twice: {path}"
        found[path][row.step] = row.value
    return found


def _differences(found: dict[str, Scalars], expected: dict[str, Scalars]) -> list[str]:
    return sorted(path for path in {*found, *expected} if found.get(path) != expected.get(path))


def _count_mistaken(run: Run) -> int:
    """How many paths show what they do not hold when an inode stands for a file."""
    base_dir, mistaken = run.directory("control"), 0

    def other_inode(file: Any, size_bytes: int, *_: Any) -> bool:
        if not file.stat_stamp:
            return False
        inode = os.stat(path_of(base_dir, file.train_id, file.name)).st_ino
        return str(inode) != file.stat_stamp.partition(":")[0] or size_bytes < int(file.byte_offset)

    with (
        run.store(SQLITE) as url,
        opened(url) as engine,
        mock.patch.object(log_reader, "is_rewritten", other_inode),
    ):
        histories = _begin(run, base_dir, AT_ONCE)
        for _ in range(ROUNDS):
            for history in histories:
                history.act()
            ingest(engine, base_dir)
            expected = {name: shown for history in histories for name, shown in history.expect().items()}
            mistaken += len(_differences(_shown(engine), expected))
    return mistaken


PROOF = Proof(
    "identity",
    "each path shows what it holds, whatever is done to files",
    unit="histories",
    ci_size=600,
    full_size=10_000,
    attacks=("ingest",),
    prove=_prove,
)
