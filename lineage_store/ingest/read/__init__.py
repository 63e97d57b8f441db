"""Bytes of known log files, read in bounded chunks, in this process or in one of its own."""
