SELECT lineage.job_id
FROM lineage JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (?) AND 1 = 1 ORDER BY train_job.update_time DESC, train_job.train_id, train_job.base_dir_id;

SELECT count(*) AS count_1
FROM lineage
WHERE 1 = 1;

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, lineage.model_lineage, dataset_graph.content AS dataset_graph, annotation.tag, annotation.remark
FROM train_job JOIN lineage ON lineage.job_id = train_job.id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id LEFT OUTER JOIN dataset_graph ON dataset_graph.id = lineage.dataset_graph_id
WHERE train_job.id IN (?, ?);
