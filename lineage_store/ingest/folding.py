"""Lineage in the write transaction: store a job's new events as far as it has room, and fold its lineage anew.

In: the advances of a batch. Out: rows of events, summaries of files, and the folded lineage of jobs. Promises: old
events are not read again, but for the few that count in a job's lineage; only the summary of each file is, and the
results of evaluations. Jobs are folded in portions, each of which ends with the job that brings it to PORTION_BYTES of
lineage. Does not know the disk.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lineage_store.config import Settings
from lineage_store.fields import less_is_better
from lineage_store.findings import RangeProblems, in_range
from lineage_store.ingest.decode import rows as bounds
from lineage_store.ingest.decode.lineage_fold import binding, come_to, extended, merge
from lineage_store.store.database.session import Session
from lineage_store.store.records import Advance, FileKey, FileLineage, FoldedLineage, KnownFile, LineageRow
from lineage_store.store.writes import lineage
from lineage_store.store.writes.lineage import FileOfJob, write_summaries

PORTION_BYTES = 8 << 20


def write_events(
    session: Session, advances: Sequence[Advance], most: Settings, now: datetime
) -> tuple[list[Advance], set[int]]:
    """Store lineage events as far as their jobs have room.

    Returns the advances without the events that were left out, each with a problem that says so, and the jobs to fold.
    """
    jobs = {advance.file.job_id for advance in advances if advance.rows.lineage_events}
    if not jobs:
        return list(advances), jobs
    used: dict[int, _Used] = defaultdict(_Used)
    for file in lineage.files_of_jobs(session, jobs):
        used[file.job_id].put(file)
    within: list[Advance] = []
    begun: dict[FileKey, FileLineage] = {}
    counted: dict[FileKey, FileLineage] = {}
    for advance in advances:
        if advance.rows.lineage_events:
            advance, before = _within(advance, used[advance.file.job_id], most)
            key, events = advance.file.key, advance.rows.lineage_events
            if not before.events:
                begun[key] = extended(before, events, now)
            elif not any(event.kind == "user_info" for event in events):
                counted[key] = extended(before, events, now)
            else:  # one file at a time, because its user-defined values may be large
                values = lineage.user_info(session, [key])[key]
                lineage.write_files(session, {key: extended(before._replace(user_info=values), events, now)})
        within.append(advance)
    lineage.write_files(session, begun)
    lineage.write_files(session, counted, user_info=False)
    lineage.write_lineage_events(session, within)
    return within, jobs


def refold(
    session: Session, job_ids: Collection[int], advances: Sequence[Advance], settings: Settings
) -> None:
    """Fold the lineage of jobs and store it, with summaries of their metrics.

    A job whose only lineage file was read from its beginning was folded when it was decoded.
    """
    if not job_ids:
        return
    folded = {each.file.job_id: each.rows.folded for each in advances if each.rows.folded is not None}
    alone = lineage.jobs_of_one_file(session, folded)
    folds = {job: found for job, found in folded.items() if job in alone}
    files: dict[int, list[FileOfJob]] = {job: [] for job in job_ids if job not in alone}
    for file in lineage.files_of_jobs(session, files):
        if file.current:
            files[file.job_id].append(file)
    lineage.number_evaluations(session, files.values())
    for portion in _portions(files):
        lineage.replace_lineage(session, folds | _folds(session, portion))
        folds = {}
    lineage.replace_lineage(session, folds)
    write_summaries(session, job_ids, less_is_better(settings.less_is_better))


@dataclass(slots=True)
class _Used:
    """What the log files of a job have used of its bounds; only the newest generation of each name counts."""

    files: dict[str, FileOfJob] = field(default_factory=dict)
    total: FileLineage = field(default_factory=FileLineage)

    def put(self, file: FileOfJob) -> None:
        """Count a file, in place of an older generation."""
        self._count(self.files.get(file.name), -1)
        self._count(file, 1)
        self.files[file.name] = file

    def of(self, file: KnownFile) -> FileLineage:
        """Return the summary of a file; from then on older generations of the file no longer count."""
        known = self.files.get(file.name)
        if known is None or known.file_no != file.file_no:
            known = FileOfJob(file.job_id, file.file_no, file.name, file.current, FileLineage())
            self.put(known)
        return known.lineage

    def _count(self, file: FileOfJob | None, sign: int) -> None:
        if file is not None:
            names = ("events", "content_bytes", "user_values")
            self.total = self.total._replace(
                **{name: getattr(self.total, name) + sign * getattr(file.lineage, name) for name in names}
            )


def _within(advance: Advance, job: _Used, most: Settings) -> tuple[Advance, FileLineage]:
    """Return the advance without the events for which its job has no room, and its file's summary before them."""
    rows, before = advance.rows, job.of(advance.file)
    kept: list[LineageRow] = []
    left_out: RangeProblems | None = None
    evaluations = before.evaluations
    ends = [event.byte_offset for event in rows.lineage_events[1:]] + [rows.end]
    for event, end in zip(rows.lineage_events, ends, strict=True):
        if reason := bounds.of_job(job.total, event, most):
            this = in_range("beyond_bounds", event.byte_offset, end, reason=reason)
            left_out = left_out.plus(this) if left_out else this
            continue
        if event.kind == "eval":
            evaluations += 1
            event = event._replace(evaluation_no=evaluations)
        kept.append(event)
        job.total = bounds.plus(job.total, event)
    if left_out:
        rows = rows._replace(folded=None, problems=(*rows.problems, left_out))
    return advance._replace(rows=rows._replace(lineage_events=tuple(kept))), before


def _portions(files: Mapping[int, list[FileOfJob]]) -> Iterator[dict[int, list[FileOfJob]]]:
    portion: dict[int, list[FileOfJob]] = {}
    weight = 0
    for job, of_job in files.items():
        portion[job] = of_job
        weight += sum(file.lineage.content_bytes for file in of_job)
        if weight >= PORTION_BYTES:
            yield portion
            portion, weight = {}, 0
    if portion:
        yield portion


def _folds(session: Session, files: Mapping[int, Sequence[FileOfJob]]) -> dict[int, FoldedLineage]:
    """Fold jobs from the events that count, and the user-defined values of the files that count."""
    bound = {job: binding([file.lineage for file in of_job]) for job, of_job in files.items()}
    places = {
        (job, kind): (job, files[job][number].file_no, at)
        for job, (found, _) in bound.items()
        for kind, (number, at) in found.items()
    }
    contents = lineage.contents(session, places.values())
    counting = {job: [file.key for file in files[job][first:]] for job, (_, first) in bound.items()}
    users = lineage.user_info(session, [key for keys in counting.values() for key in keys])
    folds = {}
    for job, (found, _) in bound.items():
        user: dict[str, Any] = {}
        for key in counting[job]:
            merge(user, json.loads(users.pop(key)))
        folds[job] = come_to({kind: contents[places[job, kind]] for kind in found}, user)
    return folds
