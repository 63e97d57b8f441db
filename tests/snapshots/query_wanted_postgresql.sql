SELECT page.job_id, page.base_dir_id, page.train_id, asked_0.kind, asked_0.value, asked_0.text, asked_1.kind AS kind_1, asked_1.value AS value_1, asked_1.text AS text_1, lineage.loss, lineage.loss_kind, train_job.state, (SELECT annotation.tag
FROM annotation
WHERE annotation.base_dir_id = page.base_dir_id AND annotation.train_id = page.train_id) AS tag
FROM (SELECT lineage.job_id AS job_id, train_job.base_dir_id AS base_dir_id, train_job.train_id AS train_id, train_job.update_time AS rank_1, train_job.train_id AS rank_2, train_job.base_dir_id AS rank_3
FROM lineage JOIN train_job ON train_job.id = lineage.job_id
WHERE lineage.epoch >= %(v1_epoch)s::BIGINT ORDER BY train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC
 LIMIT %(take)s::INTEGER OFFSET %(skip)s::INTEGER) AS page JOIN lineage ON lineage.job_id = page.job_id JOIN train_job ON train_job.id = page.job_id LEFT OUTER JOIN metric_summary AS asked_0 ON asked_0.job_id = page.job_id AND asked_0.name_key = %(name_key_1)s::BIGINT LEFT OUTER JOIN user_info AS asked_1 ON asked_1.job_id = page.job_id AND asked_1.name_key = %(name_key_2)s::BIGINT ORDER BY page.rank_1 DESC, page.rank_2 ASC, page.rank_3 ASC;

SELECT lineage.job_id, train_job.base_dir_id, train_job.train_id, asked_0.kind, asked_0.value, asked_0.text, asked_1.kind AS kind_1, asked_1.value AS value_1, asked_1.text AS text_1, lineage.loss, lineage.loss_kind, train_job.state, (SELECT annotation.tag
FROM annotation
WHERE annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id) AS tag
FROM lineage JOIN train_job ON train_job.id = lineage.job_id LEFT OUTER JOIN metric_summary AS asked_0 ON asked_0.job_id = lineage.job_id AND asked_0.name_key = %(name_key_1)s::BIGINT LEFT OUTER JOIN user_info AS asked_1 ON asked_1.job_id = lineage.job_id AND asked_1.name_key = %(name_key_2)s::BIGINT
WHERE lineage.epoch >= %(v1_epoch)s::BIGINT ORDER BY train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC
 LIMIT %(most)s::INTEGER;

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, asked_0.kind, asked_0.value, asked_0.text, asked_1.kind AS kind_1, asked_1.value AS value_1, asked_1.text AS text_1, lineage.loss, lineage.loss_kind, train_job.state, (SELECT annotation.tag
FROM annotation
WHERE annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id) AS tag
FROM train_job LEFT OUTER JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN metric_summary AS asked_0 ON asked_0.job_id = train_job.id AND asked_0.name_key = %(name_key_1)s::BIGINT LEFT OUTER JOIN user_info AS asked_1 ON asked_1.job_id = train_job.id AND asked_1.name_key = %(name_key_2)s::BIGINT
WHERE lineage.epoch >= %(v1_epoch)s::BIGINT ORDER BY train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC
 LIMIT %(most)s::INTEGER;

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, train_job.state, train_job.outcome, train_job.source_present, train_job.host, train_job.log_bytes, train_job.update_time, train_job.first_file_time, train_job.last_file_time, train_job.last_wall_time
FROM train_job LEFT OUTER JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE lineage.epoch >= %(v1_epoch)s::BIGINT ORDER BY train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC
 LIMIT %(most)s::INTEGER;
