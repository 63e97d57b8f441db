SELECT lineage.job_id
FROM lineage INDEXED BY ix_lineage_fields JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (?) AND (lineage.loss IN (?) OR lineage.loss_kind IN (?) OR lineage.loss_kind IS NULL) AND (lineage.epoch IN (?) OR lineage.epoch IS NULL) IS NOT 1 AND ((EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND (metric.value IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?)))) OR NOT (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.kind != ?))) IS NOT 1 AND (EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND user_info.kind != ?)) ORDER BY train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC;

SELECT count(*) AS count_1
FROM lineage INDEXED BY ix_lineage_fields
WHERE (lineage.loss IN (?) OR lineage.loss_kind IN (?) OR lineage.loss_kind IS NULL) AND (lineage.epoch IN (?) OR lineage.epoch IS NULL) IS NOT 1 AND ((EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND (metric.value IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?)))) OR NOT (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.kind != ?))) IS NOT 1 AND (EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND user_info.kind != ?));

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, lineage.model_lineage, (SELECT dataset_graph.content
FROM dataset_graph
WHERE dataset_graph.id = lineage.dataset_graph_id) AS dataset_graph
FROM train_job JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE train_job.id IN (SELECT anon_1.value
FROM json_each(?) AS anon_1) AND (train_job.base_dir_id NOT IN (SELECT base_dir.id
FROM base_dir
WHERE base_dir.leaving = 1));
