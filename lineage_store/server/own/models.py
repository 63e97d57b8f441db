"""The types of our own API's requests and answers, from which its OpenAPI document is generated.

Docstrings and descriptions here are the texts of that document.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lineage_store.fields import LARGEST_LABEL, LONGEST_REMARK

BINARY = {"schema": {"type": "string", "format": "binary"}}
"""The content of an answer that is no JSON."""
Number = float | str | None
"""A number of an answer: NaN and infinities are the texts NaN, Infinity and -Infinity; null is unknown."""


class ProblemAnswer(BaseModel):
    """The answer to a request that failed (RFC 9457)."""

    type: str
    title: str
    status: int
    kind: str = Field(description="The same word as in `status`, `problems` and the documentation.")
    detail: str
    remedy: str = Field(description="What to do; empty: nothing.")
    docs: str


class FindingAnswer(BaseModel):
    """One thing that the operator of the store should know."""

    kind: str
    title: str
    severity: str
    subject: str
    what: str
    remedy: str
    docs: str
    since: datetime | None


class StandbyAnswer(BaseModel):
    """How far a standby has replayed what its primary wrote."""

    is_up: bool
    lag_s: float | None = Field(description="Since the last commit that it shows; 0: it shows all.")
    lag_bytes: int | None = Field(description="Of the write-ahead log; null: the primary does not report it.")
    shows: datetime | None = Field(description="When that commit was made.")


class BacklogAnswer(BaseModel):
    """Log files of a base dir that were found and are not yet read to their ends."""

    base_dir: str
    files: int
    bytes: int
    bytes_per_s: float | None = Field(description="How fast they are read; null: nothing was read recently.")
    left_s: float | None = Field(description="How long that takes.")
    finding: FindingAnswer


class HealthAnswer(BaseModel):
    """The state of the store and of ingest."""

    findings: list[FindingAnswer]
    backlogs: list[BacklogAnswer] = Field(description="Of base dirs where log files wait to be read.")
    base_dirs: list[dict[str, Any]] = Field(description="Rows of v_base_dir: lag, leader, jobs.")
    standby: StandbyAnswer | None = Field(
        description="The standby that answers questions, if the settings name one."
    )


class BaseDirAnswer(BaseModel):
    """A directory of job directories."""

    key: str
    path: str


class BaseDirsAnswer(BaseModel):
    """The base dirs of the store."""

    base_dirs: list[BaseDirAnswer]


class JobAnswer(BaseModel):
    """A train job."""

    base: str = Field(description="Key of its base dir.")
    base_dir: str
    train_id: str
    url: str = Field(description="Where there is more of it, below /api/v1/.")
    state: str | None = Field(
        description="reading, live, stalled, finished or missing; null: it has just gone."
    )
    outcome: str | None = Field(description="completed, failed or interrupted; null: it is live, or unknown.")
    updated_at: datetime | None


class FoundJobAnswer(JobAnswer):
    """A job that a condition found."""

    label: int | None
    remark: str | None
    fields: dict[str, Any] = Field(
        description="Lineage fields by name; the first and best results that were asked for, too."
    )
    metric: dict[str, Any]
    user_defined: dict[str, Any]


class JobsAnswer(BaseModel):
    """A page of jobs."""

    count: int | None = Field(description="How many match; null: it was not counted.")
    limit: int
    page: int
    jobs: list[FoundJobAnswer]


class ColumnAnswer(BaseModel):
    """One value of every job: `numbers`, or `codes`, which are places in `words`; null is unknown."""

    name: str
    numbers: list[Number] | None = None
    words: list[Any] | None = None
    codes: list[int | None] | None = None


class JobColumnsAnswer(BaseModel):
    """All jobs that match, column by column."""

    count: int
    columns: list[ColumnAnswer]


class TrainJobsAnswer(BaseModel):
    """Jobs, most recently updated first, those without lineage among them."""

    jobs: list[JobAnswer]


class FieldAnswer(BaseModel):
    """A lineage field."""

    name: str
    type: str
    meaning: str


class NamesAnswer(BaseModel):
    """What conditions and columns may name: fields, and further names, each kind of which has a prefix."""

    fields: list[FieldAnswer]
    metric: list[str]
    metric_best: list[str]
    metric_first: list[str]
    user_defined: list[str]


class KnownValueAnswer(BaseModel):
    """A value, and how many jobs have it."""

    value: str | float
    jobs: int


class KnownValuesAnswer(BaseModel):
    """Values that jobs have, the most frequent first."""

    values: list[KnownValueAnswer]


class JobReportAnswer(BaseModel):
    """Everything about one job: rows of the views."""

    job: dict[str, Any] = Field(description="v_job")
    metrics: list[dict[str, Any]] = Field(description="v_metric, of the latest evaluation")
    user_info: list[dict[str, Any]] = Field(description="v_user_info")
    problems: list[FindingAnswer]


class TagsAnswer(BaseModel):
    """What a job recorded step by step."""

    tags: dict[str, list[str]] = Field(description="Tags by plugin.")
    series: list[dict[str, Any]] = Field(
        description="v_series: what is known of each tag in each log file; none with `series=false`."
    )


class EvaluationsAnswer(BaseModel):
    """Every evaluation of a job."""

    metrics: list[dict[str, Any]] = Field(description="v_metric")


class FilesAnswer(BaseModel):
    """The log files of a job."""

    files: list[dict[str, Any]] = Field(description="v_log_file")


class Body(BaseModel):
    """The body of a request: unknown names are refused, and so are numbers that are written as text."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AnnotationBody(Body):
    """A label and a remark; what is null is left as it is."""

    tag: int | None = Field(None, ge=0, le=LARGEST_LABEL)
    remark: str | None = Field(None, max_length=LONGEST_REMARK)


_OfSamples = Literal["step", "wall_time", "value"]
_OfEnds = Literal["first_step", "first_wall_time", "first", "last_step", "last_wall_time", "last"]
_OfBuckets = Literal["min_step", "min", "max_step", "max", "count", "nan_count"]
ColumnName = Literal[_OfSamples, _OfEnds, _OfBuckets]
"""A column of a curve; which of them it has depends on whether it is of samples or of buckets."""


class SeriesNameBody(Body):
    """A tag of a job."""

    base: str
    name: str
    tag: str


class SeriesBody(Body):
    """Which curves are wanted, and how."""

    series: list[SeriesNameBody] = Field(min_length=1, max_length=200)
    start: int | None = None
    stop: int | None = None
    device: int | None = None
    points: int = Field(1000, ge=2, le=10_000)
    superseded: bool = False
    columns: list[ColumnName] | None = Field(
        None, max_length=20, description="Which columns of the answer; null: all there are."
    )
    form: Literal["json", "columns"] = "json"


class CurveAnswer(BaseModel):
    """A tag on one device."""

    number: int = Field(description="Which of the series that were asked for, from 0.")
    device: int | None
    superseded: bool
    bucketed: bool
    restarts: list[int] = Field(description="Steps at which the training was started again.")
    began_at: Number = Field(description="When the tag's first sample was written, unix s.")
    thinned_count: int = Field(
        description="Samples that were thinned out: extremes stay, counts are of the rest."
    )
    rows: int
    columns: dict[str, list[Number]]


class SeriesAnswer(BaseModel):
    """Curves, on one grid of steps."""

    curves: list[CurveAnswer]
    missing: list[int] = Field(description="Which of the series that were asked for are missing, from 0.")


class PayloadAnswer(BaseModel):
    """A payload at a step, described."""

    step: int
    wall_time: Number
    device: int | None
    dtype: str | None
    shape: list[int] | None
    size_bytes: int
    statistics: dict[str, Any] | None
    log_file: str


class PayloadsAnswer(BaseModel):
    """The payloads of a tag, ascending by step."""

    count: int
    payloads: list[PayloadAnswer]


class ChangeAnswer(BaseModel):
    """One change of a job, or a base dir that was forgotten."""

    kind: str = Field(description="changed, removed, restored or forgotten.")
    base: str = Field(description="Key of its base dir.")
    base_dir: str
    train_id: str | None = Field(description="null: it is about the base dir.")
    url: str | None = Field(description="Where there is more of the job, below /api/v1/; null: it is gone.")
    state: str | None
    revision: int | None
    at: datetime | None


class ChangesAnswer(BaseModel):
    """Changes, in the order of each base dir's revisions."""

    changes: list[ChangeAnswer]
    since: str = Field(description="The token to continue with.")
    more: bool = Field(description="Whether there are more already.")
