"""Log files: their formats and contents. Needs neither SQL nor an installed MindSpore.

`formats` is the table of log formats, through which all other packages read log files; `values` and `protobuf_columns`
define what every format decodes to; `tfrecord` splits bytes into checked frames and writes frames; `mindspore` has
MindSpore's file names, events, payloads and protobuf messages; `inspection` lists the parts of a log file, and
`payload_files` reads one payload.
"""
