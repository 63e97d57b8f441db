"""The log-file format of MindSpore: file names, frames, events and payloads. Knows no SQL and no MindSpore.

`filenames` says which files count; `framing` cuts bytes into checked frames and writes them; `events` decodes
a frame into values; `payloads` reads histograms, images, tensors, graphs and landscapes back; `wire` has the
protobuf messages.
"""
