"""Telling a webhook or a command what happens: what, to whom, and what was told already."""
