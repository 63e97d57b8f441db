"""The first schema.

Frozen: it says what the first release's tables are, whatever store/schema/tables/ has become. Comments and views are
not here; every upgrade writes them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.Integer()
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
UTC_TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


FIELDS = [
    "job_id",
    "loss_function",
    "train_dataset_count",
    "test_dataset_count",
    "network",
    "optimizer",
    "learning_rate",
    "epoch",
    "batch_size",
    "device_num",
    "loss",
    "model_size",
    "dataset_mark",
    "learning_rate_kind",
    "loss_kind",
]
TEXTS = [
    "loss_function",
    "train_dataset_path",
    "test_dataset_path",
    "network",
    "optimizer",
    "dataset_mark",
]


def upgrade() -> None:
    op.create_table(
        "base_dir",
        sa.Column("id", KEY, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("path_key", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.Column("discovered_at", UTC_TIME),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("leaving", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("shards", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("moved_from", sa.Text()),
        sa.Column("clock_at", UTC_TIME),
        sa.Column("clock_off_s", sa.Double()),
        sa.Column("jobs_waiting", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("waits_since", UTC_TIME),
        sa.PrimaryKeyConstraint("id", name="pk_base_dir"),
        sa.UniqueConstraint("path_key", name="uq_base_dir_path_key"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE base_dir SET (autovacuum_analyze_threshold = 0)")
    op.create_table(
        "train_job",
        sa.Column("id", KEY, nullable=False),
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("train_id", NAME, nullable=False),
        sa.Column("train_key", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("owner_uid", sa.BigInteger()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.Column("source_present", sa.Boolean(), nullable=False),
        sa.Column("host", sa.Text()),
        sa.Column("update_time", sa.BigInteger(), nullable=False),
        sa.Column("first_file_time", sa.BigInteger()),
        sa.Column("last_file_time", sa.BigInteger()),
        sa.Column("last_wall_time", sa.Double()),
        sa.Column("last_grown_at", UTC_TIME),
        sa.Column("begun_at", UTC_TIME),
        sa.Column("alive_at", UTC_TIME),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_train_job"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_train_job_base_dir_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("base_dir_id", "train_id", name="uq_train_job_base_dir_id_train_id"),
    )
    op.create_index("ix_train_job_state", "train_job", ["base_dir_id", "state"])
    op.create_index("ix_train_job_outcome", "train_job", ["base_dir_id", "outcome"])
    op.create_index("ix_train_job_host", "train_job", ["base_dir_id", "host"])
    op.create_index("ix_train_job_revision", "train_job", ["base_dir_id", "revision"])
    op.create_index("ix_train_job_update_time", "train_job", ["base_dir_id", "update_time", "train_id"])
    op.create_index("ix_train_job_newest", "train_job", ["update_time", "train_id", "base_dir_id"])
    op.create_table(
        "log_file",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("file_no", sa.Integer(), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("file_time", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.BigInteger()),
        sa.Column("host", sa.Text()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("byte_offset", sa.BigInteger(), nullable=False),
        sa.Column("quarantined_bytes", sa.BigInteger(), nullable=False),
        sa.Column("event_count", sa.BigInteger(), nullable=False),
        sa.Column("modified_s", sa.BigInteger(), nullable=False),
        sa.Column("first_wall_time", sa.Double()),
        sa.Column("last_wall_time", sa.Double()),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("stat_stamp", sa.Text()),
        sa.Column("fingerprint", sa.Text()),
        sa.Column("fingerprint_bytes", sa.Integer(), nullable=False),
        sa.Column("anchor", sa.Text()),
        sa.Column("anchor_bytes", sa.Integer(), nullable=False),
        sa.Column("suspect_since", UTC_TIME),
        sa.Column("suspect_size", sa.BigInteger()),
        sa.Column("failed_reads", sa.Integer(), nullable=False),
        sa.Column("last_problem", sa.Text()),
        sa.Column("unlisted", sa.Text()),
        sa.Column("grown_at", UTC_TIME),
        sa.Column("growth_seen_at", UTC_TIME),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.Column("thinned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("likeness", sa.BigInteger()),
        sa.Column("copy_of", sa.Integer()),
        sa.Column("compared_upto", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("unread", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "file_no", name="pk_log_file"),
        sa.ForeignKeyConstraint(["job_id"], ["train_job.id"], name="fk_log_file_job_id", ondelete="CASCADE"),
        sa.UniqueConstraint("job_id", "name", "generation", name="uq_log_file_job_id_name_generation"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_log_file_unsettled",
        "log_file",
        ["state"],
        sqlite_where=sa.text("state IN ('replaced', 'suspect')"),
        postgresql_where=sa.text("state IN ('replaced', 'suspect')"),
    )
    op.create_index("ix_log_file_likeness", "log_file", ["job_id", "likeness"])
    op.create_index(
        "ix_log_file_pending",
        "log_file",
        ["job_id"],
        sqlite_where=sa.text("size_bytes - byte_offset > 0"),
        postgresql_where=sa.text("size_bytes - byte_offset > 0"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE STATISTICS st_log_file_pending ON (size_bytes - byte_offset) FROM log_file")
    op.create_table(
        "lineage_event",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("file_no", sa.Integer(), nullable=False),
        sa.Column("byte_offset", sa.BigInteger(), nullable=False),
        sa.Column("value_index", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("wall_time", sa.Double()),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("evaluation_no", sa.Integer()),
        sa.Column("epoch", sa.BigInteger()),
        sa.Column("step", sa.BigInteger()),
        sa.PrimaryKeyConstraint("job_id", "file_no", "byte_offset", "value_index", name="pk_lineage_event"),
        sa.ForeignKeyConstraint(
            ["job_id", "file_no"],
            ["log_file.job_id", "log_file.file_no"],
            name="fk_lineage_event_job_id_file_no",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "file_lineage",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("file_no", sa.Integer(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("evaluations", sa.Integer(), nullable=False),
        sa.Column("user_values", sa.BigInteger(), nullable=False),
        sa.Column("content_bytes", sa.BigInteger(), nullable=False),
        sa.Column("train_at", sa.BigInteger()),
        sa.Column("eval_at", sa.BigInteger()),
        sa.Column("dataset_graph_at", sa.BigInteger()),
        sa.Column("end_at", sa.BigInteger()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("end_read_at", UTC_TIME),
        sa.Column("user_info", sa.Text(), nullable=False),
        sa.Column("evaluations_before", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("has_last_evaluation", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "file_no", name="pk_file_lineage"),
        sa.ForeignKeyConstraint(
            ["job_id", "file_no"],
            ["log_file.job_id", "log_file.file_no"],
            name="fk_file_lineage_job_id_file_no",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "dataset_graph",
        sa.Column("id", KEY, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_graph"),
        sa.UniqueConstraint("digest", name="uq_dataset_graph_digest"),
    )
    op.create_table(
        "dataset_node",
        sa.Column("dataset_graph_id", KEY, nullable=False),
        sa.Column("item_no", sa.Integer(), nullable=False),
        sa.Column("node", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Integer()),
        sa.Column("op_type", NAME),
        sa.Column("operation", NAME),
        sa.Column("operation_no", sa.Integer()),
        sa.Column("parameter", NAME),
        sa.Column("value", NAME),
        sa.PrimaryKeyConstraint("dataset_graph_id", "item_no", name="pk_dataset_node"),
        sa.ForeignKeyConstraint(
            ["dataset_graph_id"],
            ["dataset_graph.id"],
            name="fk_dataset_node_dataset_graph_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "lineage",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("loss_function", NAME),
        sa.Column("train_dataset_path", NAME),
        sa.Column("train_dataset_count", sa.BigInteger()),
        sa.Column("test_dataset_path", NAME),
        sa.Column("test_dataset_count", sa.BigInteger()),
        sa.Column("network", NAME),
        sa.Column("optimizer", NAME),
        sa.Column("learning_rate", sa.Double()),
        sa.Column("epoch", sa.BigInteger()),
        sa.Column("batch_size", sa.BigInteger()),
        sa.Column("device_num", sa.BigInteger()),
        sa.Column("loss", sa.Double()),
        sa.Column("model_size", sa.BigInteger()),
        sa.Column("parallel_mode", NAME),
        sa.Column("model_path", NAME),
        sa.Column("learning_rate_kind", sa.Text()),
        sa.Column("loss_kind", sa.Text()),
        sa.Column("dataset_mark", NAME, nullable=False),
        sa.Column("dataset_graph_id", KEY),
        sa.Column("model_lineage", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_lineage"),
        sa.ForeignKeyConstraint(["job_id"], ["train_job.id"], name="fk_lineage_job_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["dataset_graph_id"], ["dataset_graph.id"], name="fk_lineage_dataset_graph_id"
        ),
    )
    op.create_index("ix_lineage_dataset_graph_id", "lineage", ["dataset_graph_id"])
    if op.get_bind().dialect.name == "sqlite":
        op.create_index("ix_lineage_fields", "lineage", FIELDS)
        for text in TEXTS:
            op.create_index(f"ix_lineage_{text}", "lineage", [text])
    else:
        for text in TEXTS:
            op.create_index(f"ix_lineage_{text}_prefix", "lineage", [sa.text(f"left({text}, 500)")])
    op.create_table(
        "metric",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("name_key", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("text", NAME),
        sa.PrimaryKeyConstraint("job_id", "name_key", name="pk_metric"),
        sa.ForeignKeyConstraint(["job_id"], ["train_job.id"], name="fk_metric_job_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_metric_name_value", "metric", ["name_key", "value", "job_id"])
    op.create_table(
        "metric_summary",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("name_key", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("text", NAME),
        sa.Column("evaluation_no", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "name_key", name="pk_metric_summary"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["train_job.id"], name="fk_metric_summary_job_id", ondelete="CASCADE"
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_metric_summary_name_value", "metric_summary", ["name_key", "value", "job_id"])
    op.create_table(
        "user_info",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("name_key", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("text", NAME),
        sa.PrimaryKeyConstraint("job_id", "name_key", name="pk_user_info"),
        sa.ForeignKeyConstraint(["job_id"], ["train_job.id"], name="fk_user_info_job_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_user_info_name_value", "user_info", ["name_key", "value", "job_id"])
    op.create_table(
        "evaluation_metric",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("file_no", sa.Integer(), nullable=False),
        sa.Column("byte_offset", sa.BigInteger(), nullable=False),
        sa.Column("value_index", sa.Integer(), nullable=False),
        sa.Column("name_key", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("text", NAME),
        sa.PrimaryKeyConstraint(
            "job_id", "file_no", "byte_offset", "value_index", "name_key", name="pk_evaluation_metric"
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "file_no", "byte_offset", "value_index"],
            [
                *("lineage_event.job_id", "lineage_event.file_no"),
                *("lineage_event.byte_offset", "lineage_event.value_index"),
            ],
            name="fk_evaluation_metric_job_id_file_no_byte_offset_value_index",
            ondelete="CASCADE",
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "annotation",
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("train_id", NAME, nullable=False),
        sa.Column("tag", sa.Integer()),
        sa.Column("remark", sa.Text()),
        sa.Column("updated_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("base_dir_id", "train_id", name="pk_annotation"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_annotation_base_dir_id", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "removal",
        sa.Column("id", KEY, nullable=False),
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("removed_at", UTC_TIME, nullable=False),
        sa.Column("by_policy", sa.Boolean(), nullable=False),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_removal"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_removal_base_dir_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_removal_base_dir_id", "removal", ["base_dir_id"])
    op.create_table(
        "tombstone",
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("train_id", NAME, nullable=False),
        sa.Column("removed_at", UTC_TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("removal_id", sa.Integer()),
        sa.Column("first_seen_at", UTC_TIME),
        sa.Column("last_file_time", sa.BigInteger(), nullable=False),
        sa.Column("lifted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("base_dir_id", "train_id", name="pk_tombstone"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_tombstone_base_dir_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_tombstone_revision", "tombstone", ["base_dir_id", "revision"])
    op.create_index("ix_tombstone_removal", "tombstone", ["removal_id"])
    op.create_index("ix_tombstone_newest", "tombstone", ["removed_at", "train_id"])
    op.create_index("ix_tombstone_base_dir_newest", "tombstone", ["base_dir_id", "removed_at", "train_id"])
    op.create_table(
        "series",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("series_no", sa.Integer(), nullable=False),
        sa.Column("file_no", sa.Integer(), nullable=False),
        sa.Column("plugin", sa.Text(), nullable=False),
        sa.Column("tag_key", sa.BigInteger(), nullable=False),
        sa.Column("tag", NAME, nullable=False),
        sa.Column("device", sa.BigInteger()),
        sa.Column("sample_count", sa.BigInteger(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("first_wall_time", sa.Double()),
        sa.Column("first_value", sa.Double()),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("last_wall_time", sa.Double()),
        sa.Column("last_value", sa.Double()),
        sa.Column("earliest_wall_time", sa.Double()),
        sa.Column("latest_wall_time", sa.Double()),
        sa.Column("min_value", sa.Double()),
        sa.Column("min_step", sa.BigInteger()),
        sa.Column("max_value", sa.Double()),
        sa.Column("max_step", sa.BigInteger()),
        sa.Column("nan_count", sa.BigInteger(), nullable=False),
        sa.Column("inf_count", sa.BigInteger(), nullable=False),
        sa.Column("superseded_from", sa.BigInteger()),
        sa.Column("superseded_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("thinned_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "series_no", name="pk_series"),
        sa.ForeignKeyConstraint(
            ["job_id", "file_no"],
            ["log_file.job_id", "log_file.file_no"],
            name="fk_series_job_id_file_no",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint(
            "job_id", "plugin", "tag_key", "file_no", name="uq_series_job_id_plugin_tag_key_file_no"
        ),
    )
    op.create_index(
        "ix_series_superseded",
        "series",
        ["job_id"],
        sqlite_where=sa.text("superseded_from <= last_step"),
        postgresql_where=sa.text("superseded_from <= last_step"),
    )
    op.create_index("ix_series_file", "series", ["job_id", "file_no"])
    half = sa.text("series_no >= 1073741824")
    op.create_index("ix_series_half_used", "series", ["series_no"], sqlite_where=half, postgresql_where=half)
    op.create_table(
        "scalar_sample",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("series_no", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("wall_time", sa.Double()),
        sa.Column("value", sa.Double()),
        sa.PrimaryKeyConstraint("job_id", "series_no", "step", name="pk_scalar_sample"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "scalar_bucket",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("series_no", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("nan_count", sa.BigInteger(), nullable=False),
        sa.Column("inf_count", sa.BigInteger(), nullable=False),
        sa.Column("min", sa.Double()),
        sa.Column("max", sa.Double()),
        sa.Column("mean", sa.Double()),
        sa.PrimaryKeyConstraint("job_id", "series_no", "first_step", name="pk_scalar_bucket"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "payload_sample",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("series_no", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("wall_time", sa.Double()),
        sa.Column("frame_offset", sa.BigInteger(), nullable=False),
        sa.Column("frame_length", sa.BigInteger(), nullable=False),
        sa.Column("value_index", sa.Integer(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=False),
        sa.Column("dtype", sa.Text()),
        sa.Column("shape", sa.Text()),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger()),
        sa.Column("nan_count", sa.BigInteger()),
        sa.Column("pos_inf_count", sa.BigInteger()),
        sa.Column("neg_inf_count", sa.BigInteger()),
        sa.Column("min", sa.Double()),
        sa.Column("max", sa.Double()),
        sa.Column("sum", sa.Double()),
        sa.PrimaryKeyConstraint("job_id", "series_no", "step", name="pk_payload_sample"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ingest_problem",
        sa.Column("id", KEY, nullable=False),
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("job_id", KEY),
        sa.Column("train_id", NAME),
        sa.Column("file_no", sa.Integer()),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("problems", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("count", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("range_start", sa.BigInteger()),
        sa.Column("first_range_end", sa.BigInteger()),
        sa.Column("last_range_start", sa.BigInteger()),
        sa.Column("range_end", sa.BigInteger()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("remedy", sa.Text(), nullable=False),
        sa.Column("first_seen_at", UTC_TIME, nullable=False),
        sa.Column("last_seen_at", UTC_TIME, nullable=False),
        sa.Column("resolved_at", UTC_TIME),
        sa.PrimaryKeyConstraint("id", name="pk_ingest_problem"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_ingest_problem_base_dir_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["train_job.id"], name="fk_ingest_problem_job_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "file_no"],
            ["log_file.job_id", "log_file.file_no"],
            name="fk_ingest_problem_job_id_file_no",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("job_id", "file_no", "kind", name="uq_ingest_problem_job_id_file_no_kind"),
    )
    op.create_index("ix_ingest_problem_base_dir_id", "ingest_problem", ["base_dir_id"])
    op.create_index("ix_ingest_problem_newest", "ingest_problem", ["first_seen_at"])
    lasting = sa.text("resolved_at IS NULL")
    op.create_index(
        "ix_ingest_problem_open",
        "ingest_problem",
        ["first_seen_at"],
        sqlite_where=lasting,
        postgresql_where=lasting,
    )
    op.create_table(
        "ingest_cycle",
        sa.Column("id", KEY, nullable=False),
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("started_at", UTC_TIME, nullable=False),
        sa.Column("finished_at", UTC_TIME, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("files_found", sa.BigInteger(), nullable=False),
        sa.Column("files_read", sa.BigInteger(), nullable=False),
        sa.Column("bytes_read", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("pending_bytes", sa.BigInteger(), nullable=False),
        sa.Column("waiting_files", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("waiting_bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("problems", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_ingest_cycle"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_ingest_cycle_base_dir_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_ingest_cycle_base_dir", "ingest_cycle", ["base_dir_id", "started_at"])
    op.create_table(
        "ingest_total",
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("cycles", sa.BigInteger(), nullable=False),
        sa.Column("cycles_s", sa.Double(), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("batches_s", sa.Double(), nullable=False),
        sa.Column("bytes_read", sa.Double(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("base_dir_id", name="pk_ingest_total"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_ingest_total_base_dir_id", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "notifier",
        sa.Column("name", NAME, nullable=False),
        sa.Column("since", sa.Text(), nullable=False),
        sa.Column("looked_at", UTC_TIME, nullable=False),
        sa.Column("begun_at", UTC_TIME, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_notifier"),
    )
    op.create_table(
        "notified",
        sa.Column("notifier", NAME, nullable=False),
        sa.Column("event_key", sa.BigInteger(), nullable=False),
        sa.Column("told_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("notifier", "event_key", name="pk_notified"),
        sa.ForeignKeyConstraint(
            ["notifier"], ["notifier.name"], name="fk_notified_notifier", ondelete="CASCADE"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ingest_lease",
        sa.Column("base_dir_id", KEY, nullable=False),
        sa.Column("shard", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("acquired_at", UTC_TIME, nullable=False),
        sa.Column("expires_at", UTC_TIME, nullable=False),
        sa.Column("searched_at", UTC_TIME),
        sa.PrimaryKeyConstraint("base_dir_id", "shard", name="pk_ingest_lease"),
        sa.ForeignKeyConstraint(
            ["base_dir_id"], ["base_dir.id"], name="fk_ingest_lease_base_dir_id", ondelete="CASCADE"
        ),
    )
