SELECT train_job.base_dir_id, train_job.train_id, lineage.model_lineage, dataset_graph.content AS dataset_graph, annotation.tag, annotation.remark
FROM train_job JOIN lineage ON lineage.job_id = train_job.id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id LEFT OUTER JOIN metric AS sort_1 ON sort_1.job_id = train_job.id AND sort_1.name_key = ? AND sort_1.name = ? LEFT OUTER JOIN dataset_graph ON dataset_graph.id = lineage.dataset_graph_id
WHERE train_job.base_dir_id IN (?) AND (lineage.optimizer IN (?, ?)) IS 1 AND (lineage.epoch >= ?) IS 1 AND (lineage.learning_rate < ?) IS 1 AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = train_job.id AND metric.name_key = ? AND metric.name = ? AND metric.value > ?)) ORDER BY CASE coalesce(sort_1.kind, ?) WHEN ? THEN ? WHEN ? THEN ? WHEN ? THEN ? WHEN ? THEN ? ELSE ? END DESC NULLS LAST, sort_1.value DESC NULLS LAST, sort_1.text DESC NULLS LAST, train_job.update_time DESC, train_job.train_id, train_job.base_dir_id
 LIMIT ? OFFSET ?;

SELECT count(*) AS count_1
FROM train_job JOIN lineage ON lineage.job_id = train_job.id
WHERE (lineage.optimizer IN (?, ?)) IS 1 AND (lineage.epoch >= ?) IS 1 AND (lineage.learning_rate < ?) IS 1 AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = train_job.id AND metric.name_key = ? AND metric.name = ? AND metric.value > ?));
