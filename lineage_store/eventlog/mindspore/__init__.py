"""MindSpore's log format: file names, protobuf messages, events, lineage, payloads and graphs."""
