"""The status of the store (base dirs with lag and leader, open problems), and everything about one job.

In: an open read transaction. Out: frozen reports made of rows of the views. Text is in its stored form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from lineage_store.findings import Finding, severity_of
from lineage_store.query.backlog import Backlog, read_backlogs
from lineage_store.query.views import view_rows
from lineage_store.store.catalog import moved, tombstones
from lineage_store.store.database.paging import ALL, Page

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The status of ingest, as rows of its views."""

    base_dirs: Sequence[Row]
    """v_base_dir."""
    problems: Sequence[Finding]
    """The open problems of v_ingest_problem, newest first."""
    cycles: Sequence[Row]
    """v_ingest_cycle, the last pass over each base dir."""
    shards: Sequence[Row]
    """v_shard."""
    known_twice: Sequence[Finding]
    """Base dirs that hold the same jobs as another base dir, for example after a mount was renamed."""
    removed_by_policy: Sequence[Row]
    """Removals by policy: base_dir, policy, jobs (their number), last_removed_at."""
    backlogs: Sequence[Backlog]
    """Of base dirs with log files that wait to be read."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """What the views show of one job."""

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
        problems=read_problems(connection, base_dir, page=Page(problems)) if problems else [],
        cycles=[row for each in base_dirs for row in read_cycles(connection, each["base_dir"], limit=1)],
        shards=read_shards(connection, base_dir),
        known_twice=list(moved.known_twice(connection, base_dir_id)),
        removed_by_policy=tombstones.by_policy(connection, base_dir),
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
    newest = "-first_seen_at", "path", "base_dir", "kind", "range_start"
    return list(map(problem_of, view_rows(connection, "v_ingest_problem", wanted, *newest, page=page)))


def _within(base_dir: str | None) -> dict[str, object]:
    """Return the values that columns of a view must equal: a base dir, or none for all."""
    return {} if base_dir is None else {"base_dir": base_dir}


def problem_of(row: Row) -> Finding:
    """Turn a row of v_ingest_problem into a finding, whose subject is the absolute path."""
    return Finding(
        row["kind"],
        str(Path(row["base_dir"], row["path"])),
        severity_of(row["kind"]),
        row["reason"],
        row["remedy"],
        since=row["first_seen_at"],
        until=row["resolved_at"],
        range_start=row["range_start"],
        range_end=row["range_end"],
    )


def read_cycles(connection: Connection, base_dir: str, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` passes over a base dir (stored path), newest first."""
    return view_rows(connection, "v_ingest_cycle", {"base_dir": base_dir}, "-finished_at", page=Page(limit))


def read_job(connection: Connection, base_dir: str, train_id: str) -> JobReport | None:
    """Return everything about one job (stored names); None when the store does not know it."""
    this = {"base_dir": base_dir, "train_id": train_id}
    jobs = view_rows(connection, "v_job", this)
    if not jobs:
        return None
    this = {"job_id": jobs[0]["job_id"]}
    problems = view_rows(connection, "v_ingest_problem", {**this, "resolved_at": None}, "path")
    return JobReport(
        job=jobs[0],
        metrics=view_rows(connection, "v_metric", {**this, "is_latest": True}, "name"),
        user_info=view_rows(connection, "v_user_info", this, "key"),
        series=view_rows(connection, "v_series", this, "plugin", "tag", "device", "first_step"),
        log_files=view_rows(connection, "v_log_file", this, "begun_at", "log_file", "generation"),
        problems=list(map(problem_of, problems)),
    )


def read_evaluations(connection: Connection, base_dir: str, train_id: str) -> list[dict[str, Any]]:
    """Return the results of every evaluation of one job (stored names), in the order of evaluations."""
    this = {"base_dir": base_dir, "train_id": train_id}
    return view_rows(connection, "v_metric", this, "evaluation_no", "name")
