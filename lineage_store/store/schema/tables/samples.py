"""Tables of series and their samples: the largest tables.

In: the plugins (plugins.py). Out: tables. Promises: the tables of samples and buckets have no foreign key, because that
would slow bulk writes down; who removes a job or a file must remove its samples and buckets too.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, UniqueConstraint, text

from lineage_store.plugins import BY_NAME as PLUGIN_BY_NAME
from lineage_store.store.database.types import Float64, Name
from lineage_store.store.schema.tables.columns import belongs_to, file_no, job_id, metadata
from lineage_store.texts import either

HALF_OF_IDS = 2**30
"""Ids and numbers have 31 bits; people are warned when one reaches this."""
HALF_USED = text(f"series_no >= {HALF_OF_IDS}")
"""No series is expected to match, so the index on this condition is empty and a query of it costs nothing."""
_REWRITTEN = text("superseded_from <= last_step")
"""Whether a series has superseded samples: few have, and views look for them."""


def _series_no(comment: str) -> Column[int]:
    return Column("series_no", Integer, primary_key=True, autoincrement=False, comment=comment)


series = Table(
    "series",
    metadata,
    job_id(),
    _series_no("number of the series within its job"),
    file_no("the log file that holds it"),
    Column("plugin", Text, nullable=False, comment=either(PLUGIN_BY_NAME)),
    Column("tag_key", BigInteger, nullable=False, comment="64 bits of the tag's SHA-256"),
    Column("tag", Name, nullable=False, comment="name of the value"),
    Column("device", BigInteger, comment="device number of the log file"),
    Column("sample_count", BigInteger, nullable=False, comment="samples"),
    Column("first_step", BigInteger, nullable=False, comment="lowest step"),
    Column("first_wall_time", Float64, comment="wall time at the lowest step, unix s"),
    Column("first_value", Float64, comment="value at the lowest step; NULL for NaN"),
    Column("last_step", BigInteger, nullable=False, comment="highest step"),
    Column("last_wall_time", Float64, comment="wall time at the highest step, unix s"),
    Column("last_value", Float64, comment="value at the highest step; NULL for NaN"),
    Column("earliest_wall_time", Float64, comment="least wall time, unix s"),
    Column("latest_wall_time", Float64, comment="greatest wall time, unix s"),
    Column("min_value", Float64, comment="least finite value"),
    Column("min_step", BigInteger, comment="lowest step that has it"),
    Column("max_value", Float64, comment="greatest finite value"),
    Column("max_step", BigInteger, comment="lowest step that has it"),
    Column("nan_count", BigInteger, nullable=False, comment="samples that are NaN"),
    Column("inf_count", BigInteger, nullable=False, comment="samples that are infinite"),
    Column(
        "superseded_from",
        BigInteger,
        comment="samples from this step on were written again by a newer file; NULL when none",
    ),
    Column(
        "superseded_count",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="samples that were written again by a newer file",
    ),
    Column(
        "thinned_count",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="samples that were thinned out: the statistics count them, scalar_bucket tells of them",
    ),
    UniqueConstraint("job_id", "plugin", "tag_key", "file_no"),
    belongs_to("log_file", "file_no"),
    Index("ix_series_superseded", "job_id", sqlite_where=_REWRITTEN, postgresql_where=_REWRITTEN),
    Index("ix_series_half_used", "series_no", sqlite_where=HALF_USED, postgresql_where=HALF_USED),
    comment="one tag of one plugin in one log file",
)

scalar_sample = Table(
    "scalar_sample",
    metadata,
    job_id(),
    _series_no("its series"),
    Column("step", BigInteger, primary_key=True, autoincrement=False, comment="training step"),
    Column("wall_time", Float64, comment="when it was written, unix s; NULL when not a time"),
    Column("value", Float64, comment="the value; NULL is NaN"),
    comment="a scalar at a step",
    sqlite_with_rowid=False,
)

scalar_bucket = Table(
    "scalar_bucket",
    metadata,
    job_id(),
    _series_no("its series"),
    Column(
        "first_step", BigInteger, primary_key=True, autoincrement=False, comment="lowest step of its samples"
    ),
    Column("last_step", BigInteger, nullable=False, comment="highest step of its samples"),
    Column("count", BigInteger, nullable=False, comment="samples that were written"),
    Column("nan_count", BigInteger, nullable=False, comment="samples that are NaN"),
    Column("inf_count", BigInteger, nullable=False, comment="samples that are infinite"),
    Column("min", Float64, comment="least finite value"),
    Column("max", Float64, comment="greatest finite value"),
    Column("mean", Float64, comment="mean of the finite values"),
    comment="neighbouring samples of a series that was thinned: of each bucket few are left in scalar_sample",
    sqlite_with_rowid=False,
)

payload_sample = Table(
    "payload_sample",
    metadata,
    job_id(),
    _series_no("its series"),
    Column("step", BigInteger, primary_key=True, autoincrement=False, comment="training step"),
    Column("wall_time", Float64, comment="when it was written, unix s; NULL when not a time"),
    Column("frame_offset", BigInteger, nullable=False, comment="where its frame begins in the log file"),
    Column("frame_length", BigInteger, nullable=False, comment="bytes of the frame"),
    Column("value_index", Integer, nullable=False, comment="its place among the values of the event"),
    Column("checksum", BigInteger, nullable=False, comment="the frame's masked CRC-32C"),
    Column("dtype", Text, comment="element type, or png"),
    Column("shape", Text, comment="JSON list of dimensions"),
    Column("size_bytes", BigInteger, nullable=False, comment="bytes of the encoded value"),
    Column("count", BigInteger, comment="histogram: values counted, NaN and infinities included"),
    Column("nan_count", BigInteger, comment="histogram: NaN"),
    Column("pos_inf_count", BigInteger, comment="histogram: +infinity"),
    Column("neg_inf_count", BigInteger, comment="histogram: -infinity"),
    Column("min", Float64, comment="histogram: least finite value"),
    Column("max", Float64, comment="histogram: greatest finite value"),
    Column("sum", Float64, comment="histogram: sum of the finite values"),
    comment="a histogram, image, tensor, graph or landscape at a step: where its bytes are",
    sqlite_with_rowid=False,
)

SAMPLE_TABLES = (scalar_sample, payload_sample)
"""The tables of single samples, which are partitioned and distributed by job."""


def samples_of(plugin: str) -> Table:
    """Return the table of a plugin's samples."""
    return metadata.tables[PLUGIN_BY_NAME[plugin].table]
