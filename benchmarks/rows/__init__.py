"""The rows of the table, a module for each kind: each lists its `ROWS`."""
