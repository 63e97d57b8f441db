"""Everything that one recorder leaves in its directory: summary file, lineage file, exported arrays.

In: encoded batches, from one thread. Out: files. Promises: never raises; what is not written is told to the Losses,
and what comes after it is tried again. It does not know where batches come from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from lineage_store.collect.encoding import Encoded, Export
from lineage_store.collect.losses import Losses
from lineage_store.collect.writing import LogFile


class JobFiles:
    """The open files of a recorder."""

    def __init__(
        self, summary: LogFile, lineage: LogFile, exports: Path, exported_mode: int, losses: Losses
    ) -> None:
        self.summary, self.lineage = summary, lineage
        self._exports, self._exported_mode, self._losses = exports, exported_mode, losses

    def write(self, batches: Sequence[Encoded]) -> None:
        """Write all of it, in this order within each file."""
        try:
            self._write(batches)
        except Exception as error:  # noqa: BLE001 - the thread must live on: others wait for it
            self._losses.add("whole batches", error, count=len(batches))

    def _write(self, batches: Sequence[Encoded]) -> None:
        for batch in batches:
            for what, error in batch.failures:
                self._losses.add(f"values ({type(error).__name__})", error, what=what)
            for export in batch.exports:
                self._save(export)
        self._append("summary events", self.summary, [frame for batch in batches for frame in batch.summary])
        self._append("lineage events", self.lineage, [frame for batch in batches for frame in batch.lineage])

    def close(self) -> None:
        """Close both log files, and say what they lack."""
        for log_file in (self.summary, self.lineage):
            try:
                log_file.close()
            except OSError as error:
                self._losses.add("closing", error, what=f"the end of {log_file.path}")
        self._losses.tell_total()

    def _append(self, kind: str, log_file: LogFile, frames: list[bytes]) -> None:
        done, together = 0, len(frames)
        while done < len(frames):
            try:
                done += log_file.append(frames[done : done + together])
                together *= 2
            except OSError as error:  # a shorter frame may still fit, but on a full disk each try costs
                self._losses.add(kind, error, what=f"an event in {log_file.path}")
                done, together = done + 1, 1

    def _save(self, export: Export) -> None:
        path = self._exports / "tensor" / f"{quote(export.tag, safe='')}_{export.step}.npy"
        unfinished = path.with_name(f".{os.getpid()}.npy")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            np.save(unfinished, export.values)
            unfinished.chmod(self._exported_mode)
            unfinished.replace(path)
        except OSError as error:
            self._losses.add("exported tensors", error, what=str(path))
            unfinished.unlink(missing_ok=True)
