SELECT create_distributed_table('scalar_sample', 'job_id', colocate_with => 'none', shard_count => 32);
SELECT create_distributed_table('payload_sample', 'job_id', colocate_with => 'scalar_sample');
-- in transactions of their own;
SELECT truncate_local_data_after_distributing_table('payload_sample');
SELECT truncate_local_data_after_distributing_table('scalar_sample');
