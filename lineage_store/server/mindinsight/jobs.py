"""`datavisual/train-jobs`, `plugins`, `single-job`, `train-job-caches`: the list of jobs, and their tags."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lineage_store.server.mindinsight.protocol import Query, RefusedError, missing, wrong_type, wrong_value
from lineage_store.server.mindinsight.site import IN_MANAGER, PLUGIN_NAMES, Job, Site

if TYPE_CHECKING:
    from lineage_store.api.reports import TrainJob

MOST_JOBS = 999


def train_jobs(site: Site, query: Query) -> dict[str, Any]:
    """Return a page of the jobs, newest first, or the one job that the request names."""
    offset, limit = query.page(default=10, most=MOST_JOBS)
    train_id = query.get("train_id")
    jobs: Sequence[TrainJob] = []
    total = 0
    if site.base_dir and train_id is not None:
        jobs = site.store.train_jobs(site.base_dir, train_ids=[train_id])
        total = len(jobs)
    elif site.base_dir:
        total = site.store.count_jobs(site.base_dir)
        if offset * limit < total:
            jobs = site.store.train_jobs(site.base_dir, limit=limit, page=offset)
    return {
        "name": PurePath(site.base_dir).name,
        "total": total,
        "train_jobs": _shown(site, jobs),
        "load_status": "loaded",
    }


def plugins(site: Site, query: Query) -> dict[str, Any]:
    """Return a job's tags; with `manual_update` the job counts as loaded from now on."""
    manual = [*query.all("manual_update"), "false"][0].lower()
    if manual not in ("true", "false"):
        raise wrong_value("The value of manual_update must be 'false' or 'true'.")
    train_id = query.required("train_id")
    if "\0" in train_id:
        detail = f"train job id: {train_id} contains null byte."
        raise RefusedError("50545011", f"Query string contains null byte error. Detail: {detail}")
    job = site.job(train_id, IN_MANAGER)
    if manual == "true":
        site.opened.add(train_id)
    shown = job.tags if train_id in site.loaded() else dict.fromkeys(PLUGIN_NAMES, ())
    return {"plugins": shown}


def single_job(site: Site, query: Query) -> dict[str, Any]:
    """Return a job's tags of one plugin."""
    plugin, train_id = query.required("plugin_name"), query.required("train_id")
    if plugin not in PLUGIN_NAMES:
        detail = f"'plugin_name' only can be one of {list(PLUGIN_NAMES)}"
        raise RefusedError("5054500B", f"Plugin is not available. Detail: {detail}")
    job = site.job(train_id, IN_MANAGER)
    shown = {"id": job.train_id, "name": job.train_id, "tags": job.tags[plugin]}
    return {"train_jobs": [shown]}


def train_job_caches(site: Site, body: Any) -> dict[str, Any]:
    """Return whether each job was loaded; from now on they all count as loaded."""
    wanted = body.get("train_ids") if isinstance(body, dict) else None
    if wanted is None:
        raise missing("train_ids")
    if not isinstance(wanted, list):
        raise wrong_type("train_ids", "<class 'list'>")
    if not all(isinstance(train_id, str) for train_id in wanted):
        raise wrong_type("train_id", "<class 'str'>")
    known, loaded = site.jobs(wanted), site.loaded()
    site.opened.update(known)
    found = [train_id for train_id in wanted if train_id in known]
    return {
        "cache_result": [
            {"train_id": train_id, "cache_status": _cache_status(known[train_id], loaded)}
            for train_id in found
        ]
    }


def _shown(site: Site, jobs: Sequence[TrainJob]) -> list[dict[str, Any]]:
    known, loaded = site.jobs([job.train_id for job in jobs]), site.loaded()
    return [_job(job, known[job.train_id], loaded) for job in jobs if job.train_id in known]


def _job(job: TrainJob, known: Job, loaded: set[str]) -> dict[str, Any]:
    return {
        "train_id": job.train_id,
        "relative_path": job.train_id,
        "create_time": _local(job.last_started_at or job.updated_at),
        "update_time": _local(job.updated_at),
        "profiler_dir": None,
        "cache_status": _cache_status(known, loaded),
        "profiler_type": "",
        "summary_files": known.contents.summary_files,
        "graph_files": 0,
        "lineage_files": known.contents.lineage_files,
        "dump_dir": None,
        "is_integrity": known.contents.is_intact,
        "plugins": known.tags,
    }


def _cache_status(job: Job, loaded: set[str]) -> str:
    return "CACHED" if job.train_id in loaded and job.contents.summary_files else "NOT_IN_CACHE"


def _local(instant: datetime) -> str:
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S")
