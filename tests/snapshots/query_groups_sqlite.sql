SELECT lineage.job_id
FROM lineage INDEXED BY ix_lineage_fields LEFT OUTER JOIN train_job ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id
WHERE train_job.base_dir_id IN (?) AND (CASE WHEN length(lineage.network) > 2000 THEN is_like_in_pieces(lower(lineage.network), ?) ELSE lower(lineage.network) LIKE ? ESCAPE '#' END = 1 OR ((EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND CASE WHEN (user_info.kind = ?) THEN user_info.text END IN (?))) IS NOT 1) IS NOT 1) ORDER BY CASE coalesce(lineage.loss_kind, ?) WHEN ? THEN ? WHEN ? THEN ? WHEN ? THEN ? WHEN ? THEN ? ELSE ? END ASC NULLS FIRST, lineage.loss ASC NULLS FIRST, annotation.tag DESC NULLS LAST, lineage.network ASC NULLS FIRST, train_job.update_time DESC, train_job.train_id ASC, train_job.base_dir_id ASC;

SELECT count(*) AS count_1
FROM lineage INDEXED BY ix_lineage_fields
WHERE CASE WHEN length(lineage.network) > 2000 THEN is_like_in_pieces(lower(lineage.network), ?) ELSE lower(lineage.network) LIKE ? ESCAPE '#' END = 1 OR ((EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND CASE WHEN (user_info.kind = ?) THEN user_info.text END IN (?))) IS NOT 1) IS NOT 1;

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, noted.tag, noted.remark, lineage.model_lineage
FROM train_job JOIN lineage ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation AS noted ON noted.base_dir_id = train_job.base_dir_id AND noted.train_id = train_job.train_id
WHERE train_job.id IN (SELECT anon_1.value
FROM json_each(?) AS anon_1) AND (train_job.base_dir_id NOT IN (SELECT base_dir.id
FROM base_dir
WHERE base_dir.leaving = 1));
