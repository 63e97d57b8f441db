"""The statements of a write transaction. Nothing here commits; `ingest.commit` puts the pieces in order."""
