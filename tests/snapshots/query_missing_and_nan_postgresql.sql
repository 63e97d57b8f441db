SELECT lineage.job_id
FROM lineage JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (%(base_dir_id_1_1)s::INTEGER) AND (lineage.loss IN (%(v1_loss)s) OR lineage.loss_kind IN (%(loss_kind_1_1)s::VARCHAR) OR lineage.loss_kind IS NULL) AND (lineage.epoch IN (%(v2_epoch)s::BIGINT) OR lineage.epoch IS NULL) IS NOT true AND ((EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = %(name_key_1)s::BIGINT AND (metric.value IN (%(v3_metric)s) OR CASE WHEN (metric.kind = %(kind_1)s::VARCHAR) THEN metric.text END IN (%(v4_metric)s::VARCHAR COLLATE "C") OR CASE WHEN (metric.kind = %(kind_2)s::VARCHAR) THEN metric.text END IN (%(v5_metric)s::VARCHAR COLLATE "C")))) OR NOT (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = %(name_key_2)s::BIGINT AND metric.kind != %(kind_3)s::VARCHAR))) IS NOT true AND (EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = %(name_key_3)s::BIGINT AND user_info.kind != %(kind_4)s::VARCHAR)) ORDER BY train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC;

SELECT count(*) AS count_1
FROM lineage
WHERE (lineage.loss IN (%(v1_loss)s) OR lineage.loss_kind IN (%(loss_kind_1_1)s::VARCHAR) OR lineage.loss_kind IS NULL) AND (lineage.epoch IN (%(v2_epoch)s::BIGINT) OR lineage.epoch IS NULL) IS NOT true AND ((EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = %(name_key_1)s::BIGINT AND (metric.value IN (%(v3_metric)s) OR CASE WHEN (metric.kind = %(kind_1)s::VARCHAR) THEN metric.text END IN (%(v4_metric)s::VARCHAR COLLATE "C") OR CASE WHEN (metric.kind = %(kind_2)s::VARCHAR) THEN metric.text END IN (%(v5_metric)s::VARCHAR COLLATE "C")))) OR NOT (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = %(name_key_2)s::BIGINT AND metric.kind != %(kind_3)s::VARCHAR))) IS NOT true AND (EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = %(name_key_3)s::BIGINT AND user_info.kind != %(kind_4)s::VARCHAR));

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, lineage.model_lineage, (SELECT dataset_graph.content
FROM dataset_graph
WHERE dataset_graph.id = lineage.dataset_graph_id) AS dataset_graph
FROM train_job JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE train_job.id = ANY (%(wanted)s) AND (train_job.base_dir_id NOT IN (SELECT base_dir.id
FROM base_dir
WHERE base_dir.leaving));
