"""The database: tables, views, connections, upgrades. Knows no protobuf and no log file."""
