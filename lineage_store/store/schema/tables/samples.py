"""Tables of series and their samples: the largest tables.

In: the plugins (plugins.py). Out: tables. Promises: the tables of samples and buckets have no foreign key, because that
would slow bulk writes down; who removes a job or a file must remove its samples and buckets too.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, UniqueConstraint, text

from lineage_store.plugins import BY_NAME, PLUGINS
from lineage_store.store.database.sql import Float64, Name
from lineage_store.store.schema.tables.shared import (
    belongs_to,
    job_id_column,
    metadata,
    optional,
    part_of_key,
    required,
)
from lineage_store.texts import either

HALF_OF_IDS = 2**30
"""Ids and numbers have 31 bits; people are warned when one reaches this."""
HALF_USED = text(f"series_no >= {HALF_OF_IDS}")
"""No series is expected to match, so the index on this condition is empty and a query of it costs nothing."""
_REWRITTEN = text("superseded_from <= last_step")
"""Whether a series has superseded samples: few have, and views look for them."""


def _series_no(comment: str) -> Column[int]:
    return part_of_key("series_no", Integer, comment)


series = Table(
    "series",
    metadata,
    job_id_column(),
    _series_no("number of the series within its job"),
    required("file_no", Integer, "the log file that holds it"),
    required("plugin", Text, either(BY_NAME)),
    required("tag_key", BigInteger, "64 bits of the tag's SHA-256"),
    required("tag", Name, "name of the value"),
    optional("device", BigInteger, "device number of the log file"),
    required("sample_count", BigInteger, "samples"),
    required("first_step", BigInteger, "lowest step"),
    optional("first_wall_time", Float64, "wall time at the lowest step, unix s"),
    optional("first_value", Float64, "value at the lowest step; NULL for NaN"),
    required("last_step", BigInteger, "highest step"),
    optional("last_wall_time", Float64, "wall time at the highest step, unix s"),
    optional("last_value", Float64, "value at the highest step; NULL for NaN"),
    optional("earliest_wall_time", Float64, "least wall time, unix s"),
    optional("latest_wall_time", Float64, "greatest wall time, unix s"),
    optional("min_value", Float64, "least finite value"),
    optional("min_step", BigInteger, "lowest step that has it"),
    optional("max_value", Float64, "greatest finite value"),
    optional("max_step", BigInteger, "lowest step that has it"),
    required("nan_count", BigInteger, "samples that are NaN"),
    required("inf_count", BigInteger, "samples that are infinite"),
    optional(
        "superseded_from",
        BigInteger,
        "samples from this step on were written again by a newer file; NULL when none",
    ),
    required(
        "superseded_count", BigInteger, "samples that were written again by a newer file", default=text("0")
    ),
    required(
        "thinned_count",
        BigInteger,
        "samples that were thinned out: the statistics count them, scalar_bucket has them",
        default=text("0"),
    ),
    UniqueConstraint("job_id", "plugin", "tag_key", "file_no"),
    belongs_to("log_file", "file_no"),
    Index("ix_series_file", "job_id", "file_no"),
    Index("ix_series_superseded", "job_id", sqlite_where=_REWRITTEN, postgresql_where=_REWRITTEN),
    Index("ix_series_half_used", "series_no", sqlite_where=HALF_USED, postgresql_where=HALF_USED),
    comment="one tag of one plugin in one log file",
)

scalar_sample = Table(
    "scalar_sample",
    metadata,
    job_id_column(),
    _series_no("its series"),
    part_of_key("step", BigInteger, "training step"),
    optional("wall_time", Float64, "when it was written, unix s; NULL when not a time"),
    optional("value", Float64, "the value; NULL is NaN"),
    comment="a scalar at a step",
    sqlite_with_rowid=False,
)

scalar_bucket = Table(
    "scalar_bucket",
    metadata,
    job_id_column(),
    _series_no("its series"),
    part_of_key("first_step", BigInteger, "lowest step of its samples"),
    required("last_step", BigInteger, "highest step of its samples"),
    required("count", BigInteger, "samples that were written"),
    required("nan_count", BigInteger, "samples that are NaN"),
    required("inf_count", BigInteger, "samples that are infinite"),
    optional("min", Float64, "least finite value"),
    optional("max", Float64, "greatest finite value"),
    optional("mean", Float64, "mean of the finite values"),
    comment="neighbouring samples of a series that was thinned: of each bucket few are left in scalar_sample",
    sqlite_with_rowid=False,
)

payload_sample = Table(
    "payload_sample",
    metadata,
    job_id_column(),
    _series_no("its series"),
    part_of_key("step", BigInteger, "training step"),
    optional("wall_time", Float64, "when it was written, unix s; NULL when not a time"),
    required("frame_offset", BigInteger, "where its frame begins in the log file"),
    required("frame_length", BigInteger, "bytes of the frame"),
    required("value_index", Integer, "its place among the values of the event"),
    required("checksum", BigInteger, "the frame's masked CRC-32C"),
    optional("dtype", Text, "element type, or png"),
    optional("shape", Text, "JSON list of dimensions"),
    required("size_bytes", BigInteger, "bytes of the encoded value"),
    optional("count", BigInteger, "histogram: values counted, NaN and infinities included"),
    optional("nan_count", BigInteger, "histogram: NaN"),
    optional("pos_inf_count", BigInteger, "histogram: +infinity"),
    optional("neg_inf_count", BigInteger, "histogram: -infinity"),
    optional("min", Float64, "histogram: least finite value"),
    optional("max", Float64, "histogram: greatest finite value"),
    optional("sum", Float64, "histogram: sum of the finite values"),
    comment="a histogram, image, tensor, graph or landscape at a step: where its bytes are",
    sqlite_with_rowid=False,
)

SAMPLE_TABLES = (scalar_sample, payload_sample)
"""The tables of single samples, which are partitioned and distributed by job."""


SAMPLES_OF: Mapping[str, Table] = {plugin.name: metadata.tables[plugin.table] for plugin in PLUGINS}
"""By plugin, the table of its samples."""
