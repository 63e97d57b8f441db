"""What the store knows of base dirs, jobs and log files: the questions that ingest and operations ask."""
