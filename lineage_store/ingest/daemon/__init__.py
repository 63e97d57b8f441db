"""The process that follows base dirs until it is asked to end."""
