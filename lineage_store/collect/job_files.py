"""Write all files of one recorder: summary file, lineage file, exported arrays.

In: batches, one at a time. Out: files. Promises: `write` and `close` never raise; values that cannot be written are
reported to the LostValues, and later ones are still tried. Protobuf is imported with the first batch. Does not know
where batches come from.
"""

from __future__ import annotations

import os
import platform
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from lineage_store.collect import from_mindspore
from lineage_store.collect.lost_values import LostValues
from lineage_store.collect.values import Batch
from lineage_store.collect.writing import FileRules, LogFile, free_second
from lineage_store.eventlog.mindspore.filenames import LINEAGE_SUFFIX, compose
from lineage_store.plugins import TENSOR

if TYPE_CHECKING:
    from lineage_store.collect.encoding import Export


class JobFiles:
    """The open files of a recorder."""

    def __init__(self, directory: Path, prefix: str, suffix: str, rules: FileRules, lost: LostValues) -> None:
        device, host = from_mindspore.device_number(), platform.node()

        def path_at(suffix: str, second: int) -> Path:
            return directory / compose(prefix, second, device, host, suffix)

        summary_at, lineage_at = partial(path_at, suffix), partial(path_at, LINEAGE_SUFFIX)
        second = free_second(lambda at: (summary_at(at), lineage_at(at), directory / f"export_{at}"))
        self.summary = LogFile(summary_at, second, rules, _version)
        self.lineage = LogFile(lineage_at, second, rules)
        self._exports, self._exported_mode = directory / f"export_{second}", rules.closed_file_mode
        self._lost = lost

    def write(self, batch: Batch) -> None:
        """Encode a batch and write it to the files."""
        try:
            self._write(batch)
        except Exception as error:  # noqa: BLE001 - the writer thread must go on: other threads wait for it
            self._lost.add("whole batches", error)

    def _write(self, batch: Batch) -> None:
        from lineage_store.collect.encoding import encode

        encoded = encode(batch)
        for what, error in encoded.failures:
            self._lost.add(f"values ({type(error).__name__})", error, what=what)
        for export in encoded.exports:
            self._save(export)
        self._append("summary events", self.summary, encoded.summary)
        self._append("lineage events", self.lineage, encoded.lineage)

    def close(self) -> None:
        """Close both log files, and log what could not be written."""
        for log_file in (self.summary, self.lineage):
            try:
                log_file.close()
            except OSError as error:
                self._lost.add("closing", error, what=f"the end of {log_file.path}")
        self._lost.tell_total()

    def _append(self, kind: str, log_file: LogFile, frames: list[bytes]) -> None:
        done, together = 0, len(frames)
        while done < len(frames):
            try:
                done += log_file.append(frames[done : done + together])
                together *= 2
            except OSError as error:  # a shorter frame may still fit, but each try on a full disk is slow
                self._lost.add(kind, error, what=f"an event in {log_file.path}")
                done, together = done + 1, 1

    def _save(self, export: Export) -> None:
        path = self._exports / TENSOR / f"{quote(export.tag, safe='')}_{export.step}.npy"
        unfinished = path.with_name(f".{os.getpid()}.npy")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            np.save(unfinished, export.values)
            unfinished.chmod(self._exported_mode)
            unfinished.replace(path)
        except OSError as error:
            self._lost.add("exported tensors", error, what=str(path))
            unfinished.unlink(missing_ok=True)


def _version() -> bytes:
    from lineage_store.collect.encoding import version_frame

    return version_frame(time.time())
