SELECT lineage.job_id
FROM lineage INDEXED BY ix_lineage_fields JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (?) AND 1 = 1 ORDER BY train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC;

SELECT count(*) AS count_1
FROM lineage INDEXED BY ix_lineage_fields
WHERE 1 = 1;

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, lineage.model_lineage, (SELECT dataset_graph.content
FROM dataset_graph
WHERE dataset_graph.id = lineage.dataset_graph_id) AS dataset_graph
FROM train_job JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE train_job.id IN (SELECT anon_1.value
FROM json_each(?) AS anon_1) AND (train_job.base_dir_id NOT IN (SELECT base_dir.id
FROM base_dir
WHERE base_dir.leaving = 1));
