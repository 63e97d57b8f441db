"""`kill -9` at any moment of `db copy`: run again, it goes on, and the copy equals the source, row by row.

In: a run whose size counts kills for each pair of databases. Out: counts, or an AssertionError. The program is killed
again and again, at random moments and calls, and run again as docs/operations.md says. Until it is done, opening the
target raises an error that names the reason; then every row of every table equals the source's, also labels, removed
jobs and jobs without log files, `verify` finds no difference, and a further run says that all is copied. The source
does not change. One control commits rows apart from the progress, the other opens the target without the mark.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from helpers.engines import opened
from helpers.kept_store import fill, rows_of
from helpers.program import PROGRAM
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError, SchemaTooOldError, UnfinishedCopyError
from lineage_store.operations import store_copy
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import upgrade
from proofs import ledger
from proofs.children import KILLED, at_once
from proofs.fatal_calls import Aim, preloaded
from proofs.programs import run_program
from proofs.proof import KINDS, POSTGRESQL, SQLITE, Control, Outcome, Proof, Run, emptied

PAIRS = [(source, target) for source in KINDS for target in KINDS]
_MOST_CONTROLS = 20


class _Attacked:
    """What came of an attack on one pair of databases."""

    def __init__(self) -> None:
        self.kills = self.half = self.copies = 0
        self.taken_for_whole = 0
        """Copies that were half there and would have been used without the mark."""
        self.accounted = ledger.Ledger()


def _prove(run: Run) -> Outcome:
    return preloaded(run, "copy", _prove_preloaded)


def _prove_preloaded(run: Run) -> Outcome:
    *attacked, failures = at_once([*(partial(_attack, run, *pair) for pair in PAIRS), partial(_control, run)])
    kills = [
        f"{each.kills:,} kills from {pair[0]} to {pair[1]}"
        for each, pair in zip(attacked, PAIRS, strict=True)
    ]
    counts = (
        *kills,
        f"{sum(each.half for each in attacked):,} of them half way, refused by name",
        f"{sum(each.copies for each in attacked):,} copies, 0 rows lost, 0 twice",
        str(sum((each.accounted for each in attacked), ledger.Ledger())),
    )
    taken = sum(each.taken_for_whole for each in attacked)
    return Outcome(counts, (Control("one transaction", failures), Control("the mark", taken)))


def _attack(run: Run, source_kind: str, target_kind: str) -> _Attacked:
    name, attacked = f"{source_kind}_{target_kind}", _Attacked()
    chance, aim = run.chance(name), Aim(0.5, 500.0)
    with run.store(source_kind) as source:
        fill(source, run.directory(name), jobs=chance.randint(4, 9), steps=chance.randint(3, 12))
        before = rows_of(source)
        while attacked.kills < run.size:
            new = run.store if chance.random() < 0.7 else partial(emptied, run)
            with new(target_kind) as target:
                said = run.scratch / f"{name}.txt"
                copy = partial(_copy, said, source, target)
                while (ended := aim.kill(chance, copy)) == KILLED:
                    attacked.kills += 1
                    _see_half(target, before, attacked)
                assert ended == 0, said.read_text()
                assert rows_of(target) == before, "a row of the copy is not the source's"
                with opened(target) as engine:
                    attacked.accounted += ledger.check(engine)
                attacked.copies += 1
                _assert_told_as_whole(source, target)
        assert rows_of(source) == before, "the source has changed"
    return attacked


def _see_half(target: str, source: dict[str, list[Any]], attacked: _Attacked) -> None:
    """Open what a killed copy has left."""
    try:
        LineageStore(target, read_only=True, settings=Settings()).close()
    except UnfinishedCopyError:
        if rows_of(target) != source:
            attacked.half += 1
            with mock.patch.object(upgrade, "UNFINISHED_COPY", "nothing"):
                LineageStore(target, read_only=True, settings=Settings()).close()
            attacked.taken_for_whole += 1
    except (SchemaTooOldError, DatabaseUnavailableError) as error:
        if not any(words in str(error) for words in ("no lineage store", "killed while it made this file")):
            raise
    else:
        rows = rows_of(target)
        assert rows == source or not any(rows.values()), "half a copy is taken for a store"


def _assert_told_as_whole(source: str, target: str) -> None:
    """As an operator whose terminal is gone asks whether it has come to its end."""
    again = subprocess.run(
        [PROGRAM, "db", "copy", source, target], check=False, capture_output=True, text=True
    )
    assert (again.returncode, again.stdout[:21]) == (0, "Copied and compared: "), again.stderr


def _control(run: Run) -> int:
    """How often a copy that was killed is refused or another one than its source, when rows are committed apart."""
    chance, aim = run.chance("control"), Aim()
    with run.store(SQLITE) as source:
        fill(source, run.directory("control"))
        before = rows_of(source)
        for _ in range(_MOST_CONTROLS):
            with emptied(run, POSTGRESQL) as target:
                copy = partial(_copy, run.scratch / "control.txt", source, target, apart=True)
                while (ended := aim.kill(chance, copy)) == KILLED:
                    pass
                if ended or rows_of(target) != before:
                    return 1
    return 0


# --- what runs in the children ---


def _copy(said: Path, source: str, target: str, *, apart: bool = False) -> None:
    """`db copy` in many transactions."""
    store_copy.ROWS_AT_A_TIME, store_copy.SAMPLES_AT_A_TIME, store_copy._BATCHES = 3, 5, 1
    if apart:
        append = store_copy.append

        def append_apart(session: Session, *rest: Any) -> Iterator[store_copy.Rows]:
            yield from append(session, *rest)
            session.connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]

        vars(store_copy)["append"] = append_apart
    run_program(said, "db", "copy", source, target)


PROOF = Proof(
    "copy",
    "a copy that is killed goes on, is no store before its end, and then is its source row by row",
    unit="kills for each pair of databases",
    ci_size=12,
    full_size=1_000,
    attacks=("operations",),
    prove=_prove,
)
