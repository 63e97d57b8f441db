"""Views of series and their samples.

A sample is effective unless a newer log file of the same device has its tag at the same step or at a lower one: then
the job was restarted from a checkpoint. NaN is NULL. Rows come from current log files only.
"""

from __future__ import annotations

import re

from lineage_store.plain_values import CALENDAR_END
from lineage_store.plugins import BY_NAME, HISTOGRAM, SCALAR
from lineage_store.states import FileState
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

_TAG = text("tag", "r.tag", "name of the value")
_SERIES_NO = integer(
    "series_no", "r.series_no", "number of the series within its job; join by job_id and this"
)
_PLUGIN = text("plugin", "r.plugin", either(BY_NAME))
_DEVICE = bigint("device", "r.device", "device number in the log file's name; NULL when it names none")
_STEP = bigint("step", "s.step", "training step")
_WALL_AT = instant("wall_at", "{instant:s.wall_time}", "when it was written")
_EFFECTIVE = boolean(
    "is_effective",
    "(r.superseded_from IS NULL OR s.step < r.superseded_from)",
    "false when a newer log file of the device wrote this step, or went back to before it",
)
_LOG_FILE = text("log_file", "f.name", "log file that holds it")

_CURRENT = f"""
JOIN log_file f ON f.job_id = r.job_id AND f.file_no = r.file_no AND f.current
{join_job("r")}
"""


def _samples(table: str) -> str:
    """Return the FROM clause of samples `s` with their series. CROSS JOIN makes SQLite start from the series."""
    return f"FROM series r CROSS JOIN {table} s {_CURRENT} WHERE s.job_id = r.job_id AND s.series_no = r.series_no"


V_SCALAR = View(
    "v_scalar",
    "every scalar sample",
    (
        *JOB,
        _SERIES_NO,
        _TAG,
        _DEVICE,
        _STEP,
        _WALL_AT,
        double("elapsed_s", "s.wall_time - j.first_file_time", "since the job's first log file was begun"),
        double("value", "s.value", "the value; NULL is NaN"),
        instant("series_earliest_at", "{instant:r.earliest_wall_time}", "least wall_at of its series"),
        instant(
            "series_latest_at",
            "{instant:r.latest_wall_time}",
            "greatest wall_at of its series: compare it too, and series of other times are passed over",
        ),
        _EFFECTIVE,
        _LOG_FILE,
    ),
    _samples("scalar_sample"),
)

SCALAR_SERIES = View(
    "scalar_series",
    "what v_scalar has the same for all samples of a series, and what the rest is made with; for exports, no view",
    (
        *(column for column in V_SCALAR.columns if not re.search(r"\bs\.", column.sql)),
        bigint("superseded_from", "r.superseded_from", "samples from this step on are not effective"),
        bigint("first_file_time", "j.first_file_time", "when the job's first log file was begun, unix s"),
    ),
    f"FROM series r {_CURRENT} WHERE r.plugin = '{SCALAR}'",
)

# PostgreSQL fails the whole query if a result is out of its type's range. A log file may hold any number, so values are
# checked before they are used in a calculation.
_STEPS_PER_S = f"""CASE
    WHEN r.first_wall_time BETWEEN 0 AND {CALENDAR_END} AND r.last_wall_time BETWEEN 0 AND {CALENDAR_END} THEN CASE
      WHEN r.last_wall_time - r.first_wall_time > 1e-9 THEN
        (CAST(r.last_step AS double precision) - r.first_step) / (r.last_wall_time - r.first_wall_time) END
  END"""

_INFINITE = "s.pos_inf_count + s.neg_inf_count"
_COUNTED = " AND ".join(
    f"s.{name} BETWEEN 0 AND {1 << 61}" for name in ("count", "nan_count", "pos_inf_count", "neg_inf_count")
)
_MEAN = f"""CASE
    WHEN NOT ({_COUNTED}) THEN NULL
    WHEN s.sum = 0 OR abs(s.sum) > 1e-280 THEN s.sum / nullif(s.count - s.nan_count - ({_INFINITE}), 0)
    ELSE 0
  END"""

V_SERIES = View(
    "v_series",
    "a row per tag and log file: its samples in short, the superseded ones included",
    (
        *JOB,
        _SERIES_NO,
        _PLUGIN,
        _TAG,
        _DEVICE,
        bigint("sample_count", "r.sample_count", "samples"),
        double("first_value", "r.first_value", "value at the lowest step; NULL is NaN"),
        bigint("first_step", "r.first_step", "lowest step"),
        double("last_value", "r.last_value", "value at the highest step; NULL is NaN"),
        bigint("last_step", "r.last_step", "highest step"),
        double("min_value", "r.min_value", "least finite value"),
        bigint("min_step", "r.min_step", "lowest step that has it"),
        double("max_value", "r.max_value", "greatest finite value"),
        bigint("max_step", "r.max_step", "lowest step that has it"),
        bigint("nan_count", "r.nan_count", "samples that are NaN"),
        bigint("inf_count", "r.inf_count", "samples that are infinite"),
        bigint("superseded_count", "r.superseded_count", "samples that are not effective"),
        bigint(
            "thinned_count",
            "r.thinned_count",
            "samples that were thinned out: counted here, in buckets of v_scalar_bucket, no longer in v_scalar",
        ),
        double("steps_per_s", _STEPS_PER_S, "from the lowest to the highest step"),
        instant("last_at", "{instant:r.last_wall_time}", "when the highest step was written"),
        instant("earliest_at", "{instant:r.earliest_wall_time}", "when its first sample was written"),
        instant("latest_at", "{instant:r.latest_wall_time}", "when its last sample was written"),
        _LOG_FILE,
    ),
    f"FROM series r {_CURRENT}",
)

V_SCALAR_BUCKET = View(
    "v_scalar_bucket",
    "a row per bucket of a scalar that was thinned: in short what was written, of which v_scalar has the first sample,"
    " the last, the least and the greatest, and the first NaN and infinities",
    (
        *JOB,
        _SERIES_NO,
        _TAG,
        _DEVICE,
        bigint("first_step", "s.first_step", "lowest step"),
        bigint("last_step", "s.last_step", "highest step"),
        bigint("count", "s.count", "samples that were written"),
        bigint("nan_count", "s.nan_count", "samples that are NaN"),
        bigint("inf_count", "s.inf_count", "samples that are infinite"),
        double("min", "s.min", "least finite value"),
        double("max", "s.max", "greatest finite value"),
        double("mean", "s.mean", "mean of the finite values"),
        boolean(
            "is_effective",
            "(r.superseded_from IS NULL OR s.last_step < r.superseded_from)",
            "false when a newer log file of the device wrote one of its steps, or went back to before it",
        ),
        _LOG_FILE,
    ),
    _samples("scalar_bucket"),
)

V_HISTOGRAM = View(
    "v_histogram",
    "every histogram sample in short",
    (
        *JOB,
        _SERIES_NO,
        _TAG,
        _STEP,
        _WALL_AT,
        bigint("count", "s.count", "values counted, NaN and infinities included"),
        bigint("nan_count", "s.nan_count", "values that are NaN"),
        bigint("inf_count", f"CASE WHEN {_COUNTED} THEN {_INFINITE} END", "values that are infinite"),
        double("min", "s.min", "least finite value"),
        double("max", "s.max", "greatest finite value"),
        double("mean", _MEAN, "mean of the finite values"),
        _DEVICE,
        _EFFECTIVE,
    ),
    f"{_samples('payload_sample')} AND r.plugin = '{HISTOGRAM}'",
)

V_PAYLOAD = View(
    "v_payload",
    "every sample whose bytes stay in the log file",
    (
        *JOB,
        _SERIES_NO,
        _PLUGIN,
        _TAG,
        _STEP,
        _WALL_AT,
        text("shape", "s.shape", "JSON list of dimensions"),
        text("dtype", "s.dtype", "element type, or png"),
        bigint("size_bytes", "s.size_bytes", "bytes of the encoded value"),
        boolean(
            "available",
            f"f.state <> '{FileState.MISSING}'",
            "whether the log file is still there to read it from",
        ),
        _DEVICE,
        _EFFECTIVE,
    ),
    _samples("payload_sample"),
)

SAMPLE_VIEWS = (V_SCALAR, V_SERIES, V_SCALAR_BUCKET, V_HISTOGRAM, V_PAYLOAD)
