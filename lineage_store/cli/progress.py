"""Shows progress on stderr, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_store.api.reports import Progress


@contextmanager
def progress_bar(total_bytes: int, *, wanted: bool = True) -> Iterator[Callable[[Progress], None] | None]:
    """Show a progress bar for the length of the block; yield the function to update it, or None without a terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=max(total_bytes, 1), events=0)
        yield lambda progress: bar.update(task, completed=progress.bytes_read, events=progress.events)


@contextmanager
def working(what: str, *, wanted: bool = True) -> Iterator[Callable[[str], None]]:
    """Show `what` and the time it takes, for the length of the block; yield a function that adds how far it has come.

    Nothing is shown without a terminal.
    """
    if not (wanted and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)
        yield lambda far: bar.update(task, description=f"{what}: {far}")
