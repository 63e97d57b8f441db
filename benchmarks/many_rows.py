"""Insert very many jobs, log files and samples directly into the tables, with few statements.

In: an open write transaction, numbers. Out: rows that are like ingest's for query plans and removal: each job has a
finished summary file with scalar series of equal length. Promises: rows are generated in the database, not in Python.
"""

from __future__ import annotations

from sqlalchemy import text

from lineage_store.store.database.sql import Session

_MADE_AT = "2026-01-01T00:00:00.000000Z"
_COUNTED = {
    "sqlite": "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < {last}) SELECT n FROM c",
    "postgresql": "SELECT n FROM generate_series(1, {last}) c(n)",
}


def counted(session: Session, last: int) -> str:
    """Return a subquery of the numbers `n` from 1 to `last`."""
    return f"({_COUNTED[session.kind].format(last=last)})"


def add_jobs(session: Session, base_dir_id: int, jobs: int, *, series: int = 0, steps: int = 0) -> None:
    """Add finished jobs `./job_{id}`, each with a summary file, and lineage whose few texts many jobs share."""
    first = session.value(text("SELECT coalesce(max(id), 0) FROM train_job"))
    job = f"SELECT n + {first} AS id FROM {counted(session, jobs)} numbers"
    tag = f"SELECT n AS no FROM {counted(session, series)} numbers"
    step = f"SELECT n AS step FROM {counted(session, steps)} numbers"
    rows = {
        "train_job (id, base_dir_id, train_id, train_key, state, source_present, update_time, log_bytes, created_at)": (
            f"SELECT id, {base_dir_id}, './job_' || id, id, 'finished', true, 1700000000 + id, 1, '{_MADE_AT}'"
            f" FROM ({job}) j"
        ),
        "log_file (job_id, file_no, name, generation, current, format, kind, file_time, state, size_bytes, byte_offset,"
        " quarantined_bytes, event_count, modified_s, closed, fingerprint_bytes, anchor_bytes, failed_reads,"
        " created_at)": (
            "SELECT id, 1, 'events.out.events.summary.1700000000.0.host_MS', 1, true, 'mindspore', 'summary',"
            f" 1700000000, 'closed', 1, 1, 0, {series * steps}, 0, true, 0, 0, 0, '{_MADE_AT}' FROM ({job}) j"
        ),
        "lineage (job_id, network, optimizer, loss_function, train_dataset_path, test_dataset_path, dataset_mark,"
        " model_lineage)": (
            "SELECT id, 'network_' || (id - id / 8 * 8), 'optimizer_' || (id - id / 4 * 4),"
            " 'SoftmaxCrossEntropyWithLogits',"
            f" '/data/imagenet/train', '/data/imagenet/val', '1234567890ab', '{{}}' FROM ({job}) j"
        ),
        "series (job_id, series_no, file_no, plugin, tag_key, tag, sample_count, first_step, last_step, nan_count,"
        " inf_count)": (
            f"SELECT id, no, 1, 'scalar', no, 'tag_' || no, {steps}, 1, {steps}, 0, 0"
            f" FROM ({job}) j CROSS JOIN ({tag}) t"
        ),
        "scalar_sample (job_id, series_no, step, wall_time, value)": (
            "SELECT id, no, step, 1700000000.0 + step, 1.0 / step"
            f" FROM ({job}) j CROSS JOIN ({tag}) t CROSS JOIN ({step}) s"
        ),
    }
    for table, select in rows.items() if series * steps else list(rows.items())[:3]:
        typed = select.replace(f"'{_MADE_AT}'", f"CAST('{_MADE_AT}' AS timestamptz)")
        values = select if session.kind == "sqlite" else typed
        session.change(f"INSERT INTO {table} {values}")
    if session.kind == "postgresql":
        session.change("SELECT setval(pg_get_serial_sequence('train_job', 'id'), max(id)) FROM train_job")
