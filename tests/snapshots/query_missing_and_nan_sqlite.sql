SELECT lineage.job_id
FROM lineage JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (?) AND (lineage.loss IN (?) OR lineage.loss_kind IN (?) OR lineage.loss_kind IS NULL) AND (lineage.epoch IN (?) OR lineage.epoch IS NULL) IS NOT 1 AND ((EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.name = ? AND (metric.value IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?)))) OR NOT (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.name = ? AND metric.kind != ?))) IS NOT 1 AND (EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND user_info.name = ? AND user_info.kind != ?)) ORDER BY train_job.update_time DESC, train_job.train_id, train_job.base_dir_id;

SELECT count(*) AS count_1
FROM lineage
WHERE (lineage.loss IN (?) OR lineage.loss_kind IN (?) OR lineage.loss_kind IS NULL) AND (lineage.epoch IN (?) OR lineage.epoch IS NULL) IS NOT 1 AND ((EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.name = ? AND (metric.value IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?) OR CASE WHEN (metric.kind = ?) THEN metric.text END IN (?)))) OR NOT (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.name = ? AND metric.kind != ?))) IS NOT 1 AND (EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND user_info.name = ? AND user_info.kind != ?));

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, lineage.model_lineage, dataset_graph.content AS dataset_graph, annotation.tag, annotation.remark
FROM train_job JOIN lineage ON lineage.job_id = train_job.id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id LEFT OUTER JOIN dataset_graph ON dataset_graph.id = lineage.dataset_graph_id
WHERE train_job.id IN (?, ?);
