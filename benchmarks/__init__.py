"""Benchmarks of lineage_store: ratios against baselines that are timed in the same run.

`make bench` runs every row of the table, `make bench ARGS="c1 c6"` some; `--quick` uses small sizes while developing.
Every row uses the public API on log files that are generated from fixed seeds or copied from real trainings. Rows about
other products run in environments of their own (`make bench-peers`). Nothing here is a test.
"""
