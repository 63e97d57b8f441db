SELECT lineage.job_id
FROM lineage JOIN train_job ON train_job.id = lineage.job_id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id
WHERE train_job.base_dir_id IN (?) AND (lower(lineage.network) LIKE ? ESCAPE '#' OR ((EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND user_info.name = ? AND CASE WHEN (user_info.kind = ?) THEN user_info.text END IN (?))) IS NOT 1) IS NOT 1) ORDER BY CASE coalesce(lineage.loss_kind, ?) WHEN ? THEN ? WHEN ? THEN ? WHEN ? THEN ? WHEN ? THEN ? ELSE ? END ASC NULLS FIRST, lineage.loss ASC NULLS FIRST, annotation.tag DESC NULLS LAST, lineage.network ASC NULLS FIRST, train_job.update_time DESC, train_job.train_id, train_job.base_dir_id;

SELECT count(*) AS count_1
FROM lineage
WHERE lower(lineage.network) LIKE ? ESCAPE '#' OR ((EXISTS (SELECT 1
FROM user_info
WHERE user_info.job_id = lineage.job_id AND user_info.name_key = ? AND user_info.name = ? AND CASE WHEN (user_info.kind = ?) THEN user_info.text END IN (?))) IS NOT 1) IS NOT 1;

SELECT train_job.id, train_job.base_dir_id, train_job.train_id, lineage.model_lineage, NULL AS dataset_graph, annotation.tag, annotation.remark
FROM train_job JOIN lineage ON lineage.job_id = train_job.id LEFT OUTER JOIN annotation ON annotation.base_dir_id = train_job.base_dir_id AND annotation.train_id = train_job.train_id
WHERE train_job.id IN (?, ?);
