"""The process that follows base dirs until it is told to end."""
