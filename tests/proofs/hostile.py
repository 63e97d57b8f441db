"""Hostile text stays text, wherever it comes in.

In: a run whose size counts hostile strings. Out: counts, or an AssertionError. Each comes in at one of these places: a
condition's fields, operators, values, sort keys and types; tags, ids, base dirs; the words of the command line; and, in
log files, the names of jobs, hosts, tags, metrics, user entries, networks and datasets. Then: it is in no SQL text
(only in parameters), no file outside the base dir is opened, no output has a control character, a traceback or the
canary password, every refusal is one of the documented errors, and stored text comes back unchanged.
"""

from __future__ import annotations

import io
import json
import os
import random
import sqlite3
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Dialect, Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SAWarning

from helpers.contents import natural_contents
from helpers.engines import opened
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.cli import app, main, output, session, tables
from lineage_store.cli.verbs import jobs
from lineage_store.errors import MindInsightException
from lineage_store.store.database import db, sql
from proofs import ledger
from proofs.children import at_once
from proofs.hostile_texts import CANARY, MARK, as_file_name, as_proto_text, hostile_text
from proofs.proof import KINDS, Control, Outcome, Proof, Run

_CONTROL_SIZE = 1_000
_HARMLESS_CODES = frozenset({0, 1, 2, 3, 5})
_ESCAPING = (app, output, jobs, session, tables)
_STARRING = (app, db)


def _prove(run: Run) -> Outcome:
    run.stores.start()
    share = -(-run.size // len(KINDS))
    attacks = [partial(_attack, run, kind, share, lambda: None) for kind in KINDS]
    without = {"binding": _write_values_out, "escaping": _escape_nothing, "starring": _star_nothing}
    controls = [partial(_attack, run, KINDS[1], _CONTROL_SIZE, fault) for fault in without.values()]
    found = at_once([*attacks, *controls])
    held, failed = found[: len(KINDS)], found[len(KINDS) :]
    for each in held:
        assert not each.breaches, f"{len(each.breaches)} breaches, such as {each.breaches[0]}"
    counts = (
        f"{share * len(KINDS):,} hostile strings, {sum(each.refused for each in held):,} refused",
        f"{sum(each.statements for each in held):,} statements hold none of them",
        "0 leaks, 0 tracebacks",
        str(sum((each.accounted for each in held), ledger.Ledger())),
    )
    return Outcome(
        counts, tuple(Control(name, len(each.breaches)) for name, each in zip(without, failed, strict=True))
    )


@dataclass(slots=True)
class _Attacked:
    refused: int = 0
    statements: int = 0
    breaches: list[str] = field(default_factory=list)
    accounted: ledger.Ledger = field(default_factory=ledger.Ledger)


def _attack(run: Run, kind: str, strings: int, fault: Callable[[], None]) -> _Attacked:
    """Try so many strings on a store of a kind; for a process of its own, which is changed by it."""
    chance = run.chance(kind, strings)
    home = run.directory(f"{kind}_{os.getpid()}")
    secret = Log().version().scalar(1, CANARY, 0.5).write_summary(home / "outside" / "job")
    seen = _Attacked()
    _watch(seen, secret.parent)
    fault()
    with run.store(kind) as plain_url, opened(plain_url) as engine:
        url = plain_url
        if engine.dialect.name == "postgresql":
            url = make_url(plain_url).set(password=CANARY).render_as_string(hide_password=False)
        os.environ |= {"LINEAGE_STORE_DATABASE_URL": url, "HOME": str(home)}
        os.chdir(home)
        with LineageStore(url) as store:
            attack = _Attack(store, home / "base", chance, seen)
            attack.files(max(1, strings // 20))
            before = natural_contents(engine) | {"annotation": []}
            for _ in range(strings - strings // 20):
                attack.door(hostile_text(chance))
                if seen.breaches:
                    break
            if natural_contents(engine) | {"annotation": []} != before:
                seen.breaches.append("the store was changed")
        if not seen.breaches:
            seen.accounted = ledger.check(engine)
    return seen


def _watch(seen: _Attacked, outside: Path) -> None:
    """Note statements that hold a hostile string, and files that are opened outside the base dir."""

    def look_at_statement(statement: object) -> None:
        seen.statements += 1
        if MARK in str(statement):
            seen.breaches.append(f"SQL text: {str(statement)[-300:]!r}")

    def look_at_file(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open" and str(outside) in os.path.realpath(str(arguments[0])):
            seen.breaches.append(f"opened {arguments[0]!r}")

    event.listen(Engine, "do_connect", partial(_note_statements, look_at_statement))
    sys.addaudithook(look_at_file)


def _note_statements(
    note: Callable[[object], None],
    dialect: Dialect,
    _record: object,
    _args: object,
    arguments: dict[str, Any],
) -> None:
    """Have a connection made whose cursors tell what they execute: nothing gets to a database past the driver."""

    class SQLiteCursor(sqlite3.Cursor):
        def execute(self, statement: str, *rest: Any) -> Any:
            note(statement)
            return super().execute(statement, *rest)

    class SQLiteConnection(sqlite3.Connection):
        def cursor(self, factory: Any = SQLiteCursor) -> Any:
            return super().cursor(factory)

    class PostgreSQLCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, *rest: Any, **more: Any) -> Any:
            note(query)
            return super().execute(query, *rest, **more)

    sqlite = dialect.name == "sqlite"
    arguments |= {"factory": SQLiteConnection} if sqlite else {"cursor_factory": PostgreSQLCursor}


@dataclass(frozen=True, slots=True)
class _Attack:
    """A store with a base dir that holds hostile names, and the doors to it."""

    store: LineageStore
    base_dir: Path
    chance: random.Random
    seen: _Attacked

    def door(self, text: str) -> None:
        """Bring a text in somewhere."""
        if self.chance.random() < 0.5:
            self._call(self.chance.choice(self._calls(text)), text)
        else:
            self._run(self.chance.choice(_command_lines(text)))

    def _call(self, call: Callable[[], object], text: str) -> None:
        try:
            answer = repr(call())
        except MindInsightException as error:
            self.seen.refused += 1
            answer = f"{error} {error.message} {error.hint}"
        except Exception as error:  # noqa: BLE001 - that is the finding
            self.seen.breaches.append(f"{type(error).__name__}: {error} for {text!r}")
            return
        if CANARY in answer:
            self.seen.breaches.append(f"the canary in {answer[:300]!r}")

    def _calls(self, text: str) -> Sequence[Callable[[], object]]:
        store, base_dir, job = self.store, self.base_dir, "./job"
        condition = self.chance.choice(_conditions(text))
        lies = self.chance.choice(
            ["../outside/job", "./../outside/job", "%2e%2e/outside/job", "./job/../../outside/job"]
        )
        return (
            lambda: store.lineage.filter(condition),
            lambda: store.lineage.filter(condition, base_dir=base_dir),
            lambda: list(store.lineage.iterate(condition)),
            lambda: str(store.explain(condition)),
            lambda: store.job((base_dir, text)).lineage(),
            lambda: store.job((base_dir, lies)).lineage(),
            lambda: store.job((base_dir, job)).lineage(keys=[text]),
            lambda: store.lineage.jobs(text),
            lambda: store.job((base_dir, text)).tags(),
            lambda: store.job((base_dir, lies)).tags(),
            lambda: store.job((f"{base_dir}/../outside", job)).tags(),
            lambda: store.job((base_dir, job)).scalars(text),
            lambda: store.job((base_dir, lies)).scalars(CANARY[:-1]),
            lambda: [each.read() for each in store.job((base_dir, text)).images(text)],
            lambda: [each.read() for each in store.job((base_dir, lies)).histograms(text)],
            lambda: store.job((base_dir, job)).annotate(remark=text[:128]),
            lambda: store.job((base_dir, text)).annotate(label=1),
            lambda: store.repair.why(text),
            lambda: store.job((base_dir, text)).report(),
            lambda: LineageStore(f"postgresql://me:{CANARY}@127.0.0.1:1/{text}"),
            lambda: LineageStore(f"{MARK}://me:{CANARY}@host/{text}"),
        )

    def _run(self, words: Sequence[str]) -> str:
        """Run the program; what it wrote."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main(list(words))
            except BaseException as error:  # noqa: BLE001 - that is the finding
                self.seen.breaches.append(f"{words}: {type(error).__name__}: {error}")
                return ""
        written = [stream.buffer.getvalue().decode() for stream in (out, err)]
        everything = "".join(written)
        self.seen.refused += code == 2
        wrong = [
            code not in _HARMLESS_CODES and f"exit code {code}",
            "Traceback" in everything and words[0] != "-v" and "a traceback",
            "Unexpected " in written[1] and "an unexpected error",
            CANARY in everything and "the canary",
            not everything.replace("\n", "").isprintable() and "a control character",
        ]
        for what in filter(None, wrong):
            self.seen.breaches.append(f"{what} of {words}: {everything[-400:]!r}")
        return written[0]

    def files(self, count: int) -> None:
        """Bring texts in by log files, and see that they come back as they were."""
        _write_job(self.base_dir / "job", "host", "tag", "text")
        written = {}
        for number in range(count):
            texts = [hostile_text(self.chance) for _ in range(4)]
            name = f"{as_file_name(texts[0])}{number}"
            tag, text = as_proto_text(texts[2]), as_proto_text(texts[3])
            _write_job(self.base_dir / name, as_file_name(texts[1])[:50], tag, text)
            written[f"./{name}"] = tag, text
        self.store.ingest(self.base_dir)
        for train_id, (tag, text) in written.items():
            self._come_back(train_id, tag, text)
        for words in (["jobs"], ["jobs", str(self.base_dir)], ["filter", "--all"], ["status"], ["problems"]):
            self._run(words)
        shown = self._run(["filter", "--all", "--json"])
        if shown and json.loads(shown)["count"] != count + 1:
            self.seen.breaches.append("filter --json lacks jobs")

    def _come_back(self, train_id: str, tag: str, text: str) -> None:
        store, base_dir = self.store, self.base_dir
        self._call(lambda: _expect(store.job((base_dir, train_id)).tags()["scalar"], [tag]), train_id)
        self._call(
            lambda: _expect(store.job((base_dir, train_id)).scalars(tag).values.tolist(), [0.5]), train_id
        )
        for name in ("network", f"user_defined/{text}", "train_dataset_path"):
            self._call(lambda name=name: _expect(_ids(store, {name: {"eq": text}}), train_id), train_id)  # type: ignore[misc]
        self._call(lambda: _expect(_ids(store, {f"metric/{text}": {"eq": 0.25}}), train_id), train_id)
        self._run(["show", "--", train_id])
        self._run(["scalars", "--", train_id, tag])


def _expect(found: Any, wanted: Any) -> None:
    if found != wanted and not (isinstance(found, set) and wanted in found):
        raise AssertionError(f"{str(found)[:200]!r} came back, not {wanted!r}")


def _ids(store: LineageStore, condition: dict[str, Any]) -> set[str]:
    return {found["summary_dir"] for found in store.lineage.iterate(condition)}


def _write_job(directory: Path, host: str, tag: str, text: str) -> None:
    Log().version().scalar(1, tag, 0.5).write(directory / f"events.out.events.summary.1700000000.0.{host}_MS")
    lineage = Log().train(network=text, train_dataset_path=text).evaluation({text: 0.25})
    lineage.user_info(wall_time=None, **{text: text}).write(
        directory / "events.out.events.summary.1700000000.0.host_lineage"
    )


def _conditions(text: str) -> Sequence[dict[str, Any]]:
    return (
        {text: {"eq": 1}},
        {"network": {text: 1}},
        {"network": {"eq": text}},
        {"network": {"in": [text, "x"]}},
        {"network": {"not_in": [text]}},
        {"network": {"like": text}},
        {"loss": {"eq": text}},
        {"epoch": {"lt": text}},
        {"dataset_mark": {"eq": text}},
        {"summary_dir": {"in": [text]}},
        {"train_dataset_path": {"ne": text}},
        {f"metric/{text}": {"gt": 0}},
        {f"metric_{text}": {"is_null": False}},
        {f"user_defined/{text}": {"eq": text}},
        {"user_defined/x": {"like": text}},
        {"sorted_name": text, "sorted_type": "descending"},
        {"sorted_name": f"metric/{text}", "sorted_type": "ascending"},
        {"sorted_name": "loss", "sorted_type": text},
        {"sorted_by": [[f"user_defined/{text}", "ascending"], ["loss", "descending"]]},
        {"sorted_by": [[text, text]]},
        {"lineage_type": text},
        {"lineage_type": {"in": [text]}},
        {"limit": text, "offset": 0},
        {"limit": 10, "offset": text},
        {"or": [{text: {"eq": 1}}, {"not": {"network": {"eq": text}}}]},
    )


def _command_lines(text: str) -> Sequence[Sequence[str]]:
    return (
        ["filter", "--where", text],
        ["filter", "--where", f"network={text}"],
        ["filter", "--where", f"user_defined/{text} like {text}"],
        ["filter", "--sort", text],
        ["filter", "--sort", f"metric/{text}:desc"],
        ["filter", "--columns", f"network,{text},metric/{text}"],
        ["filter", "--condition", json.dumps({text: {"eq": text}})],
        ["filter", "--explain", "--where", f"network={text}"],
        ["filter", f"--limit={text}"],
        ["filter", f"--{text}"],
        ["filter", "--", text],
        ["show", "--", text],
        ["scalars", "--", "./job", text],
        ["scalars", "--", text, "tag"],
        ["scalars", "./job", "tag", f"--start={text}"],
        ["jobs", "--", text],
        ["jobs", "--state", text],
        ["compare", "--", text, "./job"],
        ["annotate", "./job", f"--remark={text[:128]}"],
        ["annotate", "--label=1", "--", text],
        ["why", "--", text],
        ["status", "--", text],
        ["problems", "--", text],
        ["verify", "--", text],
        ["retry", "--", text],
        ["gc", "--dry-run", "--where", text],
        ["sql", "--", f"SELECT 1 AS a /* {text} */"],
        ["sql", "--", text],
        ["config", text],
        [text],
        ["--database", f"postgresql://me:{CANARY}@127.0.0.1:1/{text}", "jobs"],
        ["--database", f"{MARK}://me:{CANARY}@host/{text}", "status"],
        ["-v", "--database", f"postgresql://127.0.0.1:1/{MARK}?password={CANARY}", "jobs"],
    )


# --- the controls ---


def _write_values_out() -> None:
    bound = sql.statement_of

    warnings.simplefilter(
        "ignore", SAWarning
    )  # about NULL, which what is bound is compared with all the time

    def statement_of(select: Any, dialect: Any) -> sql.Statement:
        if (
            "asked" in select.compile(dialect=dialect).params
        ):  # how base dirs are looked up, not what is asked
            return bound(select, dialect)
        return sql.Statement(
            str(select.compile(dialect=dialect, compile_kwargs={"literal_binds": True})), {}, ()
        )

    vars(sql)["statement_of"] = statement_of


def _escape_nothing() -> None:
    for module in _ESCAPING:
        vars(module)["escaped"] = lambda text, **_: text


def _star_nothing() -> None:
    for module in _STARRING:
        for name in {"without_passwords", "shown_url"} & vars(module).keys():
            vars(module)[name] = lambda text: text


PROOF = Proof(
    "hostile",
    "text stays text: no injection, no traversal, no leak, no traceback",
    unit="hostile strings",
    ci_size=5_000,
    full_size=50_000,
    attacks=("cli", "query"),
    prove=_prove,
)
