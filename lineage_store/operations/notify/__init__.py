"""Notify a webhook or a command of events: which events, to whom, and which were sent already."""
