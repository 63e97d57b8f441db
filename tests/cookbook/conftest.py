"""A small store for which the answer to every question of the cookbook is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.built_store import (
    LogFile,
    add_evaluation,
    add_file,
    add_payloads,
    add_pipeline,
    add_scalars,
    derive,
)
from helpers.stored_jobs import StoredJob, add_base_dir, add_job
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.database.sql import Session

BASE_DIR = "/logs/summary_base"
MARCH, AUGUST, SEPTEMBER_3, SEPTEMBER_10 = 1740787200, 1755648000, 1756857600, 1757462400
"""Midnights of 2025, UTC: 1 March, 20 August, 3 and 10 September."""
LENET = {
    "network": "LeNet5",
    "epoch": 10,
    "batch_size": 32,
    "device_num": 1,
    "train_dataset_path": "/data/mnist",
}
RESNET = {"network": "ResNet50", "train_dataset_path": "/data/imagenet"}


@pytest.fixture(scope="module")
def filled(module_database_url: str) -> Iterator[Engine]:
    """The filled store, once on each database."""
    engine = open_engine(module_database_url)
    with writing(engine) as session:
        _fill(session, add_base_dir(session, BASE_DIR))
    yield engine
    engine.dispose()


def _fill(session: Session, base_dir_id: int) -> None:
    now = datetime.now(UTC)
    add = _Adder(session, base_dir_id)
    lenet_a, lenet_b, lenet_c = _even_training(add), _restarted_training(add), _diverged_training(add)
    resnet_a = _old_training_on_two_devices(add)
    resnet_b = _quiet_training(
        add, "resnet-b", {"owner": "cleo", "team": "nlp"}, 2.0, now - timedelta(hours=1)
    )
    _quiet_training(add, "resnet-c", {}, 4.0, now - timedelta(minutes=15))
    _old_training_not_fully_ingested(add)
    add_pipeline(session, [lenet_a, lenet_b], "111111111111", _pipeline(batch=32, size=28))
    add_pipeline(session, [lenet_c], "222222222222", _pipeline(batch=32, size=32))
    add_pipeline(session, [resnet_a], "333333333333", _pipeline(batch=64, size=224))
    add_pipeline(session, [resnet_b], "444444444444", _pipeline(batch=64, size=224)[1:])
    derive(session, now)


class _Adder:
    """Adds jobs and their files to one base dir."""

    def __init__(self, session: Session, base_dir_id: int) -> None:
        self.connection = session
        self.base_dir_id = base_dir_id

    def job(self, name: str, fields: dict[str, Any], metrics: dict[str, Any], user: dict[str, Any]) -> int:
        return add_job(self.connection, StoredJob(f"./{name}", fields, metrics, user), self.base_dir_id)

    def file(self, job_id: int, time: int, **columns: Any) -> LogFile:
        return add_file(self.connection, job_id, time, **columns)

    def scalars(self, file: LogFile, tag: str, first_step: int, *values: float) -> None:
        add_scalars(self.connection, file, tag, dict(enumerate(values, first_step)))

    def evaluations(self, job_id: int, time: int, *metrics: dict[str, Any]) -> None:
        file = self.file(job_id, time, kind="lineage")
        for number, results in enumerate(metrics, 1):
            add_evaluation(self.connection, file, 100 * number, results)


def _even_training(add: _Adder) -> int:
    fields = LENET | {"optimizer": "Momentum", "learning_rate": 0.01}
    job = add.job("lenet-a", fields, {"accuracy": 0.75}, {"team": "vision", "owner": "ana"})
    file = add.file(job, SEPTEMBER_3, seconds_per_step=450.0)
    add.scalars(file, "loss/auto", 1, 0.9, 0.5, 0.09, 0.05)
    add_scalars(add.connection, file, "accuracy", {2: 0.5, 4: 0.75})
    add.evaluations(job, SEPTEMBER_3, {"accuracy": 0.5}, {"accuracy": 0.75})
    return job


def _restarted_training(add: _Adder) -> int:
    """Its second file goes back to step 3; the first one's best accuracy and its NaN no longer count."""
    fields = LENET | {"optimizer": "Momentum", "learning_rate": 0.01}
    job = add.job("lenet-b", fields, {"accuracy": 0.875}, {"team": "vision", "owner": "bo"})
    first = add.file(job, SEPTEMBER_10, seconds_per_step=900.0)
    add.scalars(first, "loss/auto", 1, 1.0, 0.8, 0.05, math.nan)
    add.scalars(first, "accuracy", 4, 0.99)
    second = add.file(job, SEPTEMBER_10 + 3600, seconds_per_step=900.0)
    add.scalars(second, "loss/auto", 3, 0.5, 0.3, 0.08, 0.04)
    add_scalars(add.connection, second, "accuracy", {4: 0.7, 6: 0.875})
    add.evaluations(job, SEPTEMBER_10 + 3600, {"accuracy": 0.875})
    return job


def _diverged_training(add: _Adder) -> int:
    fields = LENET | {"optimizer": "Adam", "learning_rate": 0.001, "test_dataset_path": "/data/mnist"}
    job = add.job("lenet-c", fields, {"accuracy": math.nan}, {})
    file = add.file(job, AUGUST)
    add.scalars(file, "loss/auto", 1, 0.7, 0.6, math.nan, math.nan)
    for layer, nan_counts in {
        "conv1.weight/auto": (0, 5),
        "fc1.weight/auto": (3, 7),
        "fc2.weight/auto": (1, 1),
    }.items():
        steps = {
            step: {"count": 10, "nan_count": count} for step, count in zip((2, 4), nan_counts, strict=True)
        }
        add_payloads(add.connection, file, "histogram", layer, steps)
    add.evaluations(job, AUGUST, {"accuracy": math.nan})
    return job


def _old_training_on_two_devices(add: _Adder) -> int:
    fields = RESNET | {"optimizer": "Momentum", "learning_rate": 0.1, "device_num": 2}
    job = add.job("resnet-a", fields, {"accuracy": 0.5}, {"team": "nlp"})
    for device, seconds_per_step in ((0, 1.0), (1, 1.5)):
        file = add.file(job, MARCH, device=device, seconds_per_step=seconds_per_step)
        add.scalars(file, "loss/auto", 1, 2.0, 1.5, 1.25 - device, 1.0)
        if device == 0:
            add.scalars(file, "accuracy", 4, 0.25)
            add_payloads(add.connection, file, "image", "input", {1: {"size_bytes": 300}})
    add.evaluations(job, MARCH, {"accuracy": 0.5})
    return job


def _quiet_training(
    add: _Adder, name: str, user: dict[str, Any], seconds_per_step: float, grown_at: datetime
) -> int:
    job = add.job(name, RESNET, {}, user)
    unfinished = {"closed": False, "state": "open", "grown_at": grown_at}
    file = add.file(job, SEPTEMBER_10, seconds_per_step=seconds_per_step, **unfinished)
    add.scalars(file, "loss/auto", 1, 1.0, 0.9)
    return job


def _old_training_not_fully_ingested(add: _Adder) -> None:
    job = add.job("resnet-d", RESNET, {}, {})
    add.scalars(add.file(job, MARCH, byte_offset=900), "loss/auto", 1, 1.0)


def _pipeline(*, batch: int, size: int) -> list[dict[str, Any]]:
    """Nodes in the store's shape: what a Map does, and how images are made."""
    in_map = {"node": 1, "parent": 0, "op_type": "Map"}
    return [
        {**in_map, "operation": "Rescale", "operation_no": 0, "parameter": "rescale", "value": "0.5"},
        {**in_map, "operation": "Resize", "operation_no": 1, "parameter": "size", "value": str(size)},
        {"node": 0, "op_type": "Batch", "parameter": "batch_size", "value": str(batch)},
        {"node": 2, "parent": 1, "op_type": "Shuffle"},
    ]
