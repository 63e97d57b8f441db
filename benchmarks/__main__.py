"""`python -m benchmarks [row …] [--quick] [--long] [--peers] [--list]`: run rows, print the table, write RESULTS.md."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import results
from benchmarks.databases import LIFETIME, postgresql_settings
from benchmarks.measuring import QUICK, Row, Sizes
from benchmarks.rows import (
    backlog,
    collect,
    cookbook,
    exporting,
    footprint,
    growth,
    ingest,
    keeping,
    limits,
    live,
    load,
    page,
    peers,
    polling,
    query,
    serving,
    shards,
)

ROWS: Sequence[Row] = [
    *ingest.ROWS,
    *limits.ROWS,
    *footprint.ROWS,
    *growth.ROWS,
    *polling.ROWS,
    *live.ROWS,
    *backlog.ROWS,
    *shards.ROWS,
    *query.ROWS,
    *cookbook.ROWS,
    *exporting.ROWS,
    *keeping.ROWS,
    *serving.ROWS,
    *page.ROWS,
    *load.ROWS,
    *peers.ROWS,
    *collect.ROWS,
]


def main() -> None:
    arguments = _arguments()
    rows = _chosen(arguments)
    if arguments.list:
        print("\n".join(f"{row.name:30} {row.group:8} {row.what}" for row in rows))
        return
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.repetitions:
        sizes = replace(sizes, repetitions=arguments.repetitions)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that our servers and files are removed, too
    with LIFETIME:
        lines = [_measured(row, sizes, keep=not arguments.quick) for row in rows]
    print(results.text(lines))


def _measured(row: Row, sizes: Sizes, *, keep: bool) -> results.Line:
    """Run a row and return its line; save the line at once, so that an interrupted run loses at most one row."""
    print(f"{row.name}: {row.what} …", file=sys.stderr, flush=True)
    line = results.line(row, row.measure(sizes))
    if keep:
        results.keep([line], [each.name for each in ROWS], {"PostgreSQL": postgresql_settings()})
    return line


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=…", description="Ratios against baselines of the same run."
    )
    parser.add_argument(
        "rows",
        nargs="*",
        help="names, beginnings of names, or page: all that a browser does (none: the default group)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; RESULTS.md is left alone")
    parser.add_argument("--long", action="store_true", help="with the rows that take many minutes")
    parser.add_argument("--peers", action="store_true", help="the rows of the peers (see make bench-peers)")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("-n", type=int, dest="repetitions", help="runs of each row")
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> list[Row]:
    if arguments.rows:
        return [row for name in arguments.rows for row in _called(name)]
    if arguments.peers:
        return [row for row in ROWS if row.group == "peers"]
    groups = {"default", "long"} if arguments.long or arguments.list else {"default"}
    return [row for row in ROWS if row.group in groups or arguments.list]


def _called(name: str) -> list[Row]:
    """Return the row of that name, else the rows of that group, else the rows whose names begin with it."""
    exact = [row for row in ROWS if row.name == name] or [row for row in ROWS if row.group == name]
    found = exact or [row for row in ROWS if row.name.startswith(name)]
    return found or sys.exit(f"No row is called {name}; --list names them.")


if __name__ == "__main__":
    main()
