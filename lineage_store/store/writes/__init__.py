"""The statements of write transactions. Nothing here commits; `ingest.commit` decides on the order."""
