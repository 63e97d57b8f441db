SELECT lineage.job_id
FROM lineage JOIN train_job ON train_job.id = lineage.job_id JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = %(name_key_1)s::BIGINT AND sort_0.name = %(name_1)s::VARCHAR COLLATE "C"
WHERE train_job.base_dir_id IN (%(base_dir_id_1_1)s::BIGINT) AND lineage.optimizer IN (%(optimizer_1_1)s::VARCHAR COLLATE "C", %(optimizer_1_2)s::VARCHAR COLLATE "C") AND lineage.epoch >= %(epoch_1)s::BIGINT AND lineage.learning_rate < %(learning_rate_1)s AND sort_0.value > %(value_1)s ORDER BY sort_0.value DESC, train_job.update_time DESC, train_job.train_id, train_job.base_dir_id
 LIMIT %(take)s::INTEGER OFFSET %(skip)s::INTEGER;

SELECT count(*) AS count_1
FROM lineage JOIN train_job ON train_job.id = lineage.job_id JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = %(name_key_1)s::BIGINT AND sort_0.name = %(name_1)s::VARCHAR COLLATE "C"
WHERE train_job.base_dir_id IN (%(base_dir_id_1_1)s::BIGINT) AND lineage.optimizer IN (%(optimizer_1_1)s::VARCHAR COLLATE "C", %(optimizer_1_2)s::VARCHAR COLLATE "C") AND lineage.epoch >= %(epoch_1)s::BIGINT AND lineage.learning_rate < %(learning_rate_1)s AND sort_0.value > %(value_1)s;

SELECT count(*) AS count_1
FROM lineage
WHERE lineage.optimizer IN (%(optimizer_1_1)s::VARCHAR COLLATE "C", %(optimizer_1_2)s::VARCHAR COLLATE "C") AND lineage.epoch >= %(epoch_1)s::BIGINT AND lineage.learning_rate < %(learning_rate_1)s AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = %(name_key_1)s::BIGINT AND metric.name = %(name_1)s::VARCHAR COLLATE "C" AND metric.value > %(value_1)s));

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, lineage.model_lineage, dataset_graph.content AS dataset_graph, annotation.tag, annotation.remark
FROM train_job JOIN lineage ON lineage.job_id = train_job.id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id LEFT OUTER JOIN dataset_graph ON dataset_graph.id = lineage.dataset_graph_id
WHERE train_job.id IN (%(job_ids_1)s::BIGINT, %(job_ids_2)s::BIGINT);
