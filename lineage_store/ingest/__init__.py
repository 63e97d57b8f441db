"""Files into the database: discovery, diff, bounded reads, rows, one write transaction after the other."""
