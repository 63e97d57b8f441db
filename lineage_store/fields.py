"""THE table of lineage fields: what can be asked of a job, where it comes from, and where it is stored.

One row per field: its public name (MindInsight's), the group and key under which the training wrote it, the column of
the table `lineage`, its type, and its meaning. Query, ingest, the views and the documentation all read this table;
nothing else knows a field's name. Metrics and user-defined values have names of their own, under the two prefixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FieldType = Literal["text", "integer", "float"]

METRIC_PREFIX = "metric/"
USER_PREFIX = "user_defined/"


@dataclass(frozen=True, slots=True)
class LineageField:
    """One lineage field. `group` and `key` locate it in the training's own record (None: it is derived)."""

    name: str
    group: str | None
    key: str | None
    column: str
    type: FieldType
    meaning: str
    listed: bool = True
    """Whether `model_lineage` of a filter answer shows it (MindInsight's list)."""


def _field(
    name: str, group: str | None, key: str | None, type_: FieldType, meaning: str, listed: bool = True
) -> LineageField:
    return LineageField(name, group, key, name, type_, meaning, listed)


FIELDS: tuple[LineageField, ...] = (
    _field("summary_dir", None, None, "text", "the job's id, ./name", listed=False),
    _field("loss_function", "hyper_parameters", "loss_function", "text", "class name of the loss function"),
    _field(
        "train_dataset_path", "train_dataset", "train_dataset_path", "text", "directory of the training data"
    ),
    _field(
        "train_dataset_count", "train_dataset", "train_dataset_size", "integer", "training samples per epoch"
    ),
    _field(
        "test_dataset_path", "valid_dataset", "valid_dataset_path", "text", "directory of the evaluation data"
    ),
    _field("test_dataset_count", "valid_dataset", "valid_dataset_size", "integer", "evaluation samples"),
    _field("network", "algorithm", "network", "text", "class name of the network"),
    _field("optimizer", "hyper_parameters", "optimizer", "text", "class name of the optimizer"),
    _field("learning_rate", "hyper_parameters", "learning_rate", "float", "initial learning rate"),
    _field("epoch", "hyper_parameters", "epoch", "integer", "epochs asked for"),
    _field("batch_size", "hyper_parameters", "batch_size", "integer", "samples per step"),
    _field("device_num", "hyper_parameters", "device_num", "integer", "devices that trained together"),
    _field("loss", "algorithm", "loss", "float", "loss of the last step"),
    _field("model_size", "model", "size", "integer", "bytes of the checkpoint file"),
    _field("dataset_mark", None, None, "text", "equal for jobs with equal dataset pipelines"),
    _field(
        "parallel_mode",
        "hyper_parameters",
        "parallel_mode",
        "text",
        "parallel mode of the training",
        listed=False,
    ),
    _field(
        "model_path", "model", "path", "text", "where the checkpoint was written, as JSON text", listed=False
    ),
)

JOB_STATES = ("live", "stalled", "finished", "missing")
"""The states of a job."""

BY_NAME: dict[str, LineageField] = {field.name: field for field in FIELDS}
"""Every field by its public name."""

SEARCHABLE: tuple[LineageField, ...] = FIELDS[:15]
"""The fields a search condition may name, in MindInsight's order."""

LISTED: tuple[LineageField, ...] = tuple(field for field in FIELDS if field.listed)
"""The fields `model_lineage` shows, in MindInsight's order."""

TRAINED: tuple[LineageField, ...] = tuple(field for field in FIELDS if field.group is not None)
"""The fields that a training writes, each a column of the table `lineage`."""
