"""Stores with very many jobs and no log files, for queries: rows are inserted directly into the tables, then ANALYZE.

In: a database and a number of jobs. Out: an open store, whose jobs are finished and have lineage, a metric or two and
an owner; one job in 5,000 has the network RareNet, one in 20 has no Accuracy. Promises: the same number gives the same
rows; lineage rows are made by ingest's own fold. Stores exist until the benchmark ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from sqlalchemy import Table

from benchmarks.databases import LIFETIME, Database, fresh, gather_statistics
from lineage_store import LineageStore, texts
from lineage_store.ingest.decode.lineage_fold import fold
from lineage_store.store.database.sql import Session
from lineage_store.store.records import StoredEvent
from lineage_store.store.schema import tables

BASE_DIR = "/logs"
_NETWORKS = ("ResNet", "LeNet5", "Bert", "VGG", "MobileNet", "UNet", "GPT", "Yolo")
_OPTIMIZERS = ("Adam", "Momentum", "SGD", "AdamW")
_CREATED_AT = "2026-01-01T00:00:00.000000Z"
_JOBS_AT_ONCE = 10_000

Rows = dict[Table, list[dict[str, Any]]]


@cache
def store_of(database: Database, job_count: int) -> LineageStore:
    """Return a store of `job_count` jobs below BASE_DIR, whose id is 1."""
    print(f"storing {job_count:,} jobs in {database} …", flush=True)
    store = LIFETIME.enter_context(LineageStore(LIFETIME.enter_context(fresh(database))))
    jobs = _jobs(job_count)
    with store.engine.begin() as connection:
        insert(Session(connection), tables.base_dir, [_base_dir()])
        while part := list(islice(jobs, _JOBS_AT_ONCE)):
            for table in part[0]:
                insert(Session(connection), table, [row for rows in part for row in rows[table]])
    gather_statistics(store.engine)
    return store


def _jobs(count: int) -> Iterator[Rows]:
    random = np.random.default_rng(9)
    for job_id in range(1, count + 1):
        folded = fold(_events(job_id, random))
        job = {"id": job_id, "base_dir_id": 1, "train_id": f"./run_{job_id * 7919 % 10_000_019}"}
        times = {"update_time": 1_700_000_000 + int(random.integers(50_000_000)), "created_at": _CREATED_AT}
        lineage = {
            "job_id": job_id,
            "dataset_mark": folded.dataset_mark,
            "model_lineage": folded.model_lineage,
        }
        yield {
            tables.train_job: [{**job, **times, "state": "finished", "source_present": True, "log_bytes": 1}],
            tables.lineage: [lineage | folded.columns],
            tables.metric: [_valued(job_id, value) for value in folded.metrics],
            tables.user_info: [_valued(job_id, value) for value in folded.user_info],
        }


def _events(job_id: int, random: np.random.Generator) -> list[StoredEvent]:
    network = "RareNet" if random.random() < 0.0002 else _NETWORKS[random.integers(8)]
    metrics = {"eval_loss": random.random()} | ({"Accuracy": random.random()} if job_id % 20 else {})
    parameters = {
        "optimizer": _OPTIMIZERS[random.integers(4)],
        "learning_rate": float(10.0 ** -random.integers(1, 4)),
        "loss_function": "SoftmaxCrossEntropyWithLogits",
        "epoch": int(random.integers(1, 40)),
        "batch_size": 32,
        "device_num": 8,
    }
    train = {
        "hyper_parameters": parameters,
        "train_dataset": {"train_dataset_path": "/data/imagenet/train", "train_dataset_size": 1_281_167},
        "algorithm": {"network": network, "loss": float(random.random())},
        "model": {"path": f"/checkpoints/{job_id}.ckpt", "size": 123_456_789},
    }
    contents = {
        "train": train,
        "eval": {"metric": json.dumps(metrics)},
        "user_info": {"owner": f"u{job_id % 50}"},
    }
    return [StoredEvent(1, kind, json.dumps(content)) for kind, content in contents.items()]


def _valued(job_id: int, value: Any) -> dict[str, Any]:
    named = {"job_id": job_id, "name_key": texts.key(value.name), "position": value.position}
    return named | {"name": value.name, "kind": value.kind, "value": value.value, "text": value.text}


def _base_dir() -> dict[str, Any]:
    return {"id": 1, "path": BASE_DIR, "path_key": texts.key(BASE_DIR), "created_at": _CREATED_AT}


def insert(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows with the driver alone, for speed; this is not measured."""
    columns, cursor = list(rows[0]), session.connection.connection.cursor()
    names, values = ", ".join(columns), [tuple(row.values()) for row in rows]
    if session.kind == "sqlite":
        marks = ", ".join("?" * len(columns))
        cursor.executemany(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", values)
        return
    with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
        for row in values:
            copy.write_row(row)
