"""Log files into the database: discovery, comparison, bounded reads, rows, one write transaction after the other."""
