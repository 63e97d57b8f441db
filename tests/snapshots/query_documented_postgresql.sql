SELECT train_job.base_dir_id, train_job.train_id, lineage.model_lineage, dataset_graph.content AS dataset_graph, annotation.tag, annotation.remark
FROM train_job JOIN lineage ON lineage.job_id = train_job.id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id LEFT OUTER JOIN metric AS sort_1 ON sort_1.job_id = train_job.id AND sort_1.name_key = %(name_key_1)s::BIGINT AND sort_1.name = %(name_1)s::VARCHAR COLLATE "C" LEFT OUTER JOIN dataset_graph ON dataset_graph.id = lineage.dataset_graph_id
WHERE train_job.base_dir_id IN (%(base_dir_id_1_1)s::BIGINT) AND (lineage.optimizer IN (%(optimizer_1_1)s::VARCHAR COLLATE "C", %(optimizer_1_2)s::VARCHAR COLLATE "C")) IS true AND (lineage.epoch >= %(epoch_1)s::BIGINT) IS true AND (lineage.learning_rate < %(learning_rate_1)s) IS true AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = train_job.id AND metric.name_key = %(name_key_2)s::BIGINT AND metric.name = %(name_2)s::VARCHAR COLLATE "C" AND metric.value > %(value_1)s)) ORDER BY CASE coalesce(sort_1.kind, %(coalesce_1)s::VARCHAR) WHEN %(param_1)s::VARCHAR THEN %(param_2)s::INTEGER WHEN %(param_3)s::VARCHAR THEN %(param_4)s::INTEGER WHEN %(param_5)s::VARCHAR THEN %(param_6)s::INTEGER WHEN %(param_7)s::VARCHAR THEN %(param_8)s::INTEGER ELSE %(param_9)s::INTEGER END DESC NULLS LAST, sort_1.value DESC NULLS LAST, sort_1.text DESC NULLS LAST, train_job.update_time DESC, train_job.train_id, train_job.base_dir_id
 LIMIT %(param_10)s::INTEGER OFFSET %(param_11)s::INTEGER;

SELECT count(*) AS count_1
FROM train_job JOIN lineage ON lineage.job_id = train_job.id
WHERE (lineage.optimizer IN (%(optimizer_1_1)s::VARCHAR COLLATE "C", %(optimizer_1_2)s::VARCHAR COLLATE "C")) IS true AND (lineage.epoch >= %(epoch_1)s::BIGINT) IS true AND (lineage.learning_rate < %(learning_rate_1)s) IS true AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = train_job.id AND metric.name_key = %(name_key_1)s::BIGINT AND metric.name = %(name_1)s::VARCHAR COLLATE "C" AND metric.value > %(value_1)s));
