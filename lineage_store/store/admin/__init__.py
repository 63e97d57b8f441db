"""Tools for administrators of a store: read-only SQL, roles, PostgreSQL's client programs, statistics, partitions, Citus, health."""
