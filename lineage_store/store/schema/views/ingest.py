"""Views of the state of ingest: what was read, what is pending, what went wrong.

For every log file: size = ingested + quarantined + pending bytes; what is ingested of a copy is in the store once, with
the log file of which it is a copy. A rewritten file has two rows until its new generation is read; replaced generations
are not shown.
"""

from __future__ import annotations

from lineage_store.states import WAITING_IN, FileState, JobState, sql_list
from lineage_store.store.schema.views.model import (
    JOB,
    View,
    bigint,
    boolean,
    double,
    instant,
    integer,
    join_job,
    text,
)
from lineage_store.texts import either


def _waits(file: str) -> str:
    """The condition that a log file waits to be read: as `WAITS` in store/catalog/registry.py, of pending files."""
    is_behind = f"{file}.stat_stamp IS NULL AND {file}.size_bytes > {file}.byte_offset"
    return f"({is_behind} AND {file}.state IN {sql_list(WAITING_IN)})"


_SHOWN = [state for state in FileState if state != FileState.REPLACED]

V_LOG_FILE = View(
    "v_log_file",
    "a row per log file and generation of its content: how far ingest has come",
    (
        *JOB,
        text("log_file", "f.name", "file name"),
        text("format", "f.format", "log format, such as mindspore"),
        text("kind", "f.kind", "summary or lineage"),
        integer("generation", "f.generation", "1, and one more each time the file was rewritten"),
        boolean("is_current", "f.current", "whether the other views show this generation"),
        text(
            "copy_of",
            "(SELECT o.name FROM log_file o WHERE o.job_id = f.job_id AND o.file_no = f.copy_of)",
            "log file of the job that has all its bytes and counts instead of it; NULL when it is no copy",
        ),
        bigint("device", "f.device", "device number in the name"),
        text("host", "f.host", "host in the name"),
        text("state", "f.state", either(_SHOWN)),
        boolean(
            "is_closed", "f.closed", "the writer has finished, as its format defines (MindSpore: mode 0400)"
        ),
        bigint("size_bytes", "f.size_bytes", "size at the last check"),
        bigint("bookmark_bytes", "f.byte_offset", "bytes that ingest has dealt with"),
        bigint(
            "ingested_bytes", "f.byte_offset - f.quarantined_bytes", "bytes whose content is in the store"
        ),
        bigint(
            "copied_bytes",
            "CASE WHEN f.copy_of IS NULL THEN 0 ELSE f.byte_offset END",
            "those of them that are in the store with the log file of which it is a copy",
        ),
        bigint("pending_bytes", "f.size_bytes - f.byte_offset", "bytes not yet complete or not yet read"),
        bigint("quarantined_bytes", "f.quarantined_bytes", "bytes that were given up as damaged"),
        bigint("event_count", "f.event_count", "events ingested"),
        instant("begun_at", "{instant:f.file_time}", "timestamp in the name"),
        instant("last_event_at", "{instant:f.last_wall_time}", "greatest wall time of its events"),
        instant("modified_at", "{instant:f.modified_s}", "modification time"),
        instant("grown_at", "f.grown_at", "when it was last seen to grow"),
        instant("suspect_since", "f.suspect_since", "since when the bytes at the bookmark make no frame"),
        text("last_problem", "f.last_problem", "what is wrong with it now"),
        boolean("is_waiting", _waits("f"), "found, and not yet read to its end"),
    ),
    f"FROM log_file f {join_job('f')} WHERE f.state <> '{FileState.REPLACED}'",
)

V_INGEST_PROBLEM = View(
    "v_ingest_problem",
    "what ingest could not do, and the remedy, a row per log file and kind; unresolved while resolved_at is NULL",
    (
        text("base_dir", "b.path", "base dir"),
        text("train_id", "p.train_id", "id of the job, if it concerns one"),
        integer("job_id", "p.job_id", "number of that job in this store"),
        text("path", "p.path", "file or directory, relative to the base dir"),
        text("kind", "p.kind", "what sort of problem"),
        integer(
            "problems",
            "p.problems",
            "problems that the row stands for: 1, or those of its job that are not listed",
        ),
        bigint("count", "p.count", "places in the file that have it"),
        bigint("bytes", "p.bytes", "bytes that those places have together"),
        bigint("range_start", "p.range_start", "first byte concerned"),
        bigint("first_range_end", "p.first_range_end", "first byte behind the first place"),
        bigint("last_range_start", "p.last_range_start", "first byte of the last place"),
        bigint("range_end", "p.range_end", "first byte behind the last place"),
        text("reason", "p.reason", "what is wrong, in the first place"),
        text("remedy", "p.remedy", "what to do"),
        instant("first_seen_at", "p.first_seen_at", "since when"),
        instant("last_seen_at", "p.last_seen_at", "when last seen"),
        instant("resolved_at", "p.resolved_at", "when it was resolved; NULL while it is open"),
    ),
    "FROM ingest_problem p JOIN base_dir b ON b.id = p.base_dir_id AND NOT b.leaving",
)

V_INGEST_CYCLE = View(
    "v_ingest_cycle",
    "what each pass of an ingester over a base dir did",
    (
        text("base_dir", "b.path", "base dir"),
        instant("started_at", "c.started_at", "start"),
        instant("finished_at", "c.finished_at", "end"),
        text("holder", "c.holder", "which ingester"),
        bigint("files_found", "c.files_found", "log files found"),
        bigint("files_read", "c.files_read", "log files read from"),
        bigint("bytes_read", "c.bytes_read", "bytes the bookmarks moved"),
        bigint("events", "c.events", "events ingested"),
        bigint("samples", "c.samples", "samples ingested"),
        bigint("pending_bytes", "c.pending_bytes", "bytes seen but not yet complete or not yet read"),
        bigint(
            "waiting_files", "c.waiting_files", "log files found and not yet read to their ends, at its end"
        ),
        bigint("waiting_bytes", "c.waiting_bytes", "bytes of those that were not yet read"),
        bigint("problems", "c.problems", "problems open at its end"),
    ),
    "FROM ingest_cycle c JOIN base_dir b ON b.id = c.base_dir_id AND NOT b.leaving",
)

_LED = "FROM ingest_lease i WHERE i.base_dir_id = b.id AND i.shard < b.shards AND i.expires_at > {now}"
_LAST_CYCLE = "(SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id)"

V_BASE_DIR = View(
    "v_base_dir",
    "a row per base dir: its jobs by state, how far ingest lags behind, and who holds its lease",
    (
        text("base_dir", "b.path", "absolute path of the directory of job directories"),
        bigint("jobs", "coalesce(j.jobs, 0)", "jobs"),
        bigint("reading_jobs", "coalesce(j.reading, 0)", "jobs that were found and are not all read yet"),
        bigint("live_jobs", "coalesce(j.live, 0)", "jobs that grew recently"),
        bigint("stalled_jobs", "coalesce(j.stalled, 0)", "unfinished jobs that are quiet"),
        bigint("finished_jobs", "coalesce(j.finished, 0)", "jobs whose log files are all closed"),
        bigint("missing_jobs", "coalesce(j.missing, 0)", "jobs of which no log file is left on disk"),
        bigint("log_files", "coalesce(f.files, 0)", "log files that are there"),
        bigint("log_bytes", "coalesce(f.size_bytes, 0)", "bytes of the log files that are there"),
        bigint("pending_bytes", "coalesce(f.pending_bytes, 0)", "bytes of them that are not yet read"),
        bigint(
            "waiting_files", "coalesce(f.waiting_files, 0)", "log files found and not yet read to their ends"
        ),
        bigint("waiting_bytes", "coalesce(f.waiting_bytes, 0)", "bytes of those that are not yet read"),
        bigint("quarantined_bytes", "coalesce(f.quarantined_bytes, 0)", "bytes given up as damaged"),
        bigint(
            "open_problems",
            "(SELECT coalesce(sum(p.problems), 0) FROM ingest_problem p WHERE p.base_dir_id = b.id"
            " AND p.resolved_at IS NULL)",
            "unresolved problems",
        ),
        text(
            "leader",
            f"(SELECT i.holder {_LED} ORDER BY i.shard LIMIT 1)",
            "ingester that holds the lease, of its first shard whose lease is held; NULL: none",
        ),
        integer("shards", "b.shards", "into how many shards its jobs are divided"),
        bigint("led_shards", f"(SELECT count(*) {_LED})", "how many of them have a held lease (v_shard)"),
        instant("last_cycle_at", _LAST_CYCLE, "end of the last pass over it"),
        double("last_cycle_age_s", f"{{age_s:{_LAST_CYCLE}}}", "since the end of the last pass"),
        instant("discovered_at", "b.discovered_at", "when it was last searched for jobs in full"),
        bigint(
            "revision",
            "b.revision",
            "grows with every transaction that changes its jobs; those changed since N have a greater one than N",
        ),
        instant("known_since", "b.created_at", "when the store first saw it, since it was last forgotten"),
    ),
    f"""
FROM base_dir b
LEFT JOIN (
  SELECT base_dir_id, count(*) AS jobs,
         count(*) FILTER (WHERE state = '{JobState.READING}') AS reading,
         count(*) FILTER (WHERE state = '{JobState.LIVE}') AS live,
         count(*) FILTER (WHERE state = '{JobState.STALLED}') AS stalled,
         count(*) FILTER (WHERE state = '{JobState.FINISHED}') AS finished,
         count(*) FILTER (WHERE state = '{JobState.MISSING}') AS missing
  FROM train_job GROUP BY base_dir_id
) j ON j.base_dir_id = b.id
LEFT JOIN (
  SELECT job.base_dir_id, count(*) AS files,
         {{total:file.size_bytes}} AS size_bytes,
         {{total:file.size_bytes - file.byte_offset}} AS pending_bytes,
         count(*) FILTER (WHERE {_waits("file")}) AS waiting_files,
         {{total:CASE WHEN {_waits("file")} THEN file.size_bytes - file.byte_offset ELSE 0 END}} AS waiting_bytes,
         {{total:file.quarantined_bytes}} AS quarantined_bytes
  FROM log_file file JOIN train_job job ON job.id = file.job_id
  WHERE file.state NOT IN {sql_list([FileState.REPLACED, FileState.MISSING])}
  GROUP BY job.base_dir_id
) f ON f.base_dir_id = b.id
WHERE NOT b.leaving
""",  # noqa: S608 - our own words
)

V_SHARD = View(
    "v_shard",
    "a row per shard of a base dir: who holds its lease",
    (
        text("base_dir", "b.path", "base dir"),
        integer("shard", "i.shard", "number of the shard, from 0"),
        text(
            "leader", "CASE WHEN i.expires_at > {now} THEN i.holder END", "holder of its lease; NULL: nobody"
        ),
        instant("led_since", "CASE WHEN i.expires_at > {now} THEN i.acquired_at END", "since when"),
        instant("searched_at", "i.searched_at", "when the base dir was last searched in full for its jobs"),
    ),
    "FROM ingest_lease i JOIN base_dir b ON b.id = i.base_dir_id AND i.shard < b.shards AND NOT b.leaving",
)

INGEST_VIEWS = (V_LOG_FILE, V_INGEST_PROBLEM, V_INGEST_CYCLE, V_BASE_DIR, V_SHARD)
