"""What is asked of a filled store: something of every view, verb and endpoint.

In: a store with its base dir. Out: questions, each a name and a call, and what else there is but nothing is asked of.
Promises: the tables are compared with the program's own, so that no view, verb or endpoint is forgotten.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import click
import httpx
from fastapi.routing import APIRoute
from sqlalchemy import Engine

from helpers.program import logging_kept
from lineage_store.cli import main
from lineage_store.cli.app import VERBS, app
from lineage_store.config import Settings
from lineage_store.query.export.file_formats import FORMATS
from lineage_store.server import create_app, monitoring
from lineage_store.server.application import API, OWN
from lineage_store.server.mindinsight import routes
from lineage_store.server.own.names import key_of
from lineage_store.store.database.db import open_engine
from lineage_store.store.schema.views import VIEWS

Call = Callable[[], object]
_HARMLESS = frozenset({0, 1, 3})


@dataclass(frozen=True, slots=True)
class Filled:
    """A store that is filled in one respect, and where its log files are."""

    url: str
    base_dir: Path
    scratch: Path

    @property
    def job(self) -> Path:
        return self.base_dir / "job"

    def fresh(self, name: str) -> Path:
        """A path where nothing is yet."""
        return self.scratch / f"{name}_{len(os.listdir(self.scratch))}"


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    name: str
    of: str = "store"
    """What it must look at: the store, a page of it, or one job."""
    sends: str = "few"
    """How many statements: few, or more for more rows."""


_JOB, _PAGE, _STORE, _MANY = "job", "page", "store", "many"
Words = Callable[[Filled], Sequence[object]]


def _words(*given: object) -> Words:
    return lambda at: [at.job if each is _JOB else at.base_dir if each is _STORE else each for each in given]


_READING: Mapping[str, Sequence[tuple[str, str, Words]] | str] = {
    "ingest": [(_STORE, _MANY, _words("--dry-run", _STORE))],
    "init": [(_PAGE, "", _words())],
    "daemon": "it ingests, in passes of a pipeline that `ingest` runs too",
    "serve": "its endpoints are asked",
    "completion": "it asks no store",
    "config": "it asks no store",
    "status": [(_STORE, "", _words("--json", "--cycles", 3)), (_STORE, "", _words("--check"))],
    "jobs": [(_PAGE, "", _words("--limit", 20)), (_STORE, "", _words("--limit", 1_000_000, "--json"))],
    "show": [(_JOB, "", _words(_JOB, "--json"))],
    "filter": [
        (_STORE, _MANY, _words("--all", "--json")),
        (_STORE, "", _words("--where", "metric/accuracy>=0.1", "--sort", "metric/accuracy:desc")),
        (_STORE, "", _words("--where", "metric_best/accuracy>=0.1", "--sort", "user_defined/team")),
        (
            _STORE,
            "",
            _words(
                "--where", "user_defined/team like %v_s%", "--all", "--columns", "network,metric/accuracy"
            ),
        ),
        (_STORE, "", _words("--where", "network like %n%t%", "--csv")),
        (_STORE, _MANY, _words(_STORE, "--refresh")),
    ],
    "tail": [(_STORE, _MANY, _words("--since", "all", "--no-follow", "--json"))],
    "sql": "each view is asked",
    "export": [
        *((_STORE, _MANY, lambda at, f=name: ["--format", f, "--to", at.fresh(f)]) for name in FORMATS),
        (_STORE, _MANY, lambda at: ["v_metric", "--format", "csv", "--to", at.fresh("view")]),
    ],
    "tags": [(_JOB, "", _words(_JOB, "--json"))],
    "scalars": [(_JOB, _MANY, _words("--csv", _JOB, "loss")), (_JOB, _MANY, _words("--plot", _JOB, "loss"))],
    "evaluations": [(_JOB, "", _words(_JOB, "--json")), (_JOB, "", _words(_JOB, "accuracy", "--json"))],
    "images": [(_JOB, "", lambda at: [at.job, "i", "--to", at.fresh("images")])],
    "histograms": [(_JOB, "", lambda at: [at.job, "h", "--to", at.fresh("histograms")])],
    "compare": [(_JOB, "", lambda at: [at.job, at.base_dir / "other", "--csv"])],
    "inspect": [
        (_JOB, "", lambda at: ["--json", max(at.job.iterdir(), key=lambda path: path.stat().st_size)])
    ],
    "why": [(_JOB, "", _words(_JOB, "--json")), (_JOB, "", lambda at: [max(at.job.iterdir()), "--json"])],
    "doctor": [(_STORE, _MANY, _words(_STORE))],
    "problems": [(_STORE, "", _words("--all", "--json")), (_STORE, "", _words("--limit", 20))],
    "verify": [(_STORE, _MANY, _words("--json")), (_JOB, _MANY, _words(_JOB))],
    "gc": [
        (_STORE, _MANY, _words("--older-than", "0d", "--dry-run", "--json")),
        (_STORE, _MANY, _words("--policies", "--dry-run", "--json")),
        (_STORE, "", _words("--removed", "--json")),
    ],
    "annotate": [(_JOB, "", _words(_JOB, "--label", 3, "--remark", "x"))],
    "retry": [(_STORE, _MANY, _words(_STORE))],
    "reingest": [(_STORE, _MANY, _words(_JOB))],
    "backup": [(_STORE, _MANY, lambda at: [at.scratch / "backup"])],
    "restore": [(_STORE, _MANY, lambda at: [at.scratch / "backup", "--replace"])],
    "db check": [(_PAGE, "", _words())],
    "db current": [(_PAGE, "", _words())],
    "db upgrade": [(_PAGE, "", _words())],
    "db choose-best": [(_STORE, _MANY, _words())],
    "db copy": [(_STORE, _MANY, lambda at: [at.url, f"sqlite:///{at.fresh('copy')}"])],
    "db grant": "it asks no table",
    "db partition": "PostgreSQL copies the samples itself",
    "db distribute": "PostgreSQL copies the tables itself",
    "move": [(_STORE, _MANY, lambda at: [at.base_dir, _moved(at), "--dry-run"])],
    "forget": [(_STORE, _MANY, _words("--yes", _STORE))],
}
"""By verb, what is asked of it in this order (of what, how many statements, arguments), or why nothing is."""
ON_SQLITE_ONLY = ("backup", "restore", "db copy")


def _moved(at: Filled) -> Path:
    path = at.scratch / "moved"
    shutil.copytree(at.base_dir, path)
    return path


def verbs(at: Filled) -> Iterator[tuple[Question, Call]]:
    """Yield what is asked of the verbs."""
    groups = {"db"}
    known = set(VERBS) - groups | {f"db {name}" for name in _subcommands("db")}
    assert known == set(_READING), f"asked of too few or too many verbs: {known ^ set(_READING)}"
    for verb, asked in _READING.items():
        if isinstance(asked, str) or (verb in ON_SQLITE_ONLY and not at.url.startswith("sqlite")):
            continue
        for number, (of, sends, words) in enumerate(asked, 1):
            yield Question(f"{verb} ({number})", of, sends or "few"), partial(_run, at, verb, words)


def _subcommands(group: str) -> list[str]:
    found = app.get_command(click.Context(app), group)
    assert isinstance(found, click.Group)
    return list(found.commands)


def _run(at: Filled, verb: str, words: Words) -> None:
    settings = {"LINEAGE_STORE_DATABASE_URL": at.url, "LINEAGE_STORE_SUSPECT_GRACE_S": "0"}
    settings["LINEAGE_STORE_KEEP_DAYS"] = "1"
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    arguments = [*verb.split(), *map(str, words(at))]
    with mock.patch.dict(os.environ, settings), logging_kept(), redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    said = err.buffer.getvalue().decode()
    assert code in _HARMLESS, f"exit code {code} of {arguments}: {said[-500:]}"
    assert "Traceback" not in said, f"{arguments}: {said[-2000:]}"
    assert "Unexpected" not in said, f"{arguments}: {said[-500:]}"


def views(at: Filled) -> Iterator[tuple[Question, Call]]:
    """Yield what is asked of the views: all rows, how many, and those of one job."""
    engine = open_engine(at.url, statement_timeout_s=0.0)
    for view in VIEWS:
        asked = [(f"SELECT * FROM {view.name}", _STORE), (f"SELECT count(*) FROM {view.name}", _STORE)]
        if any(column.name == "job_id" for column in view.columns):
            of_job = "job_id = (SELECT id FROM train_job WHERE train_id = './job')"
            asked.append((f"SELECT * FROM {view.name} WHERE {of_job}", _JOB))
        for statement, of in asked:
            yield Question(statement, of), partial(_select, engine, statement)
    engine.dispose()


def _select(engine: Engine, statement: str) -> None:
    with engine.connect() as connection:
        for _ in connection.exec_driver_sql(statement):
            pass


_AT_JOB = "/{base}/{name:job}"
_OWN: Mapping[str, Sequence[tuple[str, str, Any]] | str] = {
    "GET /health": [(_STORE, "", None)],
    "GET /base-dirs": [(_STORE, "", None)],
    "GET /changes": [(_STORE, "limit=20", None)],
    "GET /events": "it never ends; each of its looks is one of GET /changes",
    "GET /jobs": [
        (_STORE, "limit=20", None),
        (
            _STORE,
            "limit=20&fields=metric/accuracy&fields=metric_best/accuracy&fields=user_defined/team",
            None,
        ),
        (_STORE, "limit=20&where=user_defined/team%20like%20%25v_s%25&sort=metric/accuracy:desc", None),
        (_STORE, "form=columns&every=true&fields=metric/accuracy&fields=metric_best/accuracy", None),
    ],
    "GET /train-jobs": [(_PAGE, "limit=20", None)],
    "GET /names": [(_STORE, "", None)],
    "GET /values": [(_STORE, "name=user_defined/team&part=v", None), (_STORE, "name=network", None)],
    "POST /series": [(_JOB, "", {"points": 10})],
    f"GET /jobs{_AT_JOB}/tags": [(_JOB, "", None), (_JOB, "series=false", None)],
    f"GET /jobs{_AT_JOB}/lineage": [(_JOB, "", None)],
    f"GET /jobs{_AT_JOB}/evaluations": [(_JOB, "", None)],
    f"GET /jobs{_AT_JOB}/files": [(_JOB, "", None)],
    f"PUT /jobs{_AT_JOB}/annotation": [(_JOB, "", {"tag": 3})],
    f"GET /jobs{_AT_JOB}": [(_JOB, "", None)],
    f"GET /payloads{_AT_JOB}": [(_JOB, "plugin=histogram&tag=h&limit=20", None)],
    f"GET /payload{_AT_JOB}": [(_JOB, "plugin=histogram&tag=h&step=1", None)],
    "GET /metrics": [(_STORE, "", None)],
}
"""By endpoint, what is asked of it (of what, query, body), or why nothing is."""
_OF_JOB = "train_id=./job"
_MINDINSIGHT: Mapping[str, Sequence[tuple[str, str, Any]] | str] = {
    "datavisual/train-job-caches": [(_STORE, "", {"train_ids": ["./job"]})],
    "datavisual/train-jobs": [(_STORE, "limit=20", None)],
    "datavisual/plugins": [(_STORE, _OF_JOB, None)],
    "datavisual/single-job": [(_JOB, f"plugin_name=scalar&{_OF_JOB}", None)],
    "datavisual/scalar/metadata": [(_JOB, f"{_OF_JOB}&tag=loss/scalar", None)],
    "datavisual/scalars": [(_JOB, f"{_OF_JOB}&tag=loss/scalar", None)],
    "datavisual/histograms": [(_JOB, f"{_OF_JOB}&tag=h/histogram", None)],
    "datavisual/image/metadata": [(_JOB, f"{_OF_JOB}&tag=i/image", None)],
    "datavisual/image/single-image": [(_JOB, f"{_OF_JOB}&tag=i/image&step=1", None)],
    "datavisual/tensors": [
        (_JOB, f"{_OF_JOB}&tag=t/tensor", None),
        (_JOB, f"{_OF_JOB}&tag=t/tensor&detail=data&step=1&dims=[:,:]", None),
    ],
    "datavisual/graphs/nodes": [(_JOB, _OF_JOB, None)],
    "datavisual/graphs/nodes/all": [(_JOB, f"{_OF_JOB}&name=", None)],
    "datavisual/graphs/nodes/names": [(_JOB, f"{_OF_JOB}&search=conv&offset=0&limit=100", None)],
    "datavisual/graphs/single-node": [(_JOB, f"{_OF_JOB}&name=x", None)],
    "datavisual/landscape/intervals": [(_JOB, _OF_JOB, None)],
    "datavisual/landscape/landscapes": [(_JOB, f"{_OF_JOB}&type=final", None)],
    "datasets/dataset_graph": [(_JOB, _OF_JOB, None)],
    "lineagemgr/lineages": [
        (_STORE, "", {"limit": 20, "offset": 0}),
        (_STORE, "", {"sorted_name": "metric/accuracy", "sorted_type": "descending"}),
        (_STORE, "", {"metric/accuracy": {"ge": 0.1}, "user_defined/team": {"in": ["vision"]}}),
    ],
    "optimizer/targets/search": [(_STORE, "", {})],
    "ui-config": "it asks no store",
}
"""The same of the paths of MindInsight's API."""


_BY_FILE = ("datavisual/scalar/metadata", "datavisual/scalars")
"""Paths that send a statement for each log file that has the tag."""


class _AtOnce(Executor):
    """Runs what is submitted in this thread, so that a profiler of this thread sees all of it."""

    def submit(self, call: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*given, **named))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            done.set_exception(error)
        return done


def endpoints(at: Filled) -> Iterator[tuple[Question, Call]]:
    """Yield what is asked of the endpoints of both REST APIs."""
    found = [
        route
        for router in (*OWN, monitoring.router)
        for route in router.routes
        if isinstance(route, APIRoute)
    ]
    known = {f"{min(route.methods or ())} {route.path}" for route in found}
    assert known == set(_OWN), f"asked of too few or too many endpoints: {known ^ set(_OWN)}"
    known = {routes.CONFIG, *routes.GETS, *routes.POSTS}
    assert known == set(_MINDINSIGHT), f"asked of too few or too many endpoints: {known ^ set(_MINDINSIGHT)}"
    settings: dict[str, Any] = {"database_url": at.url, "statement_timeout_s": 0, "serve_allow_remarks": True}
    web = create_app(Settings(**settings, mindinsight_limits=1_000_000))
    web.state.store._threads = _AtOnce()
    key, place = key_of(str(at.base_dir)), {"base": "", "name": "job"}
    for name, asked in _OWN.items():
        method, _, path = name.partition(" ")
        url = path.replace("{base}", key).replace("{name:job}", "job")
        url = url if path == "/metrics" else f"{API}{url}"
        for of, query, body in asked if not isinstance(asked, str) else ():
            if path == "/series":
                body = {**body, "series": [place | {"base": key, "tag": "loss"}]}
            yield (
                Question(f"{name}?{query}", of),
                partial(_ask, web, method, url, query, body),
            )
    for path, asked in _MINDINSIGHT.items():
        method = "POST" if path in routes.POSTS else "GET"
        for of, query, body in asked if not isinstance(asked, str) else ():
            yield (
                Question(f"{method} {path}?{query} {body or ''}", of, _MANY if path in _BY_FILE else "few"),
                partial(_ask, web, method, f"{routes.BEGIN}{path}", query, body),
            )
    asyncio.run(web.state.store.close())


def _ask(web: Any, method: str, path: str, query: str, body: Any) -> None:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(web)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, f"{path}?{query}", **({} if body is None else {"json": body}))

    answer = asyncio.run(ask())
    assert answer.status_code < 300, f"{answer.status_code} of {method} {path}?{query}: {answer.text[:500]}"
