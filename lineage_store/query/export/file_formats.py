"""The formats of exported files, a row each: their writers write batches into an open file.

In: a binary file, the source's columns, batches of rows or of Arrow columns, as the format takes them. Out: bytes.
Promises: no CSV cell starts a formula in a spreadsheet; JSON lines spell NaN and infinities as `for_json` does;
Parquet and Arrow keep them as floats. csv, jsonl and openlineage need no library.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from lineage_store.errors import LineageParamValueError, LineageStoreError
from lineage_store.plain_values import csv_text, for_csv, for_json, rows_for_csv
from lineage_store.texts import meant

_BY_SAMPLE = ("step", "wall_at", "elapsed_s", "value")
"""Columns whose values hardly repeat: dictionary encoding would not make them smaller."""


class Writer(Protocol):
    """Writes one file."""

    def write(self, batch: Any) -> None:
        """Append a batch."""

    def close(self) -> None:
        """Write the end of the file; the file object itself stays open."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    suffix: str
    takes_arrow: bool
    open: Callable[[BinaryIO, Any], Writer]
    """Takes a file and the columns (names, or an Arrow schema)."""


class _Csv:
    def __init__(self, file: BinaryIO, columns: Any) -> None:
        self._file = file
        file.write(csv_text([[for_csv(name) for name in columns]]).encode())

    def write(self, batch: Any) -> None:
        self._file.write(csv_text(list(rows_for_csv(batch))).encode())

    def close(self) -> None:
        pass


class _JsonLines:
    def __init__(self, file: BinaryIO, columns: Any) -> None:
        self._file, self._columns = file, columns

    def write(self, batch: Any) -> None:
        items = (dict(zip(self._columns, map(for_json, row), strict=True)) for row in batch)
        self._file.write("".join(f"{json.dumps(item, allow_nan=False)}\n" for item in items).encode())

    def close(self) -> None:
        pass


class _Events(_JsonLines):
    def write(self, batch: Any) -> None:
        self._file.write("".join(f"{json.dumps(for_json(event))}\n" for event in batch).encode())


class _Parquet:
    def __init__(self, file: BinaryIO, schema: Any) -> None:
        self._file, self._schema, self._writer = file, schema, None

    def write(self, batch: Any) -> None:
        self._opened(batch.schema).write_batch(batch)

    def close(self) -> None:
        self._opened(self._schema).close()

    def _opened(self, schema: Any) -> Any:
        from pyarrow.parquet import ParquetWriter

        if self._writer is None:  # the schema comes from the first batch, whose texts may be a dictionary
            repeated = [name for name in schema.names if name not in _BY_SAMPLE]
            self._writer = ParquetWriter(self._file, schema, use_dictionary=repeated)
        return self._writer


class _Arrow:
    """Writes Arrow's stream format, which serves both files and streams."""

    def __init__(self, file: BinaryIO, schema: Any) -> None:
        from pyarrow import ipc

        self._schema, self._writer = schema, ipc.new_stream(file, schema)

    def write(self, batch: Any) -> None:
        import pyarrow as pa

        plain = [
            each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in batch.columns
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(plain, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


FORMATS = {
    each.name: each
    for each in (
        Format("parquet", "parquet", True, _Parquet),
        Format("arrow", "arrows", True, _Arrow),
        Format("csv", "csv", False, _Csv),
        Format("jsonl", "jsonl", False, _JsonLines),
        Format("openlineage", "jsonl", False, _Events),
    )
}


def find_format(name: str) -> Format:
    """Return a format by name. Raises LineageParamValueError for an unknown one, LineageStoreError without pyarrow."""
    if name not in FORMATS:
        guess = meant(name, FORMATS)
        raise LineageParamValueError(f"format = {name!r} is none of {', '.join(FORMATS)}. {guess}".rstrip())
    found = FORMATS[name]
    if found.takes_arrow:
        try:
            importlib.import_module("pyarrow")
        except ImportError as error:
            raise LineageStoreError(
                f"The format {name} needs the package pyarrow, which cannot be imported: {error}.",
                hint="Run: pip install 'lineage-store[export]', or export csv or jsonl.",
            ) from error
    return found
