"""Cost: what is asked of a filled store takes work in proportion to the rows that it must look at.

In: a run whose size counts rows: for each respect in which a store can be full (metrics, tags, files, …) there are two
stores, one with so many and one with a quarter. Out: counts, or an AssertionError that names the questions whose work
grew more than fourfold. What looks at one job, or at a page of jobs, may not grow with the number of jobs. All views,
verbs and endpoints are asked on SQLite, views and endpoints on PostgreSQL. Nothing is timed, and nothing is random. The
controls: a view that joins by a calculated name, and a column that is asked for job by job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from helpers.engines import opened
from helpers.ingesting import ingest
from lineage_store.query import jobs
from lineage_store.query.job_sql import Want, compile_rows
from lineage_store.store.database.sql import Query, listed
from lineage_store.store.schema import upgrade
from proofs.cost_jobs import DIMENSIONS, write
from proofs.cost_questions import Call, Filled, Question, endpoints, verbs, views
from proofs.proof import KINDS, POSTGRESQL, SQLITE, Control, Outcome, Proof, Run
from proofs.work import Work, let_explain, metered

GROWTH = 4
"""How many times as much the larger store of a pair has."""
TOLERANCE = 1.3
SLACK = Work(rows=2_000, statements=10, calls=10_000)
"""What is no matter, however it grows."""
_ROWS_OF_SMALL_TABLES = 15_000
"""The same of rows on PostgreSQL, where each statement rather reads a table of few pages whole than by an index."""
_CONTROL_SIZE = 400
Fault = Callable[[Filled], AbstractContextManager[object]]


@dataclass(slots=True)
class _Found:
    """What was asked, and which of it took too much."""

    questions: int = 0
    statements: int = 0
    excesses: list[str] = field(default_factory=list)


def _prove(run: Run) -> Outcome:
    found = _Found()
    for kind in KINDS:
        for dimension in DIMENSIONS:
            _look(found, run, kind, dimension, run.size, _everything if kind == SQLITE else _answers)
    assert not found.excesses, "\n".join([f"{len(found.excesses)} grew too much:", *found.excesses])
    counts = (
        f"{found.questions:,} questions of stores full in {len(DIMENSIONS)} respects",
        f"{found.statements:,} statements",
        f"none grew more than {TOLERANCE:g} times as much as the rows",
    )
    return Outcome(
        counts,
        (
            Control("keys of metrics", _failures(run, "lineage", _calculated_names)),
            Control("asking for all jobs at once", _failures(run, "jobs", _job_by_job)),
        ),
    )


def _look(
    found: _Found,
    run: Run,
    kind: str,
    dimension: str,
    size: int,
    asked: Callable[[Filled], Iterator[tuple[Question, Call]]],
    fault: Fault = lambda _: nullcontext(),
) -> None:
    """Ask the same of two stores of a kind, one fourfold the other in one respect."""
    with ExitStack() as lifetime, metered() as meter:
        small, large = (_filled(run, lifetime, kind, dimension, count) for count in (size // GROWTH, size))
        for each in (small, large):
            lifetime.enter_context(fault(each))
        for (question, ask), (_, ask_more) in zip(asked(small), asked(large), strict=True):
            before, after = meter.taken(ask), meter.taken(ask_more)
            found.questions += 2
            found.statements += before.statements + after.statements
            found.excesses += _excesses(
                f"{dimension} on {kind}: {question.name}", question, dimension, before, after
            )


def _excesses(name: str, question: Question, dimension: str, before: Work, after: Work) -> Iterator[str]:
    may_grow = 1 if dimension == "jobs" and question.of != "store" else GROWTH
    for what in ("rows", "statements", "calls"):
        few, many = getattr(before, what), getattr(after, what)
        most = 1 if what == "statements" and question.sends == "few" else may_grow
        slack = _ROWS_OF_SMALL_TABLES if what == "rows" and POSTGRESQL in name else getattr(SLACK, what)
        if many > TOLERANCE * most * few + slack:
            yield f"{name}: {few:,} {what}, then {many:,}, {many / max(1, few):.1f} times as many"


def _filled(run: Run, lifetime: ExitStack, kind: str, dimension: str, count: int) -> Filled:
    base_dir = run.directory(f"base_{len(list(run.scratch.iterdir()))}")
    write(base_dir, dimension, count)
    url = lifetime.enter_context(run.store(kind))
    with opened(url) as engine:
        ingest(engine, base_dir, suspect_grace_s=0)
        with engine.begin() as connection:
            connection.exec_driver_sql("ANALYZE")  # as ingest does where more has changed
    let_explain(url)
    return Filled(url, base_dir, run.directory(f"{base_dir.name}_scratch"))


def _everything(at: Filled) -> Iterator[tuple[Question, Call]]:
    yield from _answers(at)
    yield from verbs(at)


def _answers(at: Filled) -> Iterator[tuple[Question, Call]]:
    yield from views(at)
    yield from endpoints(at)


# --- the controls ---


def _failures(run: Run, dimension: str, fault: Fault) -> int:
    found = _Found()
    _look(found, run, SQLITE, dimension, _CONTROL_SIZE, _answers, fault)
    return len(found.excesses)


@contextmanager
def _calculated_names(at: Filled) -> Iterator[None]:
    with opened(at.url) as engine, engine.begin() as connection:
        (view,) = connection.exec_driver_sql(
            "SELECT sql FROM sqlite_master WHERE name = 'v_metric_latest'"
        ).one()
        for which, key in (("first", "(m.name_key | 1)"), ("best", "(m.name_key & -2)")):
            assert key in view
            view = view.replace(f"name_key = {key}", f"name = '{which}/' || m.name")
        connection.exec_driver_sql("DROP VIEW v_metric_latest")
        connection.exec_driver_sql(view)
    with mock.patch.object(upgrade, "attest"):  # which refuses a store with such a view
        yield


@contextmanager
def _job_by_job(_: Filled) -> Iterator[None]:
    read, one_job = jobs._read, compile_rows("sqlite", Want(lineage=True), every=True)

    def each(session: Any, rows: Any, want: Any, paths: Any) -> Any:
        for job_id, *_ in rows:
            session.rows(Query(one_job), wanted=listed("sqlite", [job_id]))
        return read(session, rows, want, paths)

    with mock.patch.object(jobs, "_read", each):
        yield


PROOF = Proof(
    "cost",
    "what is asked takes work in proportion to the rows that it must look at",
    unit="rows",
    ci_size=400,
    full_size=10_000,
    attacks=("query", "server"),
    prove=_prove,
)
