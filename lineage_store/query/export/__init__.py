"""Export of views, statements and run events: what is exported, in which format, into which files."""
