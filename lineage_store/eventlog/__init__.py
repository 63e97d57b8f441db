"""Log files: their formats, and what is in them. Knows no SQL and no MindSpore.

`formats` is the table of log formats, by which everybody else reads log files; `values` and `columns` are what any of
them decodes to; `records` cuts bytes into checked frames and writes them; `mindspore` has MindSpore's file names,
events, payloads and protobuf messages; `inspection` takes a log file apart.
"""
