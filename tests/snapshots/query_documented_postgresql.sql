SELECT page.job_id, page.base_dir_id, page.train_id, (SELECT annotation.tag
FROM annotation
WHERE annotation.base_dir_id = page.base_dir_id AND annotation.train_id = page.train_id) AS tag, (SELECT annotation.remark
FROM annotation
WHERE annotation.base_dir_id = page.base_dir_id AND annotation.train_id = page.train_id) AS remark, lineage.model_lineage, (SELECT dataset_graph.content
FROM dataset_graph
WHERE dataset_graph.id = lineage.dataset_graph_id) AS dataset_graph
FROM (SELECT lineage.job_id AS job_id, train_job.base_dir_id AS base_dir_id, train_job.train_id AS train_id, sort_0.value AS rank_1, train_job.update_time AS rank_2, train_job.train_id AS rank_3, train_job.base_dir_id AS rank_4
FROM lineage JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = %(name_key_1)s::BIGINT LEFT OUTER JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (%(base_dir_id_1_1)s::INTEGER) AND left(lineage.optimizer, 500) IN (%(v1_optimizer)s::VARCHAR COLLATE "C", %(v2_optimizer)s::VARCHAR COLLATE "C") AND lineage.epoch >= %(v3_epoch)s::BIGINT AND lineage.learning_rate < %(v4_learning_rate)s AND sort_0.value > %(v5_metric)s ORDER BY sort_0.value DESC, train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC
 LIMIT %(take)s::INTEGER OFFSET %(skip)s::INTEGER) AS page JOIN lineage ON lineage.job_id = page.job_id ORDER BY page.rank_1 DESC, page.rank_2 DESC, page.rank_3 ASC, page.rank_4 ASC;

SELECT count(*) AS count_1
FROM lineage JOIN metric AS sort_0 ON sort_0.job_id = lineage.job_id AND sort_0.name_key = %(name_key_1)s::BIGINT LEFT OUTER JOIN train_job ON train_job.id = lineage.job_id
WHERE train_job.base_dir_id IN (%(base_dir_id_1_1)s::INTEGER) AND left(lineage.optimizer, 500) IN (%(v1_optimizer)s::VARCHAR COLLATE "C", %(v2_optimizer)s::VARCHAR COLLATE "C") AND lineage.epoch >= %(v3_epoch)s::BIGINT AND lineage.learning_rate < %(v4_learning_rate)s AND sort_0.value > %(v5_metric)s;

SELECT count(*) AS count_1
FROM lineage
WHERE left(lineage.optimizer, 500) IN (%(v1_optimizer)s::VARCHAR COLLATE "C", %(v2_optimizer)s::VARCHAR COLLATE "C") AND lineage.epoch >= %(v3_epoch)s::BIGINT AND lineage.learning_rate < %(v4_learning_rate)s AND (EXISTS (SELECT 1
FROM metric
WHERE metric.job_id = lineage.job_id AND metric.name_key = %(name_key_1)s::BIGINT AND metric.value > %(v5_metric)s));

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, lineage.model_lineage, (SELECT dataset_graph.content
FROM dataset_graph
WHERE dataset_graph.id = lineage.dataset_graph_id) AS dataset_graph
FROM train_job JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE train_job.id = ANY (%(wanted)s) AND (train_job.base_dir_id NOT IN (SELECT base_dir.id
FROM base_dir
WHERE base_dir.leaving));
