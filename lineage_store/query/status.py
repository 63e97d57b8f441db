"""The status of the store (base dirs with lag and leader, open problems), and everything about one job.

In: an open read transaction. Out: frozen reports made of rows of the views. Text is in its stored form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Text, case, cast, func, select

from lineage_store.extreme_numbers import LARGEST_INTEGER
from lineage_store.findings import Finding, severity_of, with_places
from lineage_store.query.backlog import Backlog, read_backlogs
from lineage_store.query.views import view_rows, view_select
from lineage_store.store.catalog import moved, policies, tombstones
from lineage_store.store.database.paging import ALL, Page
from lineage_store.store.schema.tables import base_dir as base_dirs
from lineage_store.store.schema.tables import train_job

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The status of ingest, as rows of its views."""

    base_dirs: Sequence[Row]
    """v_base_dir."""
    problems: Sequence[Finding]
    """The open problems of v_ingest_problem, newest first; where they are too many, some of every job."""
    cycles: Sequence[Row]
    """v_ingest_cycle, the last pass over each base dir."""
    shards: Sequence[Row]
    """v_shard."""
    known_twice: Sequence[Finding]
    """Base dirs that hold the same jobs as another base dir, for example after a mount was renamed."""
    removed_by_policy: Sequence[Row]
    """Removals by policy: base_dir, policy, jobs (their number), last_removed_at."""
    policies_wait: Sequence[Finding]
    """What policies wait for: jobs that a person may let go, a clock that is wrong."""
    backlogs: Sequence[Backlog]
    """Of base dirs with log files that wait to be read."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """What the views show of one job; a part that was not asked for is empty."""

    job: Row
    """v_job."""
    metrics: Sequence[Row]
    """v_metric, the latest evaluation."""
    user_info: Sequence[Row]
    series: Sequence[Row]
    """v_series, sorted by plugin and tag."""
    log_files: Sequence[Row]
    problems: Sequence[Finding]
    """The open problems of v_ingest_problem."""


def read_status(
    connection: Connection, base_dir: str | None = None, base_dir_id: int | None = None, *, problems: int = 10
) -> StoreStatus:
    """Return the status of one base dir (stored path, and its id), or of all, with the newest `problems` problems."""
    base_dirs = view_rows(connection, "v_base_dir", _within(base_dir), "base_dir")
    return StoreStatus(
        base_dirs=base_dirs,
        problems=read_some_problems(connection, base_dir, problems) if problems else [],
        cycles=[row for each in base_dirs for row in read_cycles(connection, each["base_dir"], limit=1)],
        shards=read_shards(connection, base_dir),
        known_twice=list(moved.known_twice(connection, base_dir_id)),
        removed_by_policy=tombstones.by_policy(connection, base_dir),
        policies_wait=list(policies.waiting(connection, base_dir_id)),
        backlogs=read_backlogs(connection, base_dirs),
    )


def read_shards(connection: Connection, base_dir: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of v_shard, which name the leaders, of one base dir (stored path) or of all."""
    return view_rows(connection, "v_shard", _within(base_dir), "base_dir", "shard")


def read_problems(
    connection: Connection, base_dir: str | None = None, *, resolved: bool = False, page: Page = ALL
) -> list[Finding]:
    """Return the open problems of a base dir (stored path), or of all, newest first; `resolved`: resolved ones too."""
    wanted = _within(base_dir) if resolved else {**_within(base_dir), "resolved_at": None}
    newest = "-first_seen_at", "problems", "path", "base_dir", "kind", "range_start"
    return list(map(problem_of, view_rows(connection, "v_ingest_problem", wanted, *newest, page=page)))


def read_some_problems(
    connection: Connection, base_dir: str | None, most: int, *, resolved: bool = False
) -> list[Finding]:
    """Return at most `most` problems, newest first: the newest of every job, then the second newest of every job, …"""
    rows = view_select("v_ingest_problem")
    column = rows.selected_columns
    if base_dir is not None:
        rows = rows.where(column["base_dir"] == base_dir)
    if not resolved:
        rows = rows.where(column["resolved_at"].is_(None))
    newest = column["first_seen_at"].desc(), column["problems"], column["path"], column["kind"]
    turn = func.row_number().over(partition_by=(column["base_dir"], column["train_id"]), order_by=newest)
    in_turn = rows.add_columns(turn.label("turn")).subquery()
    fair = in_turn.c["turn", "first_seen_at", "problems", "path", "base_dir", "kind"]
    order = [each.desc() if each.name == "first_seen_at" else each for each in fair]
    some = select(in_turn).order_by(*order).limit(min(most, LARGEST_INTEGER))
    found = connection.execute(some).mappings()
    return sorted(map(problem_of, map(dict, found)), key=_newest_first)


def _newest_first(problem: Finding) -> tuple[Any, ...]:
    age = 0.0 if problem.since is None else -problem.since.timestamp()
    return age, problem.problems, problem.subject, problem.kind


def read_problems_below(connection: Connection, place: str) -> list[Finding]:
    """Return the open problems of what is at a stored absolute path, or beneath it."""
    rows = view_select("v_ingest_problem")
    column = rows.selected_columns
    base_dir, path = cast(column["base_dir"], Text), cast(column["path"], Text)
    subject = case((path == ".", base_dir), else_=func.rtrim(base_dir, "/").concat("/").concat(path))
    inside = f"{place.rstrip('/')}/"
    below = (subject == place) | (func.substr(subject, 1, len(inside)) == inside)
    rest = (column[name] for name in ("problems", "path", "base_dir", "kind"))
    newest = column["first_seen_at"].desc(), *rest
    wanted = rows.where(below, column["resolved_at"].is_(None)).order_by(*newest)
    return list(map(problem_of, map(dict, connection.execute(wanted).mappings())))


def _within(base_dir: str | None) -> dict[str, object]:
    """Return the values that columns of a view must equal: a base dir, or none for all."""
    return {} if base_dir is None else {"base_dir": base_dir}


def problem_of(row: Row) -> Finding:
    """Turn a row of v_ingest_problem into a finding, whose subject is the absolute path."""
    return Finding(
        row["kind"],
        str(Path(row["base_dir"], row["path"])),
        severity_of(row["kind"]),
        with_places(row["reason"], row["count"], row["bytes"]),
        row["remedy"],
        since=row["first_seen_at"],
        until=row["resolved_at"],
        range_start=row["range_start"],
        range_end=row["range_end"],
        **{name: row[name] for name in ("count", "bytes", "first_range_end", "last_range_start", "problems")},
    )


def read_cycles(connection: Connection, base_dir: str, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` passes over a base dir (stored path), newest first."""
    return view_rows(connection, "v_ingest_cycle", {"base_dir": base_dir}, "-finished_at", page=Page(limit))


def read_job(
    connection: Connection, base_dir: str, train_id: str, parts: Collection[str] | None = None
) -> JobReport | None:
    """Return some parts of the report on one job (stored names), or all; None when the store does not know it."""
    this = {"base_dir": base_dir, "train_id": train_id}
    jobs = view_rows(connection, "v_job", this)
    if not jobs:
        return None
    of_job = {"job_id": jobs[0]["job_id"]}

    def rows(part: str, view: str, *order: str, **given: object) -> list[dict[str, Any]]:
        wanted = parts is None or part in parts
        return view_rows(connection, view, {**of_job, **given}, *order) if wanted else []

    problems = rows("problems", "v_ingest_problem", "problems", "path", "kind", resolved_at=None)
    return JobReport(
        job=jobs[0],
        metrics=rows("metrics", "v_metric", "name", is_latest=True),
        user_info=rows("user_info", "v_user_info", "key"),
        series=rows("series", "v_series", "plugin", "tag", "device", "first_step"),
        log_files=rows("log_files", "v_log_file", "begun_at", "log_file", "generation"),
        problems=list(map(problem_of, problems)),
    )


def read_evaluations(connection: Connection, base_dir: str, train_id: str) -> list[dict[str, Any]]:
    """Return the results of every evaluation of one job (stored names), in the order of evaluations."""
    query = select(train_job.c.id).join_from(train_job, base_dirs)
    known = query.where(base_dirs.c.path == base_dir, train_job.c.train_id == train_id)
    job_id = connection.execute(known).scalar()
    return view_rows(connection, "v_metric", {"job_id": job_id}, "evaluation_no", "name") if job_id else []
