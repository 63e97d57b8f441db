"""Tools for administrators: read-only SQL, roles, client programs, statistics, partitions, Citus, health."""
