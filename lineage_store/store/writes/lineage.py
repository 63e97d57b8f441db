"""Lineage rows: each lineage event, the summary of each file's events, the folded lineage and best results of each job.

In: advances with lineage events; summaries of files; folded lineages. Out: rows of `lineage_event` and
`evaluation_metric`; of `file_lineage`; of `lineage`, `metric`, `user_info`, `dataset_graph` and `dataset_node`; and of
`metric_summary`. Promises: replacing or removing the folded lineage of a job also deletes its rows of `metric_summary`,
for which all evaluations in current log files count, also those before a later training; NaN, infinities, text and
bools are never the best result; of equal results the earliest is the best. Does not know how events are folded
(ingest/decode/lineage_fold.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Row, Select, and_, case, delete, func, or_, select

from lineage_store.store.database.sql import Session, among, among_rows, update_by_key, upsert
from lineage_store.store.records import (
    Advance,
    DatasetGraph,
    FileKey,
    FileLineage,
    FoldedLineage,
    StoredEvent,
    Valued,
)
from lineage_store.store.schema.tables import (
    dataset_graph,
    dataset_node,
    evaluation_metric,
    file_lineage,
    lineage,
    lineage_event,
    log_file,
    metric,
    metric_summary,
    of_file,
    user_info,
)
from lineage_store.texts import from_stored, key, summary_key

EventKey: TypeAlias = tuple[int, int, int, str]
"""Which lineage event is meant: (job id, number of the file, byte offset in it, kind); of several, the last."""

_FILES = file_lineage.join(log_file, of_file(file_lineage))
_EVENTS = lineage_event.join(log_file, of_file(lineage_event))


class FileOfJob(NamedTuple):
    """A log file and the summary of its lineage events, without the user-defined values."""

    job_id: int
    file_no: int
    name: str
    current: bool
    lineage: FileLineage
    evaluations_before: int = 0
    has_last_evaluation: bool = True

    @property
    def key(self) -> FileKey:
        """The key of the file in the store."""
        return self.job_id, self.file_no


def files_of_jobs(session: Session, job_ids: Collection[int]) -> Iterator[FileOfJob]:
    """Yield the files of jobs that have lineage events, in the order of folding; generations ascend."""
    counted = [file_lineage.c[name] for name in FileLineage._fields if name != "user_info"]
    key_of, numbered = ("job_id", "file_no"), ("evaluations_before", "has_last_evaluation")
    own = [file_lineage.c[name] for name in key_of + numbered]
    rows = session.rows(
        select(*own, log_file.c.name, log_file.c.current, *counted)
        .select_from(_FILES)
        .where(among(session, file_lineage.c.job_id, job_ids))
        .order_by(log_file.c.file_time, log_file.c.name, log_file.c.generation)
    )
    for job_id, file_no, before, has_last, name, current, *counts in rows:
        yield FileOfJob(job_id, file_no, name, current, FileLineage(*counts), before, has_last)


def user_info_of(session: Session, files: Collection[FileKey]) -> dict[FileKey, str]:
    """Return the merged user-defined values of files, as JSON."""
    key_of = (file_lineage.c.job_id, file_lineage.c.file_no)
    query = select(*key_of, file_lineage.c.user_info).where(among_rows(session, key_of, files))
    return {(row.job_id, row.file_no): row.user_info for row in session.rows(query)}


def event_contents(session: Session, places: Collection[EventKey]) -> dict[EventKey, str]:
    """Return the contents of events (JSON) by their keys, among those of other events in the same frames."""
    event = lineage_event.c
    frame = (event.job_id, event.file_no, event.byte_offset)
    within = among_rows(session, frame, {place[:3] for place in places})
    query = select(*frame, event.kind, event.content).where(within).order_by(event.value_index)
    return {(*place, kind): content for *place, kind, content in session.rows(query)}


def write_files(session: Session, come_to: Mapping[FileKey, FileLineage], *, user_info: bool = True) -> None:
    """Store the summaries of files; without `user_info`, the stored user-defined values of known files stay."""
    rows = [{"job_id": job, "file_no": number, **found._asdict()} for (job, number), found in come_to.items()]
    changing = [name for name in FileLineage._fields if user_info or name != "user_info"]
    if rows:
        session.change(upsert(session, file_lineage, ("job_id", "file_no"), changing), rows)


def number_evaluations(session: Session, files: Iterable[Sequence[FileOfJob]]) -> None:
    """Note which evaluations come before those of a file, given the current files of each job in the order of folding.

    Otherwise whoever numbers an evaluation within its job would have to read all files of the job.
    """
    changed = []
    for of_job in files:
        before, last = (
            0,
            max((n for n, file in enumerate(of_job) if file.lineage.eval_at is not None), default=0),
        )
        for number, file in enumerate(of_job):
            found = {"evaluations_before": before, "has_last_evaluation": number == last}
            if (file.evaluations_before, file.has_last_evaluation) != tuple(found.values()):
                changed.append({"of_job_id": file.job_id, "of_file_no": file.file_no, **found})
            before += file.lineage.evaluations
    update_by_key(session, file_lineage, changed)


def write_lineage_events(session: Session, advances: Iterable[Advance]) -> None:
    """Insert lineage events with the metrics of evaluations."""
    events: list[dict[str, Any]] = []
    metrics: list[dict[str, Any]] = []
    for advance in advances:
        for event in advance.rows.lineage_events:
            at = {
                "job_id": advance.file.job_id,
                "file_no": advance.file.file_no,
                "byte_offset": event.byte_offset,
                "value_index": event.value_index,
            }
            names = ("kind", "wall_time", "content", "evaluation_no", "epoch", "step")
            events.append({**at, **{name: getattr(event, name) for name in names}})
            metrics.extend({**at, **_value_row(value)} for value in event.metrics)
    session.insert(lineage_event, events)
    session.insert(evaluation_metric, metrics)


def current_events(session: Session, job_ids: Collection[int]) -> dict[int, list[StoredEvent]]:
    """Return the lineage events of each job's current files, in the order in which they are folded.

    That is by timestamp and name of the file, then by place in it.
    """
    found: dict[int, list[StoredEvent]] = {job: [] for job in job_ids}
    rows = session.rows(
        select(*(lineage_event.c[name] for name in ("job_id", "file_no", "kind", "content")))
        .select_from(_EVENTS)
        .where(among(session, lineage_event.c.job_id, job_ids), log_file.c.current)
        .order_by(
            *(log_file.c.file_time, log_file.c.name, lineage_event.c.byte_offset, lineage_event.c.value_index)
        )
    )
    for row in rows:
        found[row.job_id].append(StoredEvent(row.file_no, row.kind, row.content))
    return found


def jobs_of_one_file(session: Session, job_ids: Collection[int]) -> set[int]:
    """Return which of `job_ids` have lineage events in a single file, in a single generation, which is current."""
    mine = among(session, file_lineage.c.job_id, job_ids)
    files = select(file_lineage.c.job_id).join_from(file_lineage, log_file, of_file(file_lineage)).where(mine)
    current = func.count(case((log_file.c.current, 1)))
    alone = files.group_by(file_lineage.c.job_id).having(func.count() == 1, current == 1)
    return set(session.column(alone))


def replace_lineage(session: Session, folds: Mapping[int, FoldedLineage]) -> None:
    """Replace the folded lineage of jobs; delete dataset pipelines that no job has any more."""
    if not folds:
        return
    before = _graphs_of(session, folds)
    _delete_lineage(session, folds)
    graphs = _ensure_graphs(session, [fold.dataset_graph for fold in folds.values() if fold.dataset_graph])
    listed = {job: fold for job, fold in folds.items() if fold.listed}
    session.insert(lineage, [_lineage_row(job, fold, graphs) for job, fold in listed.items()])
    for table, values in ((metric, "metrics"), (user_info, "user_info")):
        rows = [
            {"job_id": job, **_value_row(value)}
            for job, fold in folds.items()
            for value in getattr(fold, values)
        ]
        session.insert(table, rows)
    _drop_unused_graphs(session, before - set(graphs.values()))


def remove_lineage(session: Session, job_ids: Collection[int]) -> None:
    """Delete the folded lineage of jobs, and the dataset pipelines that no other job has."""
    before = _graphs_of(session, job_ids)
    _delete_lineage(session, job_ids)
    _drop_unused_graphs(session, before)


def _delete_lineage(session: Session, job_ids: Iterable[int]) -> None:
    jobs = list(job_ids)
    for table in (lineage, metric, metric_summary, user_info):
        session.change(delete(table).where(among(session, table.c.job_id, jobs)))


def _lineage_row(job: int, fold: FoldedLineage, graphs: Mapping[str, int]) -> dict[str, Any]:
    return {
        "job_id": job,
        **fold.columns,
        "dataset_mark": fold.dataset_mark,
        "dataset_graph_id": graphs[fold.dataset_graph.digest] if fold.dataset_graph else None,
        "model_lineage": fold.model_lineage,
    }


def _ensure_graphs(session: Session, graphs: Iterable[DatasetGraph]) -> dict[str, int]:
    """Return the ids of dataset pipelines by digest; insert new pipelines with their nodes.

    They are inserted in the order of their digests, so that two ingesters that insert the same ones do not deadlock.
    """
    by_digest = {graph.digest: graph for graph in sorted(graphs, key=lambda graph: graph.digest)}
    ids = _graph_ids(session, by_digest)
    new = [graph for digest, graph in by_digest.items() if digest not in ids]
    if not new:
        return ids
    rows = [{"digest": graph.digest, "mark": graph.mark, "content": graph.content} for graph in new]
    session.change(upsert(session, dataset_graph, ["digest"]), rows)
    ids = _graph_ids(session, by_digest)
    nodes = [
        {"dataset_graph_id": ids[graph.digest], "item_no": item_no, **node._asdict()}
        for graph in new
        for item_no, node in enumerate(graph.nodes)
    ]
    if nodes:
        session.change(upsert(session, dataset_node, ["dataset_graph_id", "item_no"]), nodes)
    return ids


def _graphs_of(session: Session, job_ids: Iterable[int]) -> set[int]:
    graph = lineage.c.dataset_graph_id
    mine = among(session, lineage.c.job_id, job_ids)
    return set(session.column(select(graph).where(mine, graph.is_not(None))))


def _drop_unused_graphs(session: Session, graph_ids: Iterable[int]) -> None:
    """Delete those of the dataset pipelines that no job refers to.

    They are locked first, so that no transaction can refer to one between the query for references and the deletion.
    """
    mine = select(dataset_graph.c.id).where(among(session, dataset_graph.c.id, graph_ids))
    locked = session.column(mine.with_for_update(skip_locked=True))
    if locked:
        graph = lineage.c.dataset_graph_id
        used = session.column(select(graph).where(among(session, graph, locked)).distinct())
        unused = set(locked).difference(used)
        session.change(delete(dataset_graph).where(among(session, dataset_graph.c.id, unused)))


def _graph_ids(session: Session, digests: Iterable[str]) -> dict[str, int]:
    """Return the ids of stored dataset pipelines by digest.

    The rows stay locked, so that no other ingester deletes them before this transaction commits its references.
    """
    query = select(dataset_graph.c.digest, dataset_graph.c.id).with_for_update(read=True, key_share=True)
    rows = session.rows(query.where(among(session, dataset_graph.c.digest, digests)))
    return {row.digest: row.id for row in rows}


def _value_row(value: Valued) -> dict[str, Any]:
    return {"name_key": key(value.name), **value._asdict()}


# ---- The first and the best result of each metric of a job, over all its evaluations

_COPIED = ("job_id", "position", "kind", "value", "text", "evaluation_no")


def write_summaries(
    session: Session, job_ids: Collection[int], is_less_better: Callable[[str], bool]
) -> None:
    """Insert the summaries of jobs that have none."""
    found = session.rows(_ends(session, job_ids))
    session.insert(metric_summary, [row for each in found for row in _rows(each, is_less_better)])


def rewrite_summaries(
    session: Session, job_ids: Collection[int], is_less_better: Callable[[str], bool]
) -> None:
    """Replace the summaries of jobs."""
    session.change(delete(metric_summary).where(among(session, metric_summary.c.job_id, job_ids)))
    write_summaries(session, job_ids, is_less_better)


def _rows(found: Row[Any], is_less_better: Callable[[str], bool]) -> Iterator[dict[str, Any]]:
    is_best = found.least if is_less_better(from_stored(found.name)) else found.greatest
    is_number = found.kind in ("int", "float")
    for which, holds in (("first", found.nth == 1), ("best", is_number and is_best == 1)):
        if holds:
            name = f"{which}/{found.name}"
            yield {
                "name": name,
                "name_key": summary_key(name),
                **{each: getattr(found, each) for each in _COPIED},
            }


def _ends(session: Session, job_ids: Collection[int]) -> Select[Any]:
    """For each metric of each job, the first result, and the least and the greatest number."""
    event, result = lineage_event.c, evaluation_metric.c
    place = (log_file.c.file_time, log_file.c.name, event.byte_offset, event.value_index)
    same = (result.job_id, result.name_key)
    numbers = (*same, result.kind.in_(("int", "float")))
    ranks = (
        func.dense_rank().over(partition_by=event.job_id, order_by=place).label("evaluation_no"),
        func.row_number().over(partition_by=same, order_by=place).label("nth"),
        func.row_number().over(partition_by=numbers, order_by=(result.value, *place)).label("least"),
        func.row_number()
        .over(partition_by=numbers, order_by=(result.value.desc(), *place))
        .label("greatest"),
    )
    measured = and_(
        result.job_id == event.job_id,
        result.file_no == event.file_no,
        result.byte_offset == event.byte_offset,
        result.value_index == event.value_index,
    )
    ranked = (
        select(*(result[name] for name in ("job_id", "name", "position", "kind", "value", "text")), *ranks)
        .select_from(_EVENTS.outerjoin(evaluation_metric, measured))
        .where(among(session, event.job_id, job_ids), event.kind == "eval", log_file.c.current)
        .subquery()
    )
    is_end = or_(ranked.c.nth == 1, ranked.c.least == 1, ranked.c.greatest == 1)
    return select(ranked).where(ranked.c.name.is_not(None), is_end)
