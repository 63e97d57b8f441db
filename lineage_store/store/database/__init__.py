"""SQLite and PostgreSQL: connections, sessions, failures, and the statements that differ between the two."""
