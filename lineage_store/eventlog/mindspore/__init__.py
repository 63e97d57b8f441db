"""What MindSpore puts into records: file names, wire messages, events, lineage, payloads and graphs."""
