"""Views, statements and lineage written as files for others: what is exported, in which format, into which files."""
