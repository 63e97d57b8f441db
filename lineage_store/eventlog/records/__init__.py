"""The record format that log files share with TFRecord: a length, a payload, and a checksum of each. Knows no event."""
