"""What those who administer a store need: SQL that can only read, roles, snapshots, statistics, health."""
