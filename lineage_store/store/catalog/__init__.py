"""Queries of ingest and operations: what the store knows of base dirs, jobs and log files."""
