"""SQLite and PostgreSQL give the same answer, which is the one of the rules; floats come back bit by bit.

Random conditions are asked of the same jobs in two stores; page, order, count and every object must agree with each
other, and with the rules in Python. A million floats of random bits are written as samples and read from both: they
must come back unchanged, except for the sign of zero on SQLite and the payloads of NaN. The controls let each database
sort missing values in its own way, and expect another last bit of every thousandth float.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given
from numpy.typing import NDArray
from sqlalchemy import Engine

from helpers import condition_oracle
from helpers.answers import filter_lineage, iter_lineage
from helpers.conditions import FLOAT_FIELDS, INTEGER_FIELDS, JOBS, METRICS, TEXT_FIELDS, conditions
from helpers.engines import opened
from helpers.log_writer import Log
from helpers.stored_jobs import add_base_dir, add_job
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.query import job_sql
from lineage_store.query.condition_dict import parse
from lineage_store.store.database.db import open_engine, reading, writing
from proofs import ledger
from proofs.children import at_once
from proofs.proof import KINDS, SQLITE, Control, Outcome, Proof, Run

TAGS = ("a", "b", "c", "d")
FLOATS_IN_EVENT = len(TAGS) + 1
MOST_FLOATS, FLOATS_PER_CONDITION = 1_000_000, 1_000
SORTABLE = (*FLOAT_FIELDS, *INTEGER_FIELDS, *TEXT_FIELDS, *METRICS[:1], "tag")


def _prove(run: Run) -> Outcome:
    with ExitStack() as stores:
        urls = [stores.enter_context(run.store(kind)) for kind in KINDS]
        for url in urls:
            _store_jobs(url)
        (unlike,) = at_once([partial(_count_unlike, urls)])  # before this process opens SQLite
        _compare(run, urls)
    floats, flipped, accounted = _compare_floats(run)
    counts = f"{run.size:,} conditions, 0 answers differ", f"{floats:,} floats, 0 bits differ", str(accounted)
    controls = Control("a rule for what is missing", unlike), Control("the last bits", flipped)
    return Outcome(counts, controls)


# --- conditions ---


def _store_jobs(url: str) -> None:
    with opened(url) as engine, writing(engine) as session:
        base_dir_id = add_base_dir(session)
        for job in JOBS:
            add_job(session, job, base_dir_id)


def _compare(run: Run, urls: list[str]) -> None:
    """Ask all stores random conditions."""

    @hypothesis.seed(run.seed)
    @hypothesis.settings(
        max_examples=run.size,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(condition=conditions)
    def ask(condition: dict[str, Any]) -> None:
        assert _answers_agree(engines, condition), f"answers differ: {condition}"

    with ExitStack() as open_engines:
        engines = [open_engines.enter_context(opened(url)) for url in urls]
        ask()


def _answers_agree(engines: list[Engine], condition: Mapping[str, Any]) -> bool:
    """Whether all stores give the same answer, and the one that the rules give."""
    expected = condition_oracle.matching(JOBS, condition)
    page = condition_oracle.page(expected, condition)
    answers = []
    for engine in engines:
        parsed = parse(dict(condition), base_dir="/logs")
        with reading(engine) as session:
            answer = filter_lineage(session, parsed, None)
        listed = [item["summary_dir"] for item in iter_lineage(partial(reading, engine), parsed)]
        found = [item["summary_dir"] for item in answer["object"]]
        if (found, answer["count"], listed) != (page, len(expected), expected):
            return False
        answers.append(json.dumps(answer))
    return len(set(answers)) == 1


def _count_unlike(urls: list[str]) -> int:
    """How many orders differ when each database puts what is missing where it likes. For a process of its own."""

    def of(rank: job_sql.Rank, column: Any) -> Any:
        return column.desc() if rank.descending else column.asc()

    engines = [open_engine(url) for url in urls]
    with mock.patch.object(job_sql.Rank, "of", of):
        return sum(
            not _answers_agree(engines, {"sorted_name": name, "sorted_type": direction})
            for name in SORTABLE
            for direction in ("ascending", "descending")
        )


# --- floats ---


def _compare_floats(run: Run) -> tuple[int, int, ledger.Ledger]:
    """How many floats came back as they were; how many would not have, with other last bits; the ledger."""
    count = min(MOST_FLOATS, run.size * FLOATS_PER_CONDITION) // FLOATS_IN_EVENT
    chance = np.random.default_rng(run.seed)
    times = chance.integers(0, 1 << 64, count, np.uint64).view(np.float64)
    times[~np.isfinite(times)] = 0.5  # those are no times: the store keeps NULL
    values = chance.integers(0, 1 << 32, (count, len(TAGS)), np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaN among the random bits
        wide = values.astype(np.float64)
    base_dir = run.directory("floats")
    _write(base_dir / "job", times, values)
    flipped, accounted = 0, ledger.Ledger()
    for kind in KINDS:
        with run.store(kind) as url, LineageStore(url, settings=Settings()) as store:
            store.ingest(base_dir)
            for number, tag in enumerate(TAGS):
                found = store.job((base_dir, "./job")).scalars(tag)
                assert np.array_equal(found.steps, np.arange(count)), f"other steps on {kind}"
                for came, went in (
                    (found.wall_times, times),
                    (found.values, wide[:, number]),
                ):
                    different = _count_different(came, went, signed_zero=kind != SQLITE)
                    assert different == 0, f"{different} floats of {tag} differ on {kind}"
                    other = went.copy()
                    other.view(np.uint64)[::1000] ^= 1
                    flipped += _count_different(came, other, signed_zero=kind != SQLITE)
            accounted += ledger.check(store.engine)
    return count * FLOATS_IN_EVENT, flipped, accounted


def _write(job: Path, times: NDArray[np.float64], values: NDArray[np.float32]) -> None:
    """A summary file with an event for each time and row of values."""
    log = Log()
    for step, (time, row) in enumerate(zip(times.tolist(), values, strict=True)):
        scalars = b"".join(
            b"\x0a\x08\x0a\x01" + tag.encode() + b"\x1d" + row[number].tobytes()
            for number, tag in enumerate(TAGS)
        )
        log.frame(
            b"\x09"
            + struct.pack("<d", time)
            + b"\x10"
            + _varint(step)
            + b"\x2a"
            + _varint(len(scalars))
            + scalars
        )
    log.write_summary(job)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _count_different(found: NDArray[np.float64], written: NDArray[np.float64], *, signed_zero: bool) -> int:
    """How many differ in any bit; one NaN is as good as another, and without signed zeros, so are zeros."""
    same = found.view(np.uint64) == written.view(np.uint64)
    same |= np.isnan(found) & np.isnan(written)
    if not signed_zero:
        same |= (found == 0) & (written == 0)
    return int((~same).sum())


PROOF = Proof(
    "same",
    "both databases give one answer, the one that the rules give, and every float bit by bit",
    unit="conditions",
    ci_size=500,
    full_size=10_000,
    attacks=("query", "base"),
    prove=_prove,
)
