"""Verify: log files are read once more, in the plainest way, and held against what the store says.

`claims` keeps what a file says, `walking` reads it, `comparing` finds the differences, `verifying` conducts.
"""
