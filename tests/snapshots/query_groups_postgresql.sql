SELECT lineage.job_id
FROM lineage LEFT OUTER JOIN train_job ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id
WHERE train_job.base_dir_id IN (%(base_dir_id_1_1)s::INTEGER) AND (lower(lineage.network) LIKE %(v1_network)s::VARCHAR COLLATE "C" ESCAPE '#' OR ((EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = %(name_key_1)s::BIGINT AND CASE WHEN (user_info.kind = %(kind_1)s::VARCHAR) THEN user_info.text END IN (%(v2_user_defined)s::VARCHAR COLLATE "C"))) IS NOT true) IS NOT true) ORDER BY CASE coalesce(lineage.loss_kind, %(coalesce_1)s::VARCHAR) WHEN %(param_1)s::VARCHAR THEN %(param_2)s::INTEGER WHEN %(param_3)s::VARCHAR THEN %(param_4)s::INTEGER WHEN %(param_5)s::VARCHAR THEN %(param_6)s::INTEGER WHEN %(param_7)s::VARCHAR THEN %(param_8)s::INTEGER ELSE %(param_9)s::INTEGER END ASC NULLS FIRST, lineage.loss ASC NULLS FIRST, annotation.tag DESC NULLS LAST, lineage.network ASC NULLS FIRST, train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC;

SELECT count(*) AS count_1
FROM lineage
WHERE lower(lineage.network) LIKE %(v1_network)s::VARCHAR COLLATE "C" ESCAPE '#' OR ((EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = %(name_key_1)s::BIGINT AND CASE WHEN (user_info.kind = %(kind_1)s::VARCHAR) THEN user_info.text END IN (%(v2_user_defined)s::VARCHAR COLLATE "C"))) IS NOT true) IS NOT true;

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, lineage.model_lineage
FROM train_job JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE train_job.id = ANY (%(wanted)s) AND (train_job.base_dir_id NOT IN (SELECT base_dir.id
FROM base_dir
WHERE base_dir.leaving));
