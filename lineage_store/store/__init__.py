"""The database: tables, views, connections, upgrades, leases. Does not know protobuf or log files."""
