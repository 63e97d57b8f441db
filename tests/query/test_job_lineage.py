"""The lineage of one job."""

from __future__ import annotations

import math
from typing import Any

import pytest

from helpers.answers import get_lineage
from helpers.stored_jobs import StoredJob, add_bare_job, add_base_dir, add_job
from lineage_store.errors import (
    LineageFileNotFoundError,
    LineageParamTypeError,
    LineageParamValueError,
    TrainJobNotFoundError,
)
from lineage_store.store.catalog import refs
from lineage_store.store.database.sql import Session

GRAPH = {"op_type": "Batch", "batch_size": 32, "children": []}
FIELDS = {
    "network": "LeNet5",
    "optimizer": "Adam",
    "learning_rate": 0.01,
    "epoch": 3,
    "loss": math.nan,
    "model_size": 5_000_000_000,
    "model_path": '{"ckpt": "/m/x.ckpt"}',
    "train_dataset_path": "/data/tr\0ain",
    "test_dataset_count": 64,
    "parallel_mode": "stand_alone",
}


def test_one_job_has_the_shape_of_old(session: Session) -> None:
    job = StoredJob("./a", FIELDS, {"acc": 0.5}, {"team": "x"}, graph=GRAPH)
    job_id = add_job(session, job, add_base_dir(session))
    assert get_lineage(session, job_id, "/logs/a") == {
        "summary_dir": "/logs/a",
        "hyper_parameters": {
            "optimizer": "Adam",
            "learning_rate": 0.01,
            "epoch": 3,
            "parallel_mode": "stand_alone",
        },
        "algorithm": {"network": "LeNet5", "loss": "NaN"},
        "train_dataset": {"train_dataset_path": "/data/tr\0ain"},
        "valid_dataset": {"valid_dataset_size": 64},
        "model": {"path": '{"ckpt": "/m/x.ckpt"}', "size": 5_000_000_000},
        "metric": {"acc": 0.5},
        "dataset_graph": GRAPH,
    }


def test_keys_choose_the_parts(session: Session) -> None:
    job = StoredJob("./", {"loss": math.inf}, user={"team": "x"})
    job_id = add_job(session, job, add_base_dir(session))
    shown = {
        "summary_dir": "/logs",
        "user_defined": {"team": "x"},
        "algorithm": {"loss": "Infinity"},
        "model": {},
    }
    keys = ["user_defined", "algorithm", "model"]
    assert get_lineage(session, job_id, "/logs", keys) == shown
    assert get_lineage(session, job_id, "/logs", []) == {"summary_dir": "/logs"}


@pytest.mark.parametrize("keys", ["metric", {"metric"}, [1], 5])
def test_keys_must_be_a_list_of_names(session: Session, keys: Any) -> None:
    with pytest.raises(LineageParamTypeError, match="keys"):
        get_lineage(session, 1, "/logs/a", keys)


def test_an_unknown_key_is_refused_with_the_known_ones(session: Session) -> None:
    with pytest.raises(LineageParamValueError, match=r"'colour'.*hyper_parameters"):
        get_lineage(session, 1, "/logs/a", ["metric", "colour"])


def test_a_job_without_lineage_is_told_from_an_unknown_one(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    job_id = add_bare_job(session, "./summary_only", base_dir_id)
    with pytest.raises(LineageFileNotFoundError, match="/logs/summary_only"):
        get_lineage(session, job_id, "/logs/summary_only")
    with pytest.raises(TrainJobNotFoundError, match=r"\./unknown"):
        refs.job(session, ("/logs", "./unknown"))
