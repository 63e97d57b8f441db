SELECT lineage.job_id
FROM lineage JOIN train_job ON train_job.id = lineage.job_id JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = ? AND sort_0.name = ?
WHERE train_job.base_dir_id IN (?) AND lineage.optimizer IN (?, ?) AND lineage.epoch >= ? AND lineage.learning_rate < ? AND sort_0.value > ? ORDER BY sort_0.value DESC, train_job.update_time DESC, train_job.train_id, train_job.base_dir_id
 LIMIT ? OFFSET ?;

SELECT count(*) AS count_1
FROM lineage JOIN train_job ON train_job.id = lineage.job_id JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = ? AND sort_0.name = ?
WHERE train_job.base_dir_id IN (?) AND lineage.optimizer IN (?, ?) AND lineage.epoch >= ? AND lineage.learning_rate < ? AND sort_0.value > ?;

SELECT count(*) AS count_1
FROM lineage
WHERE lineage.optimizer IN (?, ?) AND lineage.epoch >= ? AND lineage.learning_rate < ? AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.name = ? AND metric.value > ?));

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, lineage.model_lineage, dataset_graph.content AS dataset_graph, annotation.tag, annotation.remark
FROM train_job JOIN lineage ON lineage.job_id = train_job.id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id LEFT OUTER JOIN dataset_graph ON dataset_graph.id = lineage.dataset_graph_id
WHERE train_job.id IN (?, ?);
