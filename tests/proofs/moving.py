"""`kill -9` at any moment of `move`: the base dir is completely at one of the two paths, and nothing is read again.

In: a run whose size counts kills on each database. Out: counts, or an AssertionError. A directory is renamed, and the
program that changes the store accordingly is killed at random moments and calls, until it succeeds; then the directory
is renamed back. At each moment every row is as it was before, and the rows that name the base dir have the one path or
the other; the new path is also in the changes that clients follow. Afterwards ingest reads no byte, and `verify` finds
no difference. The control commits each statement by itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy import Engine, event

from helpers.engines import opened
from helpers.ingesting import column, ingest
from helpers.kept_store import fill, rows_of
from lineage_store.errors import ExitCode
from proofs import ledger
from proofs.children import KILLED, at_once
from proofs.fatal_calls import Aim, preloaded
from proofs.programs import run_program
from proofs.proof import KINDS, SQLITE, Control, Outcome, Proof, Run

_MOST_CONTROLS = 200

Rows = dict[str, list[Any]]
_State = tuple[str, int]
"""Path and revision of the base dir."""


def _prove(run: Run) -> Outcome:
    return preloaded(run, "move", _prove_preloaded)


def _prove_preloaded(run: Run) -> Outcome:
    *attacked, failures = at_once([*(partial(_attack, run, kind) for kind in KINDS), partial(_control, run)])
    counts = [
        f"{kills:,} kills and {moves:,} moves on {kind}"
        for kind, (kills, moves, _) in zip(KINDS, attacked, strict=True)
    ]
    accounted = sum((each[2] for each in attacked), ledger.Ledger())
    return Outcome(
        (*counts, "0 rows lost, 0 between the paths", str(accounted)), (Control("one transaction", failures),)
    )


def _attack(run: Run, kind: str) -> tuple[int, int, ledger.Ledger]:
    chance, aim, kills, moves = run.chance(kind), Aim(), 0, 0
    with run.store(kind) as url:
        moved = _Moved(run, kind, url)
        while kills < run.size:
            before = moved.begin()
            while (ended := aim.kill(chance, moved.program)) != 0:
                assert ended in (KILLED, *moved.as_told), f"exit code {ended}: {moved.said.read_text()}"
                kills += ended == KILLED
                assert not (found := moved.complaint(before)), found
                if ended == moved.as_told[1]:
                    break
            moves += 1
            moved.assert_moved()
        with opened(url) as engine:
            return kills, moves, ledger.check(engine)


def _control(run: Run) -> int:
    """How often a base dir is at another path and whoever follows it is not told, when each statement is committed."""
    chance, aim = run.chance("control"), Aim()
    with run.store(SQLITE) as url:
        moved = _Moved(run, "control", url)
        for _ in range(_MOST_CONTROLS):
            before = moved.begin()
            while aim.kill(chance, partial(_piecemeal, moved.program)) == KILLED:
                if moved.complaint(before):
                    return 1
    return 0


class _Moved:
    """A base dir that goes to and fro between two paths."""

    as_told = (ExitCode.LED, ExitCode.USAGE)
    """The server has not noticed yet that the last one is gone; the last one had come to its end, which is told."""

    def __init__(self, run: Run, name: str, url: str) -> None:
        home = run.directory(name)
        self.said, self._url, self._old, self._new = home / "said.txt", url, home / "one", home / "two"
        fill(url, self._old)
        self._rest = self._all()[1]

    def begin(self) -> _State:
        """Rename the directory; what the store says of it."""
        if self._all()[0][0] == str(self._new):
            self._old, self._new = self._new, self._old
        self._old.rename(self._new)
        self.program = partial(run_program, self.said, "--database", self._url, "move", self._old, self._new)
        return self._all()[0]

    def complaint(self, before: _State) -> str:
        """What is neither as before nor as it is to be."""
        (path, revision), rest = self._all()
        for table in rest:
            if rest[table] != self._rest[table]:
                return f"{table} has changed"
        is_moved = path == str(self._new) and revision > before[1]
        return "" if is_moved or (path, revision) == before else f"{path} is at revision {revision}"

    def assert_moved(self) -> None:
        with opened(self._url) as engine:
            assert column(engine, "SELECT path FROM base_dir") == [str(self._new)]
            counts = ingest(engine, self._new).counts
            assert (counts.events, counts.bytes_read) == (0, 0), f"{counts.bytes_read} bytes were read again"

    def _all(self) -> tuple[_State, Rows]:
        """What moves, and the rest, but for the passes of ingest."""
        rows = rows_of(self._url)
        with opened(self._url) as engine:
            (path,), (revision,) = (
                column(engine, f"SELECT {name} FROM base_dir") for name in ("path", "revision")
            )
        return (path, revision), {
            name: rows[name] for name in rows if name not in ("base_dir", "ingest_cycle", "ingest_total")
        }


def _piecemeal(program: Any) -> None:
    event.listen(Engine, "after_cursor_execute", lambda _connection, cursor, *_: cursor.connection.commit())
    program()


PROOF = Proof(
    "move",
    "a base dir whose move is killed is at one of the two paths, whole, and nothing is read again",
    unit="kills on each database",
    ci_size=40,
    full_size=1_000,
    attacks=("operations",),
    prove=_prove,
)
