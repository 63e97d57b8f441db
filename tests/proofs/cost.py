"""Cost: what is asked of a filled store takes work in proportion to the rows that it must look at.

In: a run whose size counts rows: for each respect in which a store can be full (metrics, tags, files, …) there are two
stores, one with so many and one with a quarter. Out: counts, or an AssertionError that names all questions whose work
grew more than the rows. Every view, verb and endpoint is asked. Nothing is timed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

from helpers.engines import opened
from helpers.ingesting import ingest
from proofs.cost_jobs import DIMENSIONS, write
from proofs.cost_questions import Call, Filled, Question, endpoints, verbs, views
from proofs.proof import KINDS, Outcome, Proof, Run
from proofs.work import Work, let_explain, metered

GROWTH = 4
"""How many times as much the larger store of a pair has."""
TOLERANCE = 1.3
SLACK = Work(2_000, 10, 10_000)
"""What is no matter, however it grows."""


def _prove(run: Run) -> Outcome:
    found = []
    for kind in KINDS[:1]:
        for dimension in os.environ.get("COST_ONLY", ",".join(DIMENSIONS)).split(","):
            found += list(_excesses(run, kind, dimension))
    for each in found:
        print(each)
    return Outcome((), ())


def _excesses(run: Run, kind: str, dimension: str) -> Iterator[str]:
    with ExitStack() as lifetime, metered() as meter:
        small, large = (
            _filled(run, lifetime, kind, dimension, count) for count in (run.size // GROWTH, run.size)
        )
        for (question, ask), (_, ask_more) in zip(_questions(small), _questions(large), strict=True):
            try:
                before, after = meter.taken(ask), meter.taken(ask_more)
            except Exception as error:
                yield f"FAILED {kind}, {dimension}: {question.name}: {str(error)[:300]}"
                continue
            most = 1.0 if dimension == "jobs" and question.of != "store" else GROWTH
            for what in ("rows", "statements", "calls"):
                few, many = getattr(before, what), getattr(after, what)
                allowed = 1.0 if what == "statements" and question.sends == "few" else most
                if many > TOLERANCE * allowed * few + getattr(SLACK, what):
                    yield f"{kind}, {dimension}: {question.name}: {few:,} {what} -> {many:,} ({many / max(1, few):.1f})"


def _filled(run: Run, lifetime: ExitStack, kind: str, dimension: str, count: int) -> Filled:
    base_dir = run.directory(f"{kind}_{dimension}_{count}".replace(" ", "_"))
    write(base_dir, dimension, count)
    url = lifetime.enter_context(run.store(kind))
    with opened(url) as engine:
        ingest(engine, base_dir, suspect_grace_s=0)
    let_explain(url)
    return Filled(url, base_dir, run.directory(f"{base_dir.name}_scratch"))


def _questions(at: Filled) -> Iterator[tuple[Question, Call]]:
    yield from views(at)
    yield from endpoints(at)
    yield from verbs(at)


PROOF = Proof(
    "cost",
    "what is asked takes work in proportion to the rows that it must look at",
    unit="rows",
    ci_size=1_600,
    full_size=10_000,
    prove=_prove,
)
