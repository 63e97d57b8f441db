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
from dataclasses import KW_ONLY, dataclass
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


@dataclass(frozen=True, slots=True)
class LineageField:
    """One lineage field."""

    name: str
    """Its public name in conditions, sort orders and answers, the same as in MindInsight."""
    type: FieldType
    meaning: str
    group: Group | None = None
    """The part of its own record in which a training writes it; None: no training writes it."""
    _: KW_ONLY
    written_as: str = ""
    """Its key in that part; empty: its name."""
    table: Table = "lineage"
    stored_as: str = ""
    """Its column in `table`; empty: its name."""
    unit: str = ""
    """What the name of its column in `v_job` ends with."""
    searchable: bool = True
    """Whether conditions and sort orders may name it."""
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
    def key(self) -> str:
        """Its key in the part of the record in which a training writes it."""
        return self.written_as or self.name

    @property
    def column(self) -> str:
        """Its column in `table`."""
        return self.stored_as or self.name

    @property
    def view_column(self) -> str | None:
        """Its column in `v_job`, with the unit; None if it is not one of the view's lineage columns."""
        return f"{self.name}{self.unit}" if self.table == "lineage" else None

    @property
    def kind_column(self) -> str | None:
        """The column of `lineage` and `v_job` that says whether the float is finite; None for other types."""
        return f"{self.column}_kind" if self.type == "float" else None


FIELDS: tuple[LineageField, ...] = (
    LineageField(
        "summary_dir", "text", "the job's id, ./name", table="train_job", stored_as="train_id", printed=True
    ),
    LineageField("loss_function", "text", "class name of the loss function", "hyper_parameters"),
    LineageField("train_dataset_path", "text", "directory of the training data", "train_dataset", long=True),
    LineageField(
        "train_dataset_count",
        "integer",
        "training samples per epoch",
        "train_dataset",
        written_as="train_dataset_size",
    ),
    LineageField(
        "test_dataset_path",
        "text",
        "directory of the evaluation data",
        "valid_dataset",
        written_as="valid_dataset_path",
        long=True,
    ),
    LineageField(
        "test_dataset_count",
        "integer",
        "evaluation samples",
        "valid_dataset",
        written_as="valid_dataset_size",
    ),
    LineageField("network", "text", "class name of the network", "algorithm", printed=True),
    LineageField("optimizer", "text", "class name of the optimizer", "hyper_parameters", printed=True),
    LineageField(
        "learning_rate", "float", "initial learning rate", "hyper_parameters", printed=True, tunable=True
    ),
    LineageField("epoch", "integer", "epochs asked for", "hyper_parameters", printed=True, tunable=True),
    LineageField("batch_size", "integer", "samples per step", "hyper_parameters", printed=True, tunable=True),
    LineageField("device_num", "integer", "devices that trained together", "hyper_parameters"),
    LineageField("loss", "float", "loss of the last step", "algorithm", printed=True),
    LineageField(
        "model_size", "integer", "bytes of the checkpoint file", "model", written_as="size", unit="_bytes"
    ),
    LineageField("dataset_mark", "text", "equal for jobs with equal dataset pipelines"),
    LineageField(
        "parallel_mode", "text", "parallel mode of the training", "hyper_parameters", searchable=False
    ),
    LineageField(
        "model_path",
        "text",
        "where the checkpoint was written, as JSON text",
        "model",
        written_as="path",
        searchable=False,
        long=True,
    ),
    LineageField("state", "text", "how the job stands", table="train_job", ours=True, words=tuple(JobState)),
    LineageField(
        "outcome",
        "text",
        "how the training ended; none while the job is live, or when it is unknown",
        table="train_job",
        ours=True,
        words=tuple(Outcome),
    ),
    LineageField("host", "text", "host in the name of the newest log file", table="train_job", ours=True),
    LineageField(
        "updated_at",
        "time",
        "when a log file was last modified",
        table="train_job",
        stored_as="update_time",
        ours=True,
    ),
    LineageField(
        "first_started_at",
        "time",
        "when the first log file was begun",
        table="train_job",
        stored_as="first_file_time",
        ours=True,
    ),
    LineageField(
        "last_started_at",
        "time",
        "when the last log file was begun",
        table="train_job",
        stored_as="last_file_time",
        ours=True,
    ),
    LineageField(
        "tag",
        "integer",
        f"label that somebody put on it, 0 to {LARGEST_LABEL}",
        table="annotation",
        ours=True,
    ),
    LineageField("remark", "text", "remark that somebody put on it", table="annotation", ours=True),
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

LISTED: tuple[LineageField, ...] = tuple(field for field in SEARCHABLE if field.table == "lineage")
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
