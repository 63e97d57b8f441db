"""Tools for administrators of a store: read-only SQL, roles, snapshots, statistics, partitions, Citus, health."""
