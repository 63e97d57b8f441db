"""What endpoints read: one base dir of the store, and the jobs in it with the tags that MindInsight would have loaded.

In: an open store, settings. Out: `Site`, which returns jobs with their tags under MindInsight's names; the answers of
`datavisual/train-jobs`, `plugins`, `single-job`, `train-job-caches`. Promises: endpoints find every job of the base
dir, not only those in a cache as in MindInsight. The number of tags of a job is limited as in MindInsight, times the
setting `mindinsight_limits`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lineage_store.api import Job as StoredJob
from lineage_store.api import LineageStore
from lineage_store.plugins import BY_NAME, GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, SCALAR, TENSOR
from lineage_store.server.mindinsight import protocol
from lineage_store.server.mindinsight.protocol import QueryParameters, RefusedError

if TYPE_CHECKING:
    from lineage_store.api.reports import JobContents, JobRow


OPTIMIZED_GRAPH, LOSS_LANDSCAPE = "optimized_graph", "loss_landscape"
PLUGIN_NAMES = {
    IMAGE: IMAGE,
    SCALAR: SCALAR,
    GRAPH: GRAPH,
    OPTIMIZED_GRAPH: GRAPH,
    HISTOGRAM: HISTOGRAM,
    TENSOR: TENSOR,
    LOSS_LANDSCAPE: LANDSCAPE,
}
"""The store's plugin for each of MindInsight's plugins, in MindInsight's order."""
OPTIMIZED = " (optimized)"
SAMPLES = {SCALAR: 1000, IMAGE: 10, TENSOR: 20, HISTOGRAM: 50, LANDSCAPE: 500}
"""How many samples of a tag MindInsight keeps."""
MOST_TAGS, MOST_TENSOR_TAGS, LOADED_JOBS = 300, 6, 15
MOST_JOBS = 999
"""Jobs on a page, at most."""
IN_CACHE = "Can not find the given train job in cache."
IN_MANAGER = "Can not find the train job in data manager."


@dataclass(frozen=True, slots=True)
class SiteJob:
    """A train job and its tags."""

    train_id: str
    contents: JobContents
    tags: Mapping[str, Sequence[str]]
    """By MindInsight's plugin, sorted, under MindInsight's names: with the plugin's suffix."""

    def stored_tag(self, plugin: str, tag: str) -> str | None:
        """Return the store's name of a tag; `plugin` as in the store. None if the job has no such tag."""
        name = LOSS_LANDSCAPE if plugin == LANDSCAPE else plugin
        if tag not in self.tags[name]:
            return None
        return tag if plugin == GRAPH else tag.removesuffix(BY_NAME[plugin].suffixes[0])

    def has_tag(self, tag: str) -> bool:
        """Whether any plugin has this tag."""
        return any(tag in tags for tags in self.tags.values())


@dataclass(frozen=True, slots=True)
class Site:
    """One base dir of a store, for one request."""

    store: LineageStore
    base_dir: str
    """Its path; "" if the store has none."""
    limits: int
    """The factor by which MindInsight's limits are multiplied."""
    opened: set[str]
    """Jobs that clients have opened since the server started."""

    def jobs(self, train_ids: Sequence[str]) -> dict[str, SiteJob]:
        """Return the jobs that the store knows, by train id."""
        if not (self.base_dir and train_ids):
            return {}
        named = list(dict.fromkeys(train_ids))
        found = self.store.lineage.contents(self.base_dir, named, most_tags=MOST_TAGS * self.limits)
        return {
            name: SiteJob(name, contents, tags_of(contents, self.limits)) for name, contents in found.items()
        }

    def job(self, train_id: str, otherwise: str = IN_CACHE) -> SiteJob:
        """Return a job. Raises the refusal `protocol.unknown_job(otherwise)` if the store does not know it."""
        found = self.jobs([train_id]).get(train_id)
        if found is None:
            raise protocol.unknown_job(otherwise)
        return found

    def of(self, train_id: str) -> StoredJob:
        """Return what the store knows of a job."""
        return StoredJob(self.store, (self.base_dir, train_id))

    def lineage_of(self, train_id: str, part: str) -> dict[str, Any] | None:
        """Return the part `model` or `dataset` of a job's lineage, or None if the job recorded none."""
        if not self.base_dir:
            return None
        condition = {"summary_dir": {"eq": train_id}, "lineage_type": {"eq": part}}
        found = self.store.lineage.filter(condition, base_dir=self.base_dir, count=False)["object"]
        return found[0] if found else None

    def loaded(self) -> set[str]:
        """Return the train ids of the jobs that MindInsight would keep in memory, and of those that clients opened."""
        if not self.base_dir:
            return set()
        newest = self.store.lineage.jobs(self.base_dir, with_samples=True, limit=LOADED_JOBS * self.limits)
        return self.opened | {job.train_id for job in newest}


def tags_of(contents: JobContents, limits: int = 1) -> dict[str, list[str]]:
    """Return the tags that MindInsight would have kept, by its plugins, sorted."""
    seen = [(plugin, tag) for plugin, tag in contents.tags if plugin != GRAPH]
    graphs = sorted((tag for plugin, tag in contents.tags if plugin == GRAPH), key=_file_order)
    tensors = [each for each in seen if each[0] == TENSOR]
    dropped = set(tensors[: max(0, len(tensors) - MOST_TENSOR_TAGS * limits)])
    kept = [each for each in seen if each not in dropped]
    room = MOST_TAGS * limits - 2 * bool(graphs)
    tags: dict[str, list[str]] = {name: [] for name in PLUGIN_NAMES}
    for plugin, tag in kept[max(0, len(kept) - room) :]:
        name = LOSS_LANDSCAPE if plugin == LANDSCAPE else plugin
        tags[name].append(f"{tag}{BY_NAME[plugin].suffixes[0]}")
    for graph in graphs[-1:]:
        tags[GRAPH], tags[OPTIMIZED_GRAPH] = [graph], [f"{graph}{OPTIMIZED}"]
    return {name: sorted(of_plugin) for name, of_plugin in tags.items()}


def _file_order(name: str) -> tuple[int, list[int]]:
    """Return the sort key of MindInsight's reading order: the timestamp in a file's name, then descending by name."""
    timestamp = re.search(r"summary\.(\d+)", name)
    return int(timestamp[1]) if timestamp else 0, [-ord(character) for character in name]


def get_train_jobs(site: Site, query: QueryParameters) -> dict[str, Any]:
    """Return a page of the jobs, newest first, or the one job that the request names."""
    offset, limit = query.page(default=10, most=MOST_JOBS)
    train_id = query.get("train_id")
    jobs: Sequence[JobRow] = []
    total = 0
    if site.base_dir and train_id is not None:
        jobs = site.store.lineage.jobs(site.base_dir, train_ids=[train_id])
        total = len(jobs)
    elif site.base_dir:
        total = site.store.lineage.count(site.base_dir)
        if offset * limit < total:
            jobs = site.store.lineage.jobs(site.base_dir, limit=limit, page=offset)
    return {
        "name": PurePath(site.base_dir).name,
        "total": total,
        "train_jobs": _shown(site, jobs),
        "load_status": "loaded",
    }


def get_plugins(site: Site, query: QueryParameters) -> dict[str, Any]:
    """Return a job's tags; with `manual_update` the job counts as loaded from now on."""
    manual = [*query.all("manual_update"), "false"][0].lower()
    if manual not in ("true", "false"):
        raise protocol.wrong_value("The value of manual_update must be 'false' or 'true'.")
    train_id = query.required("train_id")
    if "\0" in train_id:
        detail = f"train job id: {train_id} contains null byte."
        raise RefusedError("50545011", f"Query string contains null byte error. Detail: {detail}")
    job = site.job(train_id, IN_MANAGER)
    if manual == "true":
        site.opened.add(train_id)
    shown = job.tags if train_id in site.loaded() else dict.fromkeys(PLUGIN_NAMES, ())
    return {"plugins": shown}


def get_single_job(site: Site, query: QueryParameters) -> dict[str, Any]:
    """Return a job's tags of one plugin."""
    plugin, train_id = query.required("plugin_name"), query.required("train_id")
    if plugin not in PLUGIN_NAMES:
        detail = f"'plugin_name' only can be one of {list(PLUGIN_NAMES)}"
        raise RefusedError("5054500B", f"Plugin is not available. Detail: {detail}")
    job = site.job(train_id, IN_MANAGER)
    shown = {"id": job.train_id, "name": job.train_id, "tags": job.tags[plugin]}
    return {"train_jobs": [shown]}


def load_jobs(site: Site, body: Any) -> dict[str, Any]:
    """Return whether each job was loaded; from now on they all count as loaded."""
    wanted = body.get("train_ids") if isinstance(body, dict) else None
    if wanted is None:
        raise protocol.missing("train_ids")
    if not isinstance(wanted, list):
        raise protocol.wrong_type("train_ids", "<class 'list'>")
    if not all(isinstance(train_id, str) for train_id in wanted):
        raise protocol.wrong_type("train_id", "<class 'str'>")
    known, loaded = site.jobs(wanted), site.loaded()
    site.opened.update(known)
    found = [train_id for train_id in wanted if train_id in known]
    return {
        "cache_result": [
            {"train_id": train_id, "cache_status": _cache_status(known[train_id], loaded)}
            for train_id in found
        ]
    }


def _shown(site: Site, jobs: Sequence[JobRow]) -> list[dict[str, Any]]:
    known, loaded = site.jobs([job.train_id for job in jobs]), site.loaded()
    return [_job(job, known[job.train_id], loaded) for job in jobs if job.train_id in known]


def _job(job: JobRow, known: SiteJob, loaded: set[str]) -> dict[str, Any]:
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


def _cache_status(job: SiteJob, loaded: set[str]) -> str:
    return "CACHED" if job.train_id in loaded and job.contents.summary_files else "NOT_IN_CACHE"


def _local(instant: datetime) -> str:
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S")
