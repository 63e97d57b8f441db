"""Verify the store: read log files again by the plain path, and compare them with the store.

`walking` reads a file, `claims` collects its samples, `comparing` finds the differences, `verifying` runs these steps.
"""
