SELECT page.job_id, page.base_dir_id, page.train_id, (SELECT annotation.tag
FROM annotation
WHERE annotation.base_dir_id = page.base_dir_id AND annotation.train_id = page.train_id) AS tag, (SELECT annotation.remark
FROM annotation
WHERE annotation.base_dir_id = page.base_dir_id AND annotation.train_id = page.train_id) AS remark, lineage.model_lineage, (SELECT dataset_graph.content
FROM dataset_graph
WHERE dataset_graph.id = lineage.dataset_graph_id) AS dataset_graph
FROM (SELECT lineage.job_id AS job_id, train_job.base_dir_id AS base_dir_id, train_job.train_id AS train_id, sort_0.value AS rank_1, train_job.update_time AS rank_2, train_job.train_id AS rank_3, train_job.base_dir_id AS rank_4
FROM lineage INDEXED BY ix_lineage_fields JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = ? LEFT OUTER JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (?) AND lineage.optimizer IN (?, ?) AND lineage.epoch >= ? AND lineage.learning_rate < ? AND sort_0.value > ? ORDER BY sort_0.value DESC, train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC
 LIMIT ? OFFSET ?) AS page JOIN lineage ON lineage.job_id = page.job_id ORDER BY page.rank_1 DESC, page.rank_2 DESC, page.rank_3 ASC, page.rank_4 ASC;

SELECT count(*) AS count_1
FROM lineage INDEXED BY ix_lineage_fields JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = ? LEFT OUTER JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (?) AND lineage.optimizer IN (?, ?) AND lineage.epoch >= ? AND lineage.learning_rate < ? AND sort_0.value > ?;

SELECT count(*) AS count_1
FROM lineage INDEXED BY ix_lineage_fields
WHERE lineage.optimizer IN (?, ?) AND lineage.epoch >= ? AND lineage.learning_rate < ? AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = ? AND metric.value > ?));

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, lineage.model_lineage, (SELECT dataset_graph.content
FROM dataset_graph
WHERE dataset_graph.id = lineage.dataset_graph_id) AS dataset_graph
FROM train_job JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE train_job.id IN (SELECT anon_1.value
FROM json_each(?) AS anon_1) AND (train_job.base_dir_id NOT IN (SELECT base_dir.id
FROM base_dir
WHERE base_dir.leaving = 1));
