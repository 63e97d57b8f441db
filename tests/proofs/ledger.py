"""The ledger: every byte of every log file is ingested, quarantined or pending, and the rows are those of the bytes.

In: a store, and the log files it was made from. Out: how many files and bytes were accounted for, or an AssertionError
that names the file. Two readers must agree with the store: one that shares no code with it, and `verify`. Every other
proof ends with it; as a proof of its own, it must reject tampered stores.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Row, text

from helpers import oracle
from helpers.base_dirs import GOLDEN, copy_base_dir
from helpers.engines import opened
from helpers.ingesting import ingest
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.operations import verify
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.texts import from_stored, to_stored
from proofs.proof import KINDS, Control, Outcome, Proof, Run

_FILES = (
    "SELECT log_file.*, train_id, path FROM log_file JOIN train_job ON train_job.id = job_id"
    " JOIN base_dir ON base_dir.id = base_dir_id WHERE current AND log_file.state <> 'missing'"
)
_SUM = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM log_file WHERE current AND state <> 'missing'"
_GIVEN_UP = (
    "SELECT kind, bytes FROM ingest_problem WHERE job_id = :job_id AND file_no = :file_no"
    " AND kind IN ('damaged_bytes', 'undecodable_event')"
)
_SCALARS = (
    "SELECT tag, step, value FROM scalar_sample JOIN series USING (job_id, series_no)"
    " WHERE job_id = :job_id AND file_no = :file_no"
)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was accounted for."""

    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(self.files + other.files, self.size_bytes + other.size_bytes)

    def __str__(self) -> str:
        return f"ledger of {self.files:,} files closed"


def check(engine: Engine, settings: Settings | None = None) -> Ledger:
    """Account for every byte of every log file that is on disk; what could be read must have been."""
    for path, complaint in complaints(engine, settings or Settings()):
        raise AssertionError(f"{path}: {complaint}")
    with engine.connect() as connection:
        files, size_bytes = connection.execute(text(_SUM)).one()
    return Ledger(files, size_bytes)


def complaints(engine: Engine, settings: Settings) -> Iterator[tuple[str, str]]:
    """What does not add up, by the path of the log file: first what the oracle says, then what `verify` says."""
    with reading(engine) as session:  # one moment, though a daemon goes on
        for row in session.rows(text(_FILES)):
            path = Path(from_stored(row.path), from_stored(row.train_id), from_stored(row.name))
            try:
                _check_file(session, row, path.read_bytes())
            except AssertionError as error:
                yield str(path), str(error)
        base_dirs = session.rows(text("SELECT id, path FROM base_dir"))
    for number, base_dir in base_dirs:
        for verdict in verify.verify(engine, Path(from_stored(base_dir)), number, settings):
            yield from ((verdict.path, difference.what) for difference in verdict.differences)


def _check_file(session: Session, row: Row[Any], content: bytes) -> None:
    position, quarantined, payloads = 0, 0, []
    given_up: dict[str, int] = dict(session.rows(text(_GIVEN_UP), _key(row)))
    read = content[: row.byte_offset]
    while position < row.byte_offset:
        payload = oracle.sound_frame(read, position)
        end = _next_frame(read, position + 1) if payload is None else position + len(payload) + 16
        if payload is None:
            assert given_up, f"no frame at byte {position}, which counts as read"
            quarantined += end - position
        elif "undecodable_event" in given_up and not oracle.is_event(payload):
            quarantined += end - position
        else:
            payloads.append(payload)
        position = end
    assert quarantined == sum(given_up.values()), f"{given_up} given up, not {quarantined} bytes"
    assert position == row.byte_offset, f"the bookmark {row.byte_offset} is inside a frame"
    assert quarantined == row.quarantined_bytes, f"{row.quarantined_bytes} bytes given up, not {quarantined}"
    assert len(payloads) == row.event_count, f"{row.event_count} events of {len(payloads)} frames"
    assert row.byte_offset <= len(content) == row.size_bytes, f"{row.size_bytes} bytes of {len(content)}"
    assert oracle.sound_frame(content, position) is None, f"the frame at byte {position} was not read"
    if row.kind == "summary":
        found = session.rows(text(_SCALARS), _key(row))
        expected = _scalars(payloads)
        assert len(found) == len(expected), f"{len(found)} scalars, not {len(expected)}"
        assert {(tag, step): value for tag, step, value in found} == expected, "other scalars"


def _next_frame(read: bytes, position: int) -> int:
    """Where the next whole frame begins in the bytes that were read; behind them if there is none."""
    found = (at for at in range(position, len(read)) if oracle.sound_frame(read, at) is not None)
    return next(found, len(read))


def _scalars(payloads: Sequence[bytes]) -> dict[tuple[str, int], float | None]:
    """The last value of each step."""
    return {
        (to_stored(scalar.tag), scalar.step): None if math.isnan(scalar.value) else scalar.value
        for payload in payloads
        for scalar in oracle.scalars_in(payload)
    }


_OF_FILE = "job_id = :job_id AND file_no = :file_no"
_LAST_SAMPLE = (
    "(job_id, series_no, step) IN"
    " (SELECT job_id, series_no, last_step FROM series WHERE job_id = :job_id AND file_no = :file_no AND {})"
)
_OF_SCALARS = _LAST_SAMPLE.format("plugin = 'scalar'")
_OF_PAYLOADS = _LAST_SAMPLE.format("plugin <> 'scalar'")
TAMPERINGS = (
    f"UPDATE log_file SET byte_offset = byte_offset - 1 WHERE {_OF_FILE}",
    f"UPDATE log_file SET byte_offset = 0 WHERE {_OF_FILE}",
    f"UPDATE log_file SET quarantined_bytes = quarantined_bytes + 1 WHERE {_OF_FILE}",
    f"UPDATE log_file SET event_count = event_count + 1 WHERE {_OF_FILE}",
    f"UPDATE log_file SET size_bytes = size_bytes + 1 WHERE {_OF_FILE}",
    f"DELETE FROM scalar_sample WHERE {_OF_SCALARS}",
    f"UPDATE scalar_sample SET value = coalesce(value, 0) + 1 WHERE {_OF_SCALARS}",
    f"UPDATE scalar_sample SET wall_time = wall_time + 1 WHERE {_OF_SCALARS}",
    f"DELETE FROM payload_sample WHERE {_OF_PAYLOADS}",
    f"UPDATE payload_sample SET frame_offset = frame_offset + 1 WHERE {_OF_PAYLOADS}",
    f"UPDATE series SET sample_count = sample_count + 1 WHERE {_OF_FILE}",
    f"DELETE FROM lineage_event WHERE {_OF_FILE} AND kind = 'train'",
    f"UPDATE lineage_event SET content = '{{}}' WHERE {_OF_FILE} AND kind = 'train'",
)


def _prove(run: Run) -> Outcome:
    total, noticed = Ledger(), 0
    golden = copy_base_dir(GOLDEN / "summary_base", run.scratch / "golden")
    jobs = run.directory("jobs")
    for number in range(run.size):
        _write_job(jobs / f"job_{number}", run.chance("job", number))
    for kind in KINDS:
        with run.store(kind) as url, opened(url) as engine:
            ingest(engine, golden)
            ingest(engine, jobs, suspect_grace_s=0)
            total += check(engine)
            noticed += _tamper(engine, run.chance(kind))
    return Outcome((str(total),), (Control("honest rows", noticed),))


def _write_job(directory: Path, chance: random.Random) -> None:
    log = Log().version().histogram(0, "weights", [chance.random() for _ in range(5)])
    for step in range(chance.randint(2, 30)):
        log.scalars(step, {"loss": chance.gauss(0, 1), "lr": chance.choice([0.1, math.nan, math.inf])})
    if chance.random() < 0.5:
        log.damaged(chance.randrange(1, len(log.spans) - 1), chance.randrange(100))
    if chance.random() < 0.5:
        log.torn(chance.randint(1, 15))
    log.write_summary(directory).chmod(0o400)
    Log().train(network="Net", loss=chance.random()).evaluation({"acc": 0.5}).write_lineage(directory)


def _tamper(engine: Engine, chance: random.Random) -> int:
    """Falsify a row of every second job; how many were found out. The others must not be accused."""
    with writing(engine) as session:
        found = session.rows(text(f"{_FILES} AND train_id LIKE './job%' ORDER BY train_id, name"))
        jobs = [list(files) for _, files in groupby(found, key=lambda row: row.train_id)]
        tampered = {_falsify(session, files, chance) for files in jobs[::2]}
    accused = {os.path.basename(os.path.dirname(path)) for path, _ in complaints(engine, Settings())}
    assert accused == tampered, f"tampered but not noticed, or the reverse: {sorted(accused ^ tampered)[:3]}"
    return len(accused)


def _key(file: Row[Any]) -> dict[str, int]:
    return {"job_id": file.job_id, "file_no": file.file_no}


def _falsify(session: Session, files: Sequence[Row[Any]], chance: random.Random) -> str:
    """Change a row of one of a job's files; the name of the job."""
    changed = 0
    while not changed:
        tampering, file = text(chance.choice(TAMPERINGS)), chance.choice(files)
        changed = session.change(tampering, _key(file))
    return str(file.train_id).removeprefix("./")


PROOF = Proof(
    "ledger",
    "every byte is ingested, quarantined or pending, and every row is what the bytes say",
    unit="jobs",
    ci_size=100,
    full_size=2_000,
    attacks=("eventlog", "operations"),
    prove=_prove,
)
