CREATE TABLE base_dir (
  id INTEGER NOT NULL,
  path TEXT NOT NULL,
  path_key BIGINT NOT NULL,
  created_at TEXT NOT NULL,
  discovered_at TEXT,
  revision BIGINT DEFAULT 0 NOT NULL,
  leaving BOOLEAN DEFAULT 0 NOT NULL,
  shards INTEGER DEFAULT 1 NOT NULL,
  moved_from TEXT,
  clock_at TEXT,
  clock_off_s DOUBLE,
  jobs_waiting INTEGER DEFAULT 0 NOT NULL,
  waits_since TEXT,
  CONSTRAINT pk_base_dir PRIMARY KEY (id),
  CONSTRAINT uq_base_dir_path_key UNIQUE (path_key)
);

CREATE TABLE train_job (
  id INTEGER NOT NULL,
  base_dir_id INTEGER NOT NULL,
  train_id TEXT NOT NULL,
  train_key BIGINT DEFAULT 0 NOT NULL,
  owner_uid BIGINT,
  state TEXT NOT NULL,
  outcome TEXT,
  source_present BOOLEAN NOT NULL,
  host TEXT,
  update_time BIGINT NOT NULL,
  first_file_time BIGINT,
  last_file_time BIGINT,
  last_wall_time DOUBLE,
  last_grown_at TEXT,
  begun_at TEXT,
  alive_at TEXT,
  log_bytes BIGINT NOT NULL,
  created_at TEXT NOT NULL,
  revision BIGINT DEFAULT 0 NOT NULL,
  CONSTRAINT pk_train_job PRIMARY KEY (id),
  CONSTRAINT uq_train_job_base_dir_id_train_id UNIQUE (base_dir_id, train_id),
  CONSTRAINT fk_train_job_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE
);

CREATE INDEX ix_train_job_host ON train_job (base_dir_id, host);

CREATE INDEX ix_train_job_newest ON train_job (update_time, train_id, base_dir_id);

CREATE INDEX ix_train_job_outcome ON train_job (base_dir_id, outcome);

CREATE INDEX ix_train_job_revision ON train_job (base_dir_id, revision);

CREATE INDEX ix_train_job_state ON train_job (base_dir_id, state);

CREATE INDEX ix_train_job_update_time ON train_job (base_dir_id, update_time, train_id);

CREATE TABLE log_file (
  job_id INTEGER NOT NULL,
  file_no INTEGER NOT NULL,
  name TEXT NOT NULL,
  generation INTEGER NOT NULL,
  current BOOLEAN NOT NULL,
  format TEXT NOT NULL,
  kind TEXT NOT NULL,
  file_time BIGINT NOT NULL,
  device BIGINT,
  host TEXT,
  state TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  byte_offset BIGINT NOT NULL,
  quarantined_bytes BIGINT NOT NULL,
  event_count BIGINT NOT NULL,
  modified_s BIGINT NOT NULL,
  first_wall_time DOUBLE,
  last_wall_time DOUBLE,
  closed BOOLEAN NOT NULL,
  stat_stamp TEXT,
  fingerprint TEXT,
  fingerprint_bytes INTEGER NOT NULL,
  anchor TEXT,
  anchor_bytes INTEGER NOT NULL,
  suspect_since TEXT,
  suspect_size BIGINT,
  failed_reads INTEGER NOT NULL,
  last_problem TEXT,
  unlisted TEXT,
  grown_at TEXT,
  growth_seen_at TEXT,
  created_at TEXT NOT NULL,
  thinned BOOLEAN DEFAULT 0 NOT NULL,
  likeness BIGINT,
  copy_of INTEGER,
  compared_upto INTEGER DEFAULT 0 NOT NULL,
  unread BOOLEAN DEFAULT 1 NOT NULL,
  CONSTRAINT pk_log_file PRIMARY KEY (job_id, file_no),
  CONSTRAINT uq_log_file_job_id_name_generation UNIQUE (job_id, name, generation),
  CONSTRAINT fk_log_file_job_id FOREIGN KEY(job_id) REFERENCES train_job (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE INDEX ix_log_file_likeness ON log_file (job_id, likeness);

CREATE INDEX ix_log_file_pending ON log_file (job_id) WHERE size_bytes - byte_offset > 0;

CREATE INDEX ix_log_file_unsettled ON log_file (state) WHERE state IN ('replaced', 'suspect');

CREATE TABLE annotation (
  base_dir_id INTEGER NOT NULL,
  train_id TEXT NOT NULL,
  tag INTEGER,
  remark TEXT,
  updated_at TEXT NOT NULL,
  CONSTRAINT pk_annotation PRIMARY KEY (base_dir_id, train_id),
  CONSTRAINT fk_annotation_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE
);

CREATE TABLE removal (
  id INTEGER NOT NULL,
  base_dir_id INTEGER NOT NULL,
  removed_at TEXT NOT NULL,
  by_policy BOOLEAN NOT NULL,
  confirmed BOOLEAN NOT NULL,
  reason TEXT NOT NULL,
  holder TEXT NOT NULL,
  jobs INTEGER NOT NULL,
  CONSTRAINT pk_removal PRIMARY KEY (id),
  CONSTRAINT fk_removal_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE
);

CREATE INDEX ix_removal_base_dir_id ON removal (base_dir_id);

CREATE TABLE tombstone (
  base_dir_id INTEGER NOT NULL,
  train_id TEXT NOT NULL,
  removed_at TEXT NOT NULL,
  reason TEXT NOT NULL,
  removal_id INTEGER,
  first_seen_at TEXT,
  last_file_time BIGINT NOT NULL,
  lifted BOOLEAN DEFAULT 0 NOT NULL,
  revision BIGINT DEFAULT 0 NOT NULL,
  CONSTRAINT pk_tombstone PRIMARY KEY (base_dir_id, train_id),
  CONSTRAINT fk_tombstone_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE
);

CREATE INDEX ix_tombstone_base_dir_newest ON tombstone (base_dir_id, removed_at, train_id);

CREATE INDEX ix_tombstone_newest ON tombstone (removed_at, train_id);

CREATE INDEX ix_tombstone_removal ON tombstone (removal_id);

CREATE INDEX ix_tombstone_revision ON tombstone (base_dir_id, revision);

CREATE TABLE lineage_event (
  job_id INTEGER NOT NULL,
  file_no INTEGER NOT NULL,
  byte_offset BIGINT NOT NULL,
  value_index INTEGER NOT NULL,
  kind TEXT NOT NULL,
  wall_time DOUBLE,
  content TEXT NOT NULL,
  evaluation_no INTEGER,
  epoch BIGINT,
  step BIGINT,
  CONSTRAINT pk_lineage_event PRIMARY KEY (job_id, file_no, byte_offset, value_index),
  CONSTRAINT fk_lineage_event_job_id_file_no FOREIGN KEY(job_id, file_no) REFERENCES log_file (job_id, file_no) ON DELETE CASCADE
);

CREATE TABLE file_lineage (
  job_id INTEGER NOT NULL,
  file_no INTEGER NOT NULL,
  events INTEGER NOT NULL,
  evaluations INTEGER NOT NULL,
  user_values BIGINT NOT NULL,
  content_bytes BIGINT NOT NULL,
  train_at BIGINT,
  eval_at BIGINT,
  dataset_graph_at BIGINT,
  end_at BIGINT,
  ended_at DOUBLE,
  end_read_at TEXT,
  user_info TEXT NOT NULL,
  evaluations_before BIGINT DEFAULT 0 NOT NULL,
  has_last_evaluation BOOLEAN DEFAULT 1 NOT NULL,
  CONSTRAINT pk_file_lineage PRIMARY KEY (job_id, file_no),
  CONSTRAINT fk_file_lineage_job_id_file_no FOREIGN KEY(job_id, file_no) REFERENCES log_file (job_id, file_no) ON DELETE CASCADE
);

CREATE TABLE dataset_graph (
  id INTEGER NOT NULL,
  digest TEXT NOT NULL,
  mark TEXT NOT NULL,
  content TEXT NOT NULL,
  CONSTRAINT pk_dataset_graph PRIMARY KEY (id),
  CONSTRAINT uq_dataset_graph_digest UNIQUE (digest)
);

CREATE TABLE dataset_node (
  dataset_graph_id INTEGER NOT NULL,
  item_no INTEGER NOT NULL,
  node INTEGER NOT NULL,
  parent INTEGER,
  op_type TEXT,
  operation TEXT,
  operation_no INTEGER,
  parameter TEXT,
  value TEXT,
  CONSTRAINT pk_dataset_node PRIMARY KEY (dataset_graph_id, item_no),
  CONSTRAINT fk_dataset_node_dataset_graph_id FOREIGN KEY(dataset_graph_id) REFERENCES dataset_graph (id) ON DELETE CASCADE
);

CREATE TABLE lineage (
  job_id INTEGER NOT NULL,
  loss_function TEXT,
  train_dataset_path TEXT,
  train_dataset_count BIGINT,
  test_dataset_path TEXT,
  test_dataset_count BIGINT,
  network TEXT,
  optimizer TEXT,
  learning_rate DOUBLE,
  epoch BIGINT,
  batch_size BIGINT,
  device_num BIGINT,
  loss DOUBLE,
  model_size BIGINT,
  parallel_mode TEXT,
  model_path TEXT,
  learning_rate_kind TEXT,
  loss_kind TEXT,
  dataset_mark TEXT NOT NULL,
  dataset_graph_id INTEGER,
  model_lineage TEXT NOT NULL,
  CONSTRAINT pk_lineage PRIMARY KEY (job_id),
  CONSTRAINT fk_lineage_job_id FOREIGN KEY(job_id) REFERENCES train_job (id) ON DELETE CASCADE,
  CONSTRAINT fk_lineage_dataset_graph_id FOREIGN KEY(dataset_graph_id) REFERENCES dataset_graph (id)
);

CREATE INDEX ix_lineage_dataset_graph_id ON lineage (dataset_graph_id);

CREATE INDEX ix_lineage_dataset_mark ON lineage (dataset_mark);

CREATE INDEX ix_lineage_fields ON lineage (job_id, loss_function, train_dataset_count, test_dataset_count, network, optimizer, learning_rate, epoch, batch_size, device_num, loss, model_size, dataset_mark, learning_rate_kind, loss_kind);

CREATE INDEX ix_lineage_loss_function ON lineage (loss_function);

CREATE INDEX ix_lineage_network ON lineage (network);

CREATE INDEX ix_lineage_optimizer ON lineage (optimizer);

CREATE INDEX ix_lineage_test_dataset_path ON lineage (test_dataset_path);

CREATE INDEX ix_lineage_train_dataset_path ON lineage (train_dataset_path);

CREATE TABLE metric (
  job_id INTEGER NOT NULL,
  name_key BIGINT NOT NULL,
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  value DOUBLE,
  text TEXT,
  CONSTRAINT pk_metric PRIMARY KEY (job_id, name_key),
  CONSTRAINT fk_metric_job_id FOREIGN KEY(job_id) REFERENCES train_job (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE INDEX ix_metric_name_value ON metric (name_key, value, job_id);

CREATE TABLE user_info (
  job_id INTEGER NOT NULL,
  name_key BIGINT NOT NULL,
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  value DOUBLE,
  text TEXT,
  CONSTRAINT pk_user_info PRIMARY KEY (job_id, name_key),
  CONSTRAINT fk_user_info_job_id FOREIGN KEY(job_id) REFERENCES train_job (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE INDEX ix_user_info_name_value ON user_info (name_key, value, job_id);

CREATE TABLE evaluation_metric (
  job_id INTEGER NOT NULL,
  file_no INTEGER NOT NULL,
  byte_offset BIGINT NOT NULL,
  value_index INTEGER NOT NULL,
  name_key BIGINT NOT NULL,
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  value DOUBLE,
  text TEXT,
  CONSTRAINT pk_evaluation_metric PRIMARY KEY (job_id, file_no, byte_offset, value_index, name_key),
  CONSTRAINT fk_evaluation_metric_job_id_file_no_byte_offset_value_index FOREIGN KEY(job_id, file_no, byte_offset, value_index) REFERENCES lineage_event (job_id, file_no, byte_offset, value_index) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE TABLE metric_summary (
  job_id INTEGER NOT NULL,
  name_key BIGINT NOT NULL,
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  value DOUBLE,
  text TEXT,
  evaluation_no INTEGER NOT NULL,
  CONSTRAINT pk_metric_summary PRIMARY KEY (job_id, name_key),
  CONSTRAINT fk_metric_summary_job_id FOREIGN KEY(job_id) REFERENCES train_job (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE INDEX ix_metric_summary_name_value ON metric_summary (name_key, value, job_id);

CREATE TABLE ingest_problem (
  id INTEGER NOT NULL,
  base_dir_id INTEGER NOT NULL,
  job_id INTEGER,
  train_id TEXT,
  file_no INTEGER,
  path TEXT NOT NULL,
  kind TEXT NOT NULL,
  problems INTEGER DEFAULT 1 NOT NULL,
  count BIGINT DEFAULT 1 NOT NULL,
  bytes BIGINT,
  range_start BIGINT,
  first_range_end BIGINT,
  last_range_start BIGINT,
  range_end BIGINT,
  reason TEXT NOT NULL,
  remedy TEXT NOT NULL,
  first_seen_at TEXT NOT NULL,
  last_seen_at TEXT NOT NULL,
  resolved_at TEXT,
  CONSTRAINT pk_ingest_problem PRIMARY KEY (id),
  CONSTRAINT fk_ingest_problem_job_id_file_no FOREIGN KEY(job_id, file_no) REFERENCES log_file (job_id, file_no) ON DELETE CASCADE,
  CONSTRAINT uq_ingest_problem_job_id_file_no_kind UNIQUE (job_id, file_no, kind),
  CONSTRAINT fk_ingest_problem_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE,
  CONSTRAINT fk_ingest_problem_job_id FOREIGN KEY(job_id) REFERENCES train_job (id) ON DELETE CASCADE
);

CREATE INDEX ix_ingest_problem_base_dir_id ON ingest_problem (base_dir_id);

CREATE INDEX ix_ingest_problem_newest ON ingest_problem (first_seen_at);

CREATE INDEX ix_ingest_problem_open ON ingest_problem (first_seen_at) WHERE resolved_at IS NULL;

CREATE TABLE ingest_cycle (
  id INTEGER NOT NULL,
  base_dir_id INTEGER NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT NOT NULL,
  holder TEXT NOT NULL,
  files_found BIGINT NOT NULL,
  files_read BIGINT NOT NULL,
  bytes_read BIGINT NOT NULL,
  events BIGINT NOT NULL,
  samples BIGINT NOT NULL,
  pending_bytes BIGINT NOT NULL,
  waiting_files BIGINT DEFAULT 0 NOT NULL,
  waiting_bytes BIGINT DEFAULT 0 NOT NULL,
  problems BIGINT NOT NULL,
  CONSTRAINT pk_ingest_cycle PRIMARY KEY (id),
  CONSTRAINT fk_ingest_cycle_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE
);

CREATE INDEX ix_ingest_cycle_base_dir ON ingest_cycle (base_dir_id, started_at);

CREATE TABLE ingest_total (
  base_dir_id INTEGER NOT NULL,
  cycles BIGINT NOT NULL,
  cycles_s DOUBLE NOT NULL,
  batches BIGINT NOT NULL,
  batches_s DOUBLE NOT NULL,
  bytes_read DOUBLE NOT NULL,
  events BIGINT NOT NULL,
  samples BIGINT NOT NULL,
  CONSTRAINT pk_ingest_total PRIMARY KEY (base_dir_id),
  CONSTRAINT fk_ingest_total_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE
);

CREATE TABLE notifier (
  name TEXT NOT NULL,
  since TEXT NOT NULL,
  looked_at TEXT NOT NULL,
  begun_at TEXT NOT NULL,
  holder TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  CONSTRAINT pk_notifier PRIMARY KEY (name)
);

CREATE TABLE notified (
  notifier TEXT NOT NULL,
  event_key BIGINT NOT NULL,
  told_at TEXT NOT NULL,
  CONSTRAINT pk_notified PRIMARY KEY (notifier, event_key),
  CONSTRAINT fk_notified_notifier FOREIGN KEY(notifier) REFERENCES notifier (name) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE TABLE ingest_lease (
  base_dir_id INTEGER NOT NULL,
  shard INTEGER DEFAULT 0 NOT NULL,
  holder TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  mode TEXT NOT NULL,
  acquired_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  searched_at TEXT,
  CONSTRAINT pk_ingest_lease PRIMARY KEY (base_dir_id, shard),
  CONSTRAINT fk_ingest_lease_base_dir_id FOREIGN KEY(base_dir_id) REFERENCES base_dir (id) ON DELETE CASCADE
);

CREATE TABLE series (
  job_id INTEGER NOT NULL,
  series_no INTEGER NOT NULL,
  file_no INTEGER NOT NULL,
  plugin TEXT NOT NULL,
  tag_key BIGINT NOT NULL,
  tag TEXT NOT NULL,
  device BIGINT,
  sample_count BIGINT NOT NULL,
  first_step BIGINT NOT NULL,
  first_wall_time DOUBLE,
  first_value DOUBLE,
  last_step BIGINT NOT NULL,
  last_wall_time DOUBLE,
  last_value DOUBLE,
  earliest_wall_time DOUBLE,
  latest_wall_time DOUBLE,
  min_value DOUBLE,
  min_step BIGINT,
  max_value DOUBLE,
  max_step BIGINT,
  nan_count BIGINT NOT NULL,
  inf_count BIGINT NOT NULL,
  superseded_from BIGINT,
  superseded_count BIGINT DEFAULT 0 NOT NULL,
  thinned_count BIGINT DEFAULT 0 NOT NULL,
  CONSTRAINT pk_series PRIMARY KEY (job_id, series_no),
  CONSTRAINT uq_series_job_id_plugin_tag_key_file_no UNIQUE (job_id, plugin, tag_key, file_no),
  CONSTRAINT fk_series_job_id_file_no FOREIGN KEY(job_id, file_no) REFERENCES log_file (job_id, file_no) ON DELETE CASCADE
);

CREATE INDEX ix_series_file ON series (job_id, file_no);

CREATE INDEX ix_series_half_used ON series (series_no) WHERE series_no >= 1073741824;

CREATE INDEX ix_series_superseded ON series (job_id) WHERE superseded_from <= last_step;

CREATE TABLE scalar_sample (
  job_id INTEGER NOT NULL,
  series_no INTEGER NOT NULL,
  step BIGINT NOT NULL,
  wall_time DOUBLE,
  value DOUBLE,
  CONSTRAINT pk_scalar_sample PRIMARY KEY (job_id, series_no, step)
)
 WITHOUT ROWID;

CREATE TABLE scalar_bucket (
  job_id INTEGER NOT NULL,
  series_no INTEGER NOT NULL,
  first_step BIGINT NOT NULL,
  last_step BIGINT NOT NULL,
  count BIGINT NOT NULL,
  nan_count BIGINT NOT NULL,
  inf_count BIGINT NOT NULL,
  min DOUBLE,
  max DOUBLE,
  mean DOUBLE,
  CONSTRAINT pk_scalar_bucket PRIMARY KEY (job_id, series_no, first_step)
)
 WITHOUT ROWID;

CREATE TABLE payload_sample (
  job_id INTEGER NOT NULL,
  series_no INTEGER NOT NULL,
  step BIGINT NOT NULL,
  wall_time DOUBLE,
  frame_offset BIGINT NOT NULL,
  frame_length BIGINT NOT NULL,
  value_index INTEGER NOT NULL,
  checksum BIGINT NOT NULL,
  dtype TEXT,
  shape TEXT,
  size_bytes BIGINT NOT NULL,
  count BIGINT,
  nan_count BIGINT,
  pos_inf_count BIGINT,
  neg_inf_count BIGINT,
  min DOUBLE,
  max DOUBLE,
  sum DOUBLE,
  CONSTRAINT pk_payload_sample PRIMARY KEY (job_id, series_no, step)
)
 WITHOUT ROWID;

CREATE VIEW v_job AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  l.network AS network,
  l.optimizer AS optimizer,
  l.loss_function AS loss_function,
  l.parallel_mode AS parallel_mode,
  l.learning_rate AS learning_rate,
  l.learning_rate_kind AS learning_rate_kind,
  l.loss AS loss,
  l.loss_kind AS loss_kind,
  l.epoch AS epoch,
  l.batch_size AS batch_size,
  l.device_num AS device_num,
  l.train_dataset_path AS train_dataset_path,
  l.train_dataset_count AS train_dataset_count,
  l.test_dataset_path AS test_dataset_path,
  l.test_dataset_count AS test_dataset_count,
  l.model_path AS model_path,
  l.model_size AS model_size_bytes,
  l.dataset_mark AS dataset_mark,
  j.state AS state,
  j.outcome AS outcome,
  CASE WHEN (j.first_file_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((j.first_file_time) * 1e6) AS bigint) - CAST(round((j.first_file_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((j.first_file_time) * 1e6) AS bigint) % 1000000) END AS first_started_at,
  CASE WHEN (j.last_file_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((j.last_file_time) * 1e6) AS bigint) - CAST(round((j.last_file_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((j.last_file_time) * 1e6) AS bigint) % 1000000) END AS last_started_at,
  CASE WHEN (j.last_wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((j.last_wall_time) * 1e6) AS bigint) - CAST(round((j.last_wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((j.last_wall_time) * 1e6) AS bigint) % 1000000) END AS last_event_at,
  CASE WHEN (j.update_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((j.update_time) * 1e6) AS bigint) - CAST(round((j.update_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((j.update_time) * 1e6) AS bigint) % 1000000) END AS updated_at,
  CAST(j.last_wall_time - j.first_file_time AS double precision) AS duration_s,
  CAST(((367 * CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 1, 4) AS bigint) - ((7 * (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 1, 4) AS bigint) + ((CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) - (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) % 12) / 12)) - (7 * (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 1, 4) AS bigint) + ((CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) - (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) % 12) / 12)) % 4) / 4 + ((275 * CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint)) - (275 * CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint)) % 9) / 9 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 9, 2) AS bigint)) * 86400 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 12, 2) AS bigint) * 3600 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 15, 2) AS bigint) * 60 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 18, 6) AS double precision)) - ((367 * CAST(substr(j.last_grown_at, 1, 4) AS bigint) - ((7 * (CAST(substr(j.last_grown_at, 1, 4) AS bigint) + ((CAST(substr(j.last_grown_at, 6, 2) AS bigint) + 9) - (CAST(substr(j.last_grown_at, 6, 2) AS bigint) + 9) % 12) / 12)) - (7 * (CAST(substr(j.last_grown_at, 1, 4) AS bigint) + ((CAST(substr(j.last_grown_at, 6, 2) AS bigint) + 9) - (CAST(substr(j.last_grown_at, 6, 2) AS bigint) + 9) % 12) / 12)) % 4) / 4 + ((275 * CAST(substr(j.last_grown_at, 6, 2) AS bigint)) - (275 * CAST(substr(j.last_grown_at, 6, 2) AS bigint)) % 9) / 9 + CAST(substr(j.last_grown_at, 9, 2) AS bigint)) * 86400 + CAST(substr(j.last_grown_at, 12, 2) AS bigint) * 3600 + CAST(substr(j.last_grown_at, 15, 2) AS bigint) * 60 + CAST(substr(j.last_grown_at, 18, 6) AS double precision)) AS double precision) AS quiet_s,
  CAST(CASE WHEN EXISTS (
    SELECT 1 FROM series older WHERE older.job_id = j.id AND older.superseded_from <= older.last_step
  ) THEN coalesce((
    SELECT count(DISTINCT again.file_no)
    FROM (
      SELECT s.job_id, s.file_no, s.first_step, max(s.last_step) OVER (
               PARTITION BY s.job_id, s.plugin, s.tag_key, s.device ORDER BY f.file_time
               RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
             ) AS reached
      FROM series s JOIN log_file f ON f.job_id = s.job_id AND f.file_no = s.file_no
      WHERE s.job_id = j.id AND f.current
    ) again
    WHERE again.job_id = j.id AND again.first_step <= again.reached
    GROUP BY again.job_id
  ), 0) ELSE 0 END AS bigint) AS restart_count,
  j.host AS host,
  j.log_bytes AS log_bytes,
  CAST(j.source_present AS boolean) AS source_present,
  CAST(coalesce((
    SELECT sum(p.problems) FROM ingest_problem p WHERE p.job_id = j.id AND p.resolved_at IS NULL GROUP BY p.job_id
  ), 0) AS bigint) AS problem_count,
  a.tag AS label,
  a.remark AS remark,
  j.revision AS revision
FROM train_job j
JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
LEFT JOIN lineage l ON l.job_id = j.id
LEFT JOIN annotation a ON a.base_dir_id = j.base_dir_id AND a.train_id = j.train_id;

CREATE VIEW v_dataset AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  r.role AS role,
  CASE r.role WHEN 'train' THEN l.dataset_mark END AS mark,
  CASE r.role WHEN 'train' THEN l.train_dataset_path ELSE l.test_dataset_path END AS path,
  CAST(CASE r.role WHEN 'train' THEN l.train_dataset_count ELSE l.test_dataset_count END AS bigint) AS count,
  CASE r.role WHEN 'train' THEN g.content END AS graph
FROM lineage l
CROSS JOIN (SELECT 'train' AS role UNION ALL SELECT 'test') r
LEFT JOIN dataset_graph g ON g.id = l.dataset_graph_id
JOIN train_job j ON j.id = l.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
WHERE CASE r.role
  WHEN 'train' THEN coalesce(l.train_dataset_path, CAST(l.train_dataset_count AS text), g.mark)
  ELSE coalesce(l.test_dataset_path, CAST(l.test_dataset_count AS text))
END IS NOT NULL;

CREATE VIEW v_dataset_node AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  n.node AS node,
  n.parent AS parent,
  n.op_type AS op_type,
  n.operation AS operation,
  n.operation_no AS operation_no,
  n.parameter AS parameter,
  n.value AS value
FROM dataset_node n
JOIN lineage l ON l.dataset_graph_id = n.dataset_graph_id
JOIN train_job j ON j.id = l.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving;

CREATE VIEW v_user_info AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  u.name AS key,
  u.value AS value,
  u.text AS text,
  u.kind AS kind
FROM user_info u JOIN train_job j ON j.id = u.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving;

CREATE VIEW v_lineage_event AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  f.name AS log_file,
  e.byte_offset AS byte_offset,
  e.value_index AS value_index,
  CASE WHEN (e.wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((e.wall_time) * 1e6) AS bigint) - CAST(round((e.wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((e.wall_time) * 1e6) AS bigint) % 1000000) END AS wall_at,
  e.kind AS kind,
  e.content AS content
FROM lineage_event e
JOIN log_file f ON f.job_id = e.job_id AND f.file_no = e.file_no AND f.current
JOIN train_job j ON j.id = e.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving;

CREATE VIEW v_metric AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  m.name AS name,
  m.value AS value,
  m.kind AS kind,
  m.text AS text,
  CASE WHEN (e.wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((e.wall_time) * 1e6) AS bigint) - CAST(round((e.wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((e.wall_time) * 1e6) AS bigint) % 1000000) END AS evaluated_at,
  CAST(e.evaluation_no + l.evaluations_before AS bigint) AS evaluation_no,
  CAST((
    m.byte_offset = l.eval_at AND e.evaluation_no = l.evaluations AND l.has_last_evaluation AND EXISTS (
      SELECT 1 FROM metric binding WHERE binding.job_id = m.job_id AND binding.name_key = m.name_key)
  ) AS boolean) AS is_latest,
  e.epoch AS epoch,
  e.step AS step
FROM evaluation_metric m
JOIN lineage_event e
  ON e.job_id = m.job_id AND e.file_no = m.file_no AND e.byte_offset = m.byte_offset AND e.value_index = m.value_index
JOIN file_lineage l ON l.job_id = m.job_id AND l.file_no = m.file_no
JOIN log_file f ON f.job_id = m.job_id AND f.file_no = m.file_no AND f.current
JOIN train_job j ON j.id = m.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving;

CREATE VIEW v_metric_latest AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  m.name AS name,
  m.value AS value,
  m.kind AS kind,
  m.text AS text,
  s.value AS first_value,
  h.value AS best_value,
  h.evaluation_no AS best_evaluation_no
FROM metric m
LEFT JOIN metric_summary s ON s.job_id = m.job_id AND s.name_key = (m.name_key | 1)
LEFT JOIN metric_summary h ON h.job_id = m.job_id AND h.name_key = (m.name_key & -2)
JOIN train_job j ON j.id = m.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving;

CREATE VIEW v_metric_best AS
SELECT
  r.base_dir AS base_dir,
  r.network AS network,
  r.name AS name,
  CAST(max(r.value) AS double precision) AS greatest_value,
  max(CASE WHEN r.down = 1 THEN r.train_id END) AS greatest_train_id,
  CAST(min(r.value) AS double precision) AS least_value,
  max(CASE WHEN r.up = 1 THEN r.train_id END) AS least_train_id
FROM (
  SELECT b.path AS base_dir, l.network, m.name, m.value, j.train_id,
         row_number() OVER (PARTITION BY b.id, l.network, m.name ORDER BY m.value DESC, j.train_id) AS down,
         row_number() OVER (PARTITION BY b.id, l.network, m.name ORDER BY m.value, j.train_id) AS up
  FROM metric m
  JOIN train_job j ON j.id = m.job_id
  JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
  LEFT JOIN lineage l ON l.job_id = m.job_id
  WHERE m.kind IN ('int', 'float')
) r
GROUP BY r.base_dir, r.network, r.name;

CREATE VIEW v_scalar AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  r.series_no AS series_no,
  r.tag AS tag,
  r.device AS device,
  s.step AS step,
  CASE WHEN (s.wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((s.wall_time) * 1e6) AS bigint) - CAST(round((s.wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((s.wall_time) * 1e6) AS bigint) % 1000000) END AS wall_at,
  CAST(s.wall_time - j.first_file_time AS double precision) AS elapsed_s,
  s.value AS value,
  CASE WHEN (r.earliest_wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((r.earliest_wall_time) * 1e6) AS bigint) - CAST(round((r.earliest_wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((r.earliest_wall_time) * 1e6) AS bigint) % 1000000) END AS series_earliest_at,
  CASE WHEN (r.latest_wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((r.latest_wall_time) * 1e6) AS bigint) - CAST(round((r.latest_wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((r.latest_wall_time) * 1e6) AS bigint) % 1000000) END AS series_latest_at,
  CAST((r.superseded_from IS NULL OR s.step < r.superseded_from) AS boolean) AS is_effective,
  f.name AS log_file
FROM series r CROSS JOIN scalar_sample s
JOIN log_file f ON f.job_id = r.job_id AND f.file_no = r.file_no AND f.current
JOIN train_job j ON j.id = r.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
 WHERE s.job_id = r.job_id AND s.series_no = r.series_no;

CREATE VIEW v_series AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  r.series_no AS series_no,
  r.plugin AS plugin,
  r.tag AS tag,
  r.device AS device,
  r.sample_count AS sample_count,
  r.first_value AS first_value,
  r.first_step AS first_step,
  r.last_value AS last_value,
  r.last_step AS last_step,
  r.min_value AS min_value,
  r.min_step AS min_step,
  r.max_value AS max_value,
  r.max_step AS max_step,
  r.nan_count AS nan_count,
  r.inf_count AS inf_count,
  r.superseded_count AS superseded_count,
  r.thinned_count AS thinned_count,
  CAST(CASE
    WHEN r.first_wall_time BETWEEN 0 AND 253402300799 AND r.last_wall_time BETWEEN 0 AND 253402300799 THEN CASE
      WHEN r.last_wall_time - r.first_wall_time > 1e-9 THEN
        (CAST(r.last_step AS double precision) - r.first_step) / (r.last_wall_time - r.first_wall_time) END
  END AS double precision) AS steps_per_s,
  CASE WHEN (r.last_wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((r.last_wall_time) * 1e6) AS bigint) - CAST(round((r.last_wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((r.last_wall_time) * 1e6) AS bigint) % 1000000) END AS last_at,
  CASE WHEN (r.earliest_wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((r.earliest_wall_time) * 1e6) AS bigint) - CAST(round((r.earliest_wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((r.earliest_wall_time) * 1e6) AS bigint) % 1000000) END AS earliest_at,
  CASE WHEN (r.latest_wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((r.latest_wall_time) * 1e6) AS bigint) - CAST(round((r.latest_wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((r.latest_wall_time) * 1e6) AS bigint) % 1000000) END AS latest_at,
  f.name AS log_file
FROM series r
JOIN log_file f ON f.job_id = r.job_id AND f.file_no = r.file_no AND f.current
JOIN train_job j ON j.id = r.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving;

CREATE VIEW v_scalar_bucket AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  r.series_no AS series_no,
  r.tag AS tag,
  r.device AS device,
  s.first_step AS first_step,
  s.last_step AS last_step,
  s.count AS count,
  s.nan_count AS nan_count,
  s.inf_count AS inf_count,
  s.min AS min,
  s.max AS max,
  s.mean AS mean,
  CAST((r.superseded_from IS NULL OR s.last_step < r.superseded_from) AS boolean) AS is_effective,
  f.name AS log_file
FROM series r CROSS JOIN scalar_bucket s
JOIN log_file f ON f.job_id = r.job_id AND f.file_no = r.file_no AND f.current
JOIN train_job j ON j.id = r.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
 WHERE s.job_id = r.job_id AND s.series_no = r.series_no;

CREATE VIEW v_histogram AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  r.series_no AS series_no,
  r.tag AS tag,
  s.step AS step,
  CASE WHEN (s.wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((s.wall_time) * 1e6) AS bigint) - CAST(round((s.wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((s.wall_time) * 1e6) AS bigint) % 1000000) END AS wall_at,
  s.count AS count,
  s.nan_count AS nan_count,
  CAST(CASE WHEN s.count BETWEEN 0 AND 2305843009213693952 AND s.nan_count BETWEEN 0 AND 2305843009213693952 AND s.pos_inf_count BETWEEN 0 AND 2305843009213693952 AND s.neg_inf_count BETWEEN 0 AND 2305843009213693952 THEN s.pos_inf_count + s.neg_inf_count END AS bigint) AS inf_count,
  s.min AS min,
  s.max AS max,
  CAST(CASE
    WHEN NOT (s.count BETWEEN 0 AND 2305843009213693952 AND s.nan_count BETWEEN 0 AND 2305843009213693952 AND s.pos_inf_count BETWEEN 0 AND 2305843009213693952 AND s.neg_inf_count BETWEEN 0 AND 2305843009213693952) THEN NULL
    WHEN s.sum = 0 OR abs(s.sum) > 1e-280 THEN s.sum / nullif(s.count - s.nan_count - (s.pos_inf_count + s.neg_inf_count), 0)
    ELSE 0
  END AS double precision) AS mean,
  r.device AS device,
  CAST((r.superseded_from IS NULL OR s.step < r.superseded_from) AS boolean) AS is_effective
FROM series r CROSS JOIN payload_sample s
JOIN log_file f ON f.job_id = r.job_id AND f.file_no = r.file_no AND f.current
JOIN train_job j ON j.id = r.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
 WHERE s.job_id = r.job_id AND s.series_no = r.series_no AND r.plugin = 'histogram';

CREATE VIEW v_payload AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  r.series_no AS series_no,
  r.plugin AS plugin,
  r.tag AS tag,
  s.step AS step,
  CASE WHEN (s.wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((s.wall_time) * 1e6) AS bigint) - CAST(round((s.wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((s.wall_time) * 1e6) AS bigint) % 1000000) END AS wall_at,
  s.shape AS shape,
  s.dtype AS dtype,
  s.size_bytes AS size_bytes,
  CAST(f.state <> 'missing' AS boolean) AS available,
  r.device AS device,
  CAST((r.superseded_from IS NULL OR s.step < r.superseded_from) AS boolean) AS is_effective
FROM series r CROSS JOIN payload_sample s
JOIN log_file f ON f.job_id = r.job_id AND f.file_no = r.file_no AND f.current
JOIN train_job j ON j.id = r.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
 WHERE s.job_id = r.job_id AND s.series_no = r.series_no;

CREATE VIEW v_log_file AS
SELECT
  b.path AS base_dir,
  j.train_id AS train_id,
  j.id AS job_id,
  f.name AS log_file,
  f.format AS format,
  f.kind AS kind,
  f.generation AS generation,
  CAST(f.current AS boolean) AS is_current,
  (SELECT o.name FROM log_file o WHERE o.job_id = f.job_id AND o.file_no = f.copy_of) AS copy_of,
  f.device AS device,
  f.host AS host,
  f.state AS state,
  CAST(f.closed AS boolean) AS is_closed,
  f.size_bytes AS size_bytes,
  f.byte_offset AS bookmark_bytes,
  CAST(f.byte_offset - f.quarantined_bytes AS bigint) AS ingested_bytes,
  CAST(CASE WHEN f.copy_of IS NULL THEN 0 ELSE f.byte_offset END AS bigint) AS copied_bytes,
  CAST(f.size_bytes - f.byte_offset AS bigint) AS pending_bytes,
  f.quarantined_bytes AS quarantined_bytes,
  f.event_count AS event_count,
  CASE WHEN (f.file_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((f.file_time) * 1e6) AS bigint) - CAST(round((f.file_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((f.file_time) * 1e6) AS bigint) % 1000000) END AS begun_at,
  CASE WHEN (f.last_wall_time) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((f.last_wall_time) * 1e6) AS bigint) - CAST(round((f.last_wall_time) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((f.last_wall_time) * 1e6) AS bigint) % 1000000) END AS last_event_at,
  CASE WHEN (f.modified_s) BETWEEN 0 AND 253402300799 THEN strftime('%Y-%m-%dT%H:%M:%S', CAST('epoch' AS timestamp) + ((CAST(round((f.modified_s) * 1e6) AS bigint) - CAST(round((f.modified_s) * 1e6) AS bigint) % 1000000) / 1000000 / CASE typeof(0) WHEN 'integer' THEN 86400.0 ELSE 1 END + CASE typeof(0) WHEN 'integer' THEN 2440587.5 ELSE 0 END) * CAST('1 second' AS interval)) || printf('.%06dZ', CAST(round((f.modified_s) * 1e6) AS bigint) % 1000000) END AS modified_at,
  f.grown_at AS grown_at,
  f.suspect_since AS suspect_since,
  f.last_problem AS last_problem,
  CAST((f.stat_stamp IS NULL AND f.size_bytes > f.byte_offset AND f.state IN ('closed', 'open', 'suspect', 'torn', 'replacing')) AS boolean) AS is_waiting
FROM log_file f JOIN train_job j ON j.id = f.job_id JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving WHERE f.state <> 'replaced';

CREATE VIEW v_ingest_problem AS
SELECT
  b.path AS base_dir,
  p.train_id AS train_id,
  p.job_id AS job_id,
  p.path AS path,
  p.kind AS kind,
  p.problems AS problems,
  p.count AS count,
  p.bytes AS bytes,
  p.range_start AS range_start,
  p.first_range_end AS first_range_end,
  p.last_range_start AS last_range_start,
  p.range_end AS range_end,
  p.reason AS reason,
  p.remedy AS remedy,
  p.first_seen_at AS first_seen_at,
  p.last_seen_at AS last_seen_at,
  p.resolved_at AS resolved_at
FROM ingest_problem p JOIN base_dir b ON b.id = p.base_dir_id AND NOT b.leaving;

CREATE VIEW v_ingest_cycle AS
SELECT
  b.path AS base_dir,
  c.started_at AS started_at,
  c.finished_at AS finished_at,
  c.holder AS holder,
  c.files_found AS files_found,
  c.files_read AS files_read,
  c.bytes_read AS bytes_read,
  c.events AS events,
  c.samples AS samples,
  c.pending_bytes AS pending_bytes,
  c.waiting_files AS waiting_files,
  c.waiting_bytes AS waiting_bytes,
  c.problems AS problems
FROM ingest_cycle c JOIN base_dir b ON b.id = c.base_dir_id AND NOT b.leaving;

CREATE VIEW v_base_dir AS
SELECT
  b.path AS base_dir,
  CAST(coalesce(j.jobs, 0) AS bigint) AS jobs,
  CAST(coalesce(j.reading, 0) AS bigint) AS reading_jobs,
  CAST(coalesce(j.live, 0) AS bigint) AS live_jobs,
  CAST(coalesce(j.stalled, 0) AS bigint) AS stalled_jobs,
  CAST(coalesce(j.finished, 0) AS bigint) AS finished_jobs,
  CAST(coalesce(j.missing, 0) AS bigint) AS missing_jobs,
  CAST(coalesce(f.files, 0) AS bigint) AS log_files,
  CAST(coalesce(f.size_bytes, 0) AS bigint) AS log_bytes,
  CAST(coalesce(f.pending_bytes, 0) AS bigint) AS pending_bytes,
  CAST(coalesce(f.waiting_files, 0) AS bigint) AS waiting_files,
  CAST(coalesce(f.waiting_bytes, 0) AS bigint) AS waiting_bytes,
  CAST(coalesce(f.quarantined_bytes, 0) AS bigint) AS quarantined_bytes,
  CAST((SELECT coalesce(sum(p.problems), 0) FROM ingest_problem p WHERE p.base_dir_id = b.id AND p.resolved_at IS NULL) AS bigint) AS open_problems,
  (SELECT i.holder FROM ingest_lease i WHERE i.base_dir_id = b.id AND i.shard < b.shards AND i.expires_at > strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END) ORDER BY i.shard LIMIT 1) AS leader,
  b.shards AS shards,
  CAST((SELECT count(*) FROM ingest_lease i WHERE i.base_dir_id = b.id AND i.shard < b.shards AND i.expires_at > strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END)) AS bigint) AS led_shards,
  (SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id) AS last_cycle_at,
  CAST(((367 * CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 1, 4) AS bigint) - ((7 * (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 1, 4) AS bigint) + ((CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) - (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) % 12) / 12)) - (7 * (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 1, 4) AS bigint) + ((CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) - (CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint) + 9) % 12) / 12)) % 4) / 4 + ((275 * CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint)) - (275 * CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 6, 2) AS bigint)) % 9) / 9 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 9, 2) AS bigint)) * 86400 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 12, 2) AS bigint) * 3600 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 15, 2) AS bigint) * 60 + CAST(substr(strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END), 18, 6) AS double precision)) - ((367 * CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 1, 4) AS bigint) - ((7 * (CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 1, 4) AS bigint) + ((CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 6, 2) AS bigint) + 9) - (CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 6, 2) AS bigint) + 9) % 12) / 12)) - (7 * (CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 1, 4) AS bigint) + ((CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 6, 2) AS bigint) + 9) - (CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 6, 2) AS bigint) + 9) % 12) / 12)) % 4) / 4 + ((275 * CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 6, 2) AS bigint)) - (275 * CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 6, 2) AS bigint)) % 9) / 9 + CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 9, 2) AS bigint)) * 86400 + CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 12, 2) AS bigint) * 3600 + CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 15, 2) AS bigint) * 60 + CAST(substr((SELECT max(c.finished_at) FROM ingest_cycle c WHERE c.base_dir_id = b.id), 18, 6) AS double precision)) AS double precision) AS last_cycle_age_s,
  b.discovered_at AS discovered_at,
  b.revision AS revision,
  b.created_at AS known_since
FROM base_dir b
LEFT JOIN (
  SELECT base_dir_id, count(*) AS jobs,
         count(*) FILTER (WHERE state = 'reading') AS reading,
         count(*) FILTER (WHERE state = 'live') AS live,
         count(*) FILTER (WHERE state = 'stalled') AS stalled,
         count(*) FILTER (WHERE state = 'finished') AS finished,
         count(*) FILTER (WHERE state = 'missing') AS missing
  FROM train_job GROUP BY base_dir_id
) j ON j.base_dir_id = b.id
LEFT JOIN (
  SELECT job.base_dir_id, count(*) AS files,
         CAST(sum(CAST(file.size_bytes AS double precision)) AS bigint) AS size_bytes,
         CAST(sum(CAST(file.size_bytes - file.byte_offset AS double precision)) AS bigint) AS pending_bytes,
         count(*) FILTER (WHERE (file.stat_stamp IS NULL AND file.size_bytes > file.byte_offset AND file.state IN ('closed', 'open', 'suspect', 'torn', 'replacing'))) AS waiting_files,
         CAST(sum(CAST(CASE WHEN (file.stat_stamp IS NULL AND file.size_bytes > file.byte_offset AND file.state IN ('closed', 'open', 'suspect', 'torn', 'replacing')) THEN file.size_bytes - file.byte_offset ELSE 0 END AS double precision)) AS bigint) AS waiting_bytes,
         CAST(sum(CAST(file.quarantined_bytes AS double precision)) AS bigint) AS quarantined_bytes
  FROM log_file file JOIN train_job job ON job.id = file.job_id
  WHERE file.state NOT IN ('replaced', 'missing')
  GROUP BY job.base_dir_id
) f ON f.base_dir_id = b.id
WHERE NOT b.leaving;

CREATE VIEW v_shard AS
SELECT
  b.path AS base_dir,
  i.shard AS shard,
  CASE WHEN i.expires_at > strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END) THEN i.holder END AS leader,
  CASE WHEN i.expires_at > strftime(CASE typeof(0) WHEN 'integer' THEN '%Y-%m-%dT%H:%M:%fZ' ELSE '%Y-%m-%dT%H:%M:%S.%fZ' END, CASE typeof(0) WHEN 'integer' THEN 'now' ELSE CURRENT_TIMESTAMP END) THEN i.acquired_at END AS led_since,
  i.searched_at AS searched_at
FROM ingest_lease i JOIN base_dir b ON b.id = i.base_dir_id AND i.shard < b.shards AND NOT b.leaving;
