"""The rows of the result table, one module per topic; each module lists its `ROWS`."""
