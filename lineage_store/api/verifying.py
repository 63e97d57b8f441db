"""Proving the store against the log files.

In: an open LineageStore. Out: a verdict per log file; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lineage_store.api import LineageStore, PathLike
from lineage_store.api.base_dirs import base_dirs
from lineage_store.operations.verify import verifying
from lineage_store.operations.verify.verifying import FileVerdict
from lineage_store.texts import to_stored


def verify(
    store: LineageStore,
    base_dir: PathLike | None = None,
    train_id: str | None = None,
    *,
    sample: int | None = None,
) -> Iterator[FileVerdict]:
    """Read the log files of one job, of a base dir, or of all, and compare; `sample` files of each base dir at random.

    Raises LineageParamSummaryPathError when the store does not know the base dir.
    """
    job = None if train_id is None else to_stored(train_id)
    for number, path in base_dirs(store, base_dir):
        yield from verifying.verify(
            store.engine, Path(path), number, store.settings, train_id=job, sample=sample
        )
