"""The record format of log files, the same as TFRecord's: a length and a payload, each with a checksum."""
