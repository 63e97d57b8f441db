"""Neighbours: hostile jobs in a base dir do not delay the honest jobs beside them.

In: a run whose size counts hostile jobs. Out: numbers, or an AssertionError. A daemon, the real program, is started in
the base dir and follows it; some honest jobs grow, some hostile ones are replaced by links after they were read. Then:
each honest sample came soon and all are there, the daemon and its children took little memory, nothing outside was
opened (the kernel watches) or is in the store, no foreign code was run, and views and `verify` answer.
The controls: links that are followed, and an interpreter that is started in the base dir without protection.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from helpers.contents import natural_contents
from helpers.engines import opened
from helpers.ingesting import column, ingest, rows
from helpers.log_writer import Log
from helpers.program import PROGRAM
from helpers.watching import exchange, unopened
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest.read.batch import fill
from lineage_store.ingest.scan.survey import find_files
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.views import VIEWS
from proofs.children import at_once
from proofs.hostile_jobs import CANARY, KINDS, Place, make
from proofs.proof import KINDS as STORES
from proofs.proof import SQLITE, Control, Outcome, Proof, Run

LATEST_S = 3.0
"""What is promised for the 99th of a hundred samples."""
_LATEST_HERE_S = 30.0
"""What is not the fault of a busy machine any more."""
MOST_BYTES = 512 << 20
_HONEST, _GROWS_EVERY_S, _GROWTHS = 5, 0.5, 24
_SWAPPED = 4
_LATEST = (
    "SELECT train_id, max(step) AS step FROM train_job JOIN series ON series.job_id = train_job.id"
    " JOIN scalar_sample USING (job_id, series_no) WHERE train_id LIKE './honest%' GROUP BY train_id"
)


def _prove(run: Run) -> Outcome:
    counts = []
    for kind in STORES:
        place = _place(run, kind)
        kinds = Counter(make(place, number, run.chance(kind, number)) for number in range(run.size))
        with run.store(kind) as url, opened(url) as engine:
            with unopened(place.outside), _daemon(place, url, run.scratch / f"{kind}_log") as daemon:
                late, most_bytes = _grow(place, engine, daemon)
                _await_all(place, engine)
            counts.append(
                f"{run.size:,} hostile jobs of {len(kinds)} kinds on {kind}: of {len(late):,} samples 99 % within"
                f" {_nearly_latest(late):.1f} s ({LATEST_S:.0f} s are promised), {most_bytes >> 20:,} MiB"
            )
            assert max(late) <= _LATEST_HERE_S, f"a sample came after {max(late):.0f} s, {counts[-1]}"
            assert most_bytes <= MOST_BYTES, f"the daemon took {most_bytes >> 20} MiB"
            counts.append(_audit(place, engine, url))
    (followed,) = at_once([partial(_follow_links, run)])
    return Outcome(tuple(counts), (Control("refusing links", followed), Control("-P", _run_planted(run))))


def _place(run: Run, name: str) -> Place:
    home = run.directory(f"{name}_{os.getpid()}")
    place = Place(home / "base", home / "outside", home / "mark")
    place.prepare()
    return place


@contextmanager
def _daemon(place: Place, url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program, as somebody starts it who stands in the base dir."""
    swapped = [place.base_dir / f"swapped_{number}" for number in range(_SWAPPED)]
    for job in swapped:
        Log().scalar(1, "loss", 0.5).write_summary(job)
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url}
    environment.pop("PYTHONPATH", None)
    with (
        log.open("wb") as words,
        subprocess.Popen(
            [PROGRAM, "daemon", "."], cwd=place.base_dir, env=environment, stdout=words, stderr=words
        ) as process,
    ):
        try:
            yield process
            assert process.poll() is None, f"the daemon ended: {log.read_text()[-500:]}"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, f"the daemon ended so: {log.read_text()[-500:]}"
        finally:
            process.kill()


def _grow(place: Place, engine: Engine, daemon: subprocess.Popen[bytes]) -> tuple[list[float], int]:
    """Let honest jobs grow: how late each step was seen in SQL, and the most memory that the daemon took."""
    logs = {f"./honest_{number}": Log() for number in range(_HONEST)}
    written: dict[tuple[str, int], float] = {}
    late: list[float] = []
    step, most_bytes, grows_at = 0, 0, 0.0
    end = time.monotonic() + _GROWTHS * _GROWS_EVERY_S + 2 * _LATEST_HERE_S
    while step < _GROWTHS or written:
        assert time.monotonic() < end, f"{len(written)} samples never came, such as {min(written)}"
        assert daemon.poll() is None, "the daemon ended"
        # Its first samples count from when it leads: how long a program takes to start is not asked here.
        leads = step or column(engine, "SELECT count(*) FROM ingest_lease WHERE epoch > 0") != [0]
        if leads and step < _GROWTHS and time.monotonic() >= grows_at:
            step, grows_at = step + 1, time.monotonic() + _GROWS_EVERY_S
            for train_id, log in logs.items():
                log.scalar(step, "loss", step / 7).write_summary(place.base_dir / train_id)
                written[train_id, step] = time.monotonic()
            place.disturb(step)
            if step == _GROWTHS // 2:
                _swap(place)
        seen, now = {row.train_id: row.step for row in rows(engine, _LATEST)}, time.monotonic()
        for of, since in list(written.items()):
            if seen.get(of[0], 0) >= of[1]:
                late.append(now - since)
                del written[of]
        most_bytes = max(most_bytes, _proportional_bytes(daemon.pid))
        time.sleep(0.05)
    return late, most_bytes


def _swap(place: Place) -> None:
    """Put links in the place of what was a job."""
    for number in range(_SWAPPED):
        (link := place.base_dir.parent / f"link_{number}").symlink_to(place.outside)
        exchange(place.base_dir / f"swapped_{number}", link)


def _nearly_latest(late: list[float]) -> float:
    return sorted(late)[len(late) * 99 // 100]


def _proportional_bytes(pid: int) -> int:
    """What a process and its children take, what they share counted once."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if pid in (int(path.name), parent):
                pss = next(line for line in (path / "smaps_rollup").open() if line.startswith("Pss:"))
                total += int(pss.split()[1]) * 1024
        except (OSError, StopIteration):
            continue
    return total


def _await_all(place: Place, engine: Engine) -> None:
    """Wait until what is hostile has been looked at too."""
    end = time.monotonic() + 600
    read = (
        "SELECT count(*) FROM log_file WHERE current AND state <> 'missing'"
        " AND (byte_offset > 0 OR suspect_since IS NOT NULL OR state <> 'live')"
    )
    there = len(find_files(place.base_dir, Settings()).files)
    while column(engine, read) != [there]:
        assert time.monotonic() < end, f"{there - column(engine, read)[0]} log files are still not read"
        time.sleep(0.1)


def _audit(place: Place, engine: Engine, url: str) -> str:
    """What the store must hold, and must not."""
    ingest(engine, place.base_dir)  # what changed while the daemon was told to end
    assert not place.mark.exists(), f"code of others was run: {place.mark.read_text()}"
    contents = natural_contents(engine)
    assert CANARY not in repr(contents), "what is outside the base dir is in the store"
    honest = column(
        engine,
        "SELECT count(*) FROM train_job JOIN series ON series.job_id = train_job.id"
        " JOIN scalar_sample USING (job_id, series_no) WHERE train_id LIKE './honest%'",
    )
    assert honest == [_HONEST * _GROWTHS], f"{honest} honest samples, not {_HONEST * _GROWTHS}"
    for view in VIEWS:
        rows(engine, f"SELECT * FROM {view.name}")
    with LineageStore(url, settings=Settings(), read_only=True) as store:
        verdicts = list(store.verify(place.base_dir))
        different = [each for each in verdicts if each.differences]
        assert not different, f"{len(different)} files differ, such as {different[0]}"
        assert len(list(store.iter_lineage())) == len(store.filter_lineage()["object"])
        store.status()
    return f"{len(verdicts):,} files verified: 0 differ"


# --- controls ---


def _follow_links(run: Run) -> int:
    """How often what is outside was read where links are followed; for a process of its own."""
    place = _place(run, "control")
    for number in range(_SWAPPED):
        Log().scalar(1, "loss", 0.5).write_summary(place.base_dir / f"swapped_{number}")
    with run.store(SQLITE) as url, opened(url) as engine:
        ingest(engine, place.base_dir)
        with reading(engine) as session:
            known, now = registry.known_files(session, 1), session.now()
    _swap(place)
    assert not _opened_outside(place, known, now), "what is outside was read"
    vars(os)["O_NOFOLLOW"] = 0
    return _opened_outside(place, known, now)


def _opened_outside(place: Place, files: Iterable[KnownFile], now: datetime) -> int:
    """How many log files, known and looked at before they were swapped, are read where links lead."""
    opened_outside = 0
    for file in files:
        try:
            with unopened(place.outside):
                fill(place.base_dir, [file], Settings(), now)
        except AssertionError:
            opened_outside += 1
    return opened_outside


def _run_planted(run: Run) -> int:
    """How many modules an interpreter takes from where it stands."""
    place = _place(run, "planted")
    for module in ("numpy", "psycopg"):
        subprocess.run(
            [sys.executable, "-c", f"import {module}"],
            cwd=place.base_dir,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    return (
        sum(place.mark.read_text().count(module) for module in ("numpy", "psycopg"))
        if place.mark.exists()
        else 0
    )


PROOF = Proof(
    "neighbours",
    "a hostile or damaged job costs itself alone",
    unit="hostile jobs",
    ci_size=2 * len(KINDS),
    full_size=1_000,
    attacks=("ingest",),
    prove=_prove,
)
