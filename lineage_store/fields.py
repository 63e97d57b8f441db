"""THE table of lineage fields: what can be asked about a job, where it comes from, and where it is stored and shown.

One row per field. A new field needs a new row here and a column, which a migration adds. The wire format, the fold of
lineage events, the tables, `v_job`, conditions, sort orders, answers and the command line all read this table, and
nothing else lists the names of fields. A derived field, which no training writes, is computed where lineage is folded.
A job's state and people's annotations can be queried like fields, though MindInsight refuses these (`ours`).
Metrics and user-defined values have names of their own, with the two prefixes. Does not know SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from lineage_store.states import JobState, Outcome

FieldType = Literal["text", "integer", "float", "time"]
Table = Literal["lineage", "train_job", "annotation"]
Group = Literal["hyper_parameters", "algorithm", "train_dataset", "valid_dataset", "model"]
"""The parts of a training's own record, in the order in which MindInsight shows them."""

GROUPS: tuple[Group, ...] = get_args(Group)

METRIC_PREFIX = "metric/"
USER_PREFIX = "user_defined/"
PREFIXES = {"metric": METRIC_PREFIX, "user_defined": USER_PREFIX}
"""The prefixes of names that are not fields, by the key of an answer that contains their values."""
SUMMARY_PREFIXES = {"metric_best/": "best/", "metric_first/": "first/"}
"""Prefixes of a metric's best and first value over all evaluations: in conditions and columns, in `metric_summary`."""

LARGEST_LABEL = 10
LONGEST_REMARK = 128
"""What MindInsight lets people put on a job: a label from 0, and a remark of so many characters."""

FLOAT_KINDS = "finite, nan, +inf or -inf; NULL when unknown"
"""The values of a float's kind column, as the database's comments list them."""

_PARTS = re.compile(r"[A-Z]*[a-z]+|[A-Z]+|[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageField:
    """One lineage field. `group` and `key` say where the training writes it; None: no training writes it."""

    name: str
    """Its public name in conditions, sort orders and answers, the same as in MindInsight."""
    group: Group | None
    key: str | None
    type: FieldType
    meaning: str
    table: Table = "lineage"
    column: str
    """Its column in `table`."""
    view_column: str | None
    """Its column in `v_job`, with the unit; None if it is not one of the view's lineage columns."""
    searchable: bool = True
    """Whether conditions and sort orders may name it."""
    listed: bool = True
    """Whether `model_lineage` of an answer shows it."""
    printed: bool = False
    """Whether `lineage-store filter` prints it when no columns are named."""
    long: bool = False
    """Whether its values are long texts, such as paths; indexes over several fields leave it out."""
    tunable: bool = False
    """Whether one would vary it to get a better result."""
    ours: bool = False
    """Whether it is an addition of ours, unknown to MindInsight's conditions."""
    words: tuple[str, ...] = ()
    """All possible values; empty: any value."""

    @property
    def kind_column(self) -> str | None:
        """The column of `lineage` and `v_job` that says whether the float is finite; None for other types."""
        return f"{self.column}_kind" if self.type == "float" else None


def _written(
    name: str,
    where: tuple[Group, str],
    type_: FieldType,
    meaning: str,
    *,
    unit: str = "",
    searchable: bool = True,
    listed: bool = True,
    printed: bool = False,
    long: bool = False,
    tunable: bool = False,
) -> LineageField:
    """A field that a training writes at (group, key)."""
    return LineageField(
        name=name,
        group=where[0],
        key=where[1],
        type=type_,
        meaning=meaning,
        column=name,
        view_column=f"{name}{unit}",
        searchable=searchable,
        listed=listed,
        printed=printed,
        long=long,
        tunable=tunable,
    )


def _of_job(
    name: str, where: tuple[Table, str], type_: FieldType, meaning: str, *, words: tuple[str, ...] = ()
) -> LineageField:
    """A field that the store knows about a job beside its lineage, at (table, column)."""
    return LineageField(
        name=name,
        group=None,
        key=None,
        type=type_,
        meaning=meaning,
        table=where[0],
        column=where[1],
        view_column=None,
        listed=False,
        ours=True,
        words=words,
    )


FIELDS: tuple[LineageField, ...] = (
    LineageField(
        name="summary_dir",
        group=None,
        key=None,
        type="text",
        meaning="the job's id, ./name",
        table="train_job",
        column="train_id",
        view_column=None,
        listed=False,
        printed=True,
    ),
    _written(
        "loss_function", ("hyper_parameters", "loss_function"), "text", "class name of the loss function"
    ),
    _written(
        "train_dataset_path",
        ("train_dataset", "train_dataset_path"),
        "text",
        "directory of the training data",
        long=True,
    ),
    _written(
        "train_dataset_count",
        ("train_dataset", "train_dataset_size"),
        "integer",
        "training samples per epoch",
    ),
    _written(
        "test_dataset_path",
        ("valid_dataset", "valid_dataset_path"),
        "text",
        "directory of the evaluation data",
        long=True,
    ),
    _written("test_dataset_count", ("valid_dataset", "valid_dataset_size"), "integer", "evaluation samples"),
    _written("network", ("algorithm", "network"), "text", "class name of the network", printed=True),
    _written(
        "optimizer", ("hyper_parameters", "optimizer"), "text", "class name of the optimizer", printed=True
    ),
    _written(
        "learning_rate",
        ("hyper_parameters", "learning_rate"),
        "float",
        "initial learning rate",
        printed=True,
        tunable=True,
    ),
    _written(
        "epoch", ("hyper_parameters", "epoch"), "integer", "epochs asked for", printed=True, tunable=True
    ),
    _written(
        "batch_size",
        ("hyper_parameters", "batch_size"),
        "integer",
        "samples per step",
        printed=True,
        tunable=True,
    ),
    _written("device_num", ("hyper_parameters", "device_num"), "integer", "devices that trained together"),
    _written("loss", ("algorithm", "loss"), "float", "loss of the last step", printed=True),
    _written("model_size", ("model", "size"), "integer", "bytes of the checkpoint file", unit="_bytes"),
    LineageField(
        name="dataset_mark",
        group=None,
        key=None,
        type="text",
        meaning="equal for jobs with equal dataset pipelines",
        column="dataset_mark",
        view_column="dataset_mark",
    ),
    _written(
        "parallel_mode",
        ("hyper_parameters", "parallel_mode"),
        "text",
        "parallel mode of the training",
        searchable=False,
        listed=False,
    ),
    _written(
        "model_path",
        ("model", "path"),
        "text",
        "where the checkpoint was written, as JSON text",
        searchable=False,
        listed=False,
        long=True,
    ),
    _of_job("state", ("train_job", "state"), "text", "how the job stands", words=tuple(JobState)),
    _of_job(
        "outcome",
        ("train_job", "outcome"),
        "text",
        "how the training ended; none while the job is live, or where nobody knows",
        words=tuple(Outcome),
    ),
    _of_job("host", ("train_job", "host"), "text", "host in the name of the newest log file"),
    _of_job("updated_at", ("train_job", "update_time"), "time", "when a log file was last modified"),
    _of_job(
        "first_started_at", ("train_job", "first_file_time"), "time", "when the first log file was begun"
    ),
    _of_job("last_started_at", ("train_job", "last_file_time"), "time", "when the last log file was begun"),
    _of_job("tag", ("annotation", "tag"), "integer", f"label that somebody put on it, 0 to {LARGEST_LABEL}"),
    _of_job("remark", ("annotation", "remark"), "text", "remark that somebody put on it"),
)
"""Every field in MindInsight's order, which is also the order of answers; ours follow."""

_VIEW_ORDER = (
    *("network", "optimizer", "loss_function", "parallel_mode", "learning_rate", "loss"),
    *("epoch", "batch_size", "device_num", "train_dataset_path", "train_dataset_count"),
    *("test_dataset_path", "test_dataset_count", "model_path", "model_size", "dataset_mark"),
)
"""The order of columns in `v_job`, for readers that take columns by position; newer fields follow at the end."""

BY_NAME: dict[str, LineageField] = {field.name: field for field in FIELDS}
"""Every field by its public name."""

SPELLINGS: dict[str, LineageField] = {**BY_NAME, "label": BY_NAME["tag"]}
"""Every field by all its names: MindInsight's tag is the label of `v_job` and `annotate`."""

SEARCHABLE: tuple[LineageField, ...] = tuple(field for field in FIELDS if field.searchable)
"""The fields that a search condition may name, in MindInsight's order."""

MINDINSIGHTS: tuple[LineageField, ...] = tuple(field for field in SEARCHABLE if not field.ours)
"""The fields that MindInsight's own conditions may name."""

OF_JOBS: tuple[LineageField, ...] = tuple(field for field in FIELDS if field.ours)
"""The fields that the store knows about a job beside its lineage."""

LISTED: tuple[LineageField, ...] = tuple(field for field in FIELDS if field.listed)
"""The fields that `model_lineage` shows, in MindInsight's order."""

TRAINED: tuple[LineageField, ...] = tuple(field for field in FIELDS if field.group is not None)
"""The fields that a training writes, each a column of the table `lineage`."""

VIEWED: tuple[LineageField, ...] = tuple(
    sorted(
        (field for field in FIELDS if field.view_column),
        key=lambda field: _VIEW_ORDER.index(field.name) if field.name in _VIEW_ORDER else len(_VIEW_ORDER),
    )
)
"""The fields that `v_job` shows, in its order."""

PRINTED: tuple[LineageField, ...] = tuple(field for field in FIELDS if field.printed)
"""The fields that `lineage-store filter` prints by default."""


def less_is_better(words: str) -> Callable[[str], bool]:
    """Return a predicate: whether less of a metric is better, that is, its name has one of `words`, as `val_loss`."""
    parts = {word.strip().lower() for word in words.split(",")}
    return lambda metric: any(part.lower() in parts for part in _PARTS.findall(metric))


CONTROL_KEYS = ("limit", "offset", "sorted_name", "sorted_type", "sorted_by", "lineage_type")
"""Keys of a condition that control the answer instead of selecting jobs; no field may have such a name."""

OUTCOME = "end/outcome"
"""The user-defined key under which our callbacks write how a training ended, an `Outcome`."""
END_RECORD = (OUTCOME, "end/error_class", "end/last_step")
"""All keys of the record that our callbacks write at the end of a training."""
