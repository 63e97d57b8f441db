"""SQLite and PostgreSQL: connections, sessions, failures, and the statements that each spells in its own way."""
