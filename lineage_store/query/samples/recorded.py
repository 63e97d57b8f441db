"""The samples of a tag in each log file, including samples that a newer file wrote again.

In: a job, a plugin, a tag. Out: one `Recorded` per log file, oldest first. MindInsight's sampling needs the samples in
the order in which they were recorded. For the curve of a tag, use `scalars` or `payloads`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from sqlalchemy import Connection

from lineage_store.plugins import SCALAR
from lineage_store.query.samples.payloads import PayloadSample, payloads_of
from lineage_store.query.samples.scalars import Scalars, read_series
from lineage_store.query.samples.series import Series, find_series

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recorded(Generic[T]):
    """The samples of a tag in one log file, ascending by step."""

    log_file: str
    file_time: int
    """The timestamp in its name, unix s."""
    samples: T


def recorded_scalars(connection: Connection, job_id: int, tag: str) -> list[Recorded[Scalars]]:
    """Return the samples of a scalar by log file. Raises SampleNotFoundError."""

    def read(series: Series) -> Scalars:
        return Scalars(*read_series(connection, series), series.thinned_count)

    return _recorded(connection, job_id, SCALAR, tag, read)


def recorded_payloads(
    connection: Connection, job: tuple[str, str], job_id: int, plugin: str, tag: str
) -> list[Recorded[list[PayloadSample]]]:
    """Return the payloads of a tag by log file; `job` is (base dir, train id). Raises SampleNotFoundError."""
    wanted = plugin, tag
    return _recorded(
        connection, job_id, plugin, tag, lambda series: payloads_of(connection, job, series, wanted)
    )


def _recorded(
    connection: Connection, job_id: int, plugin: str, tag: str, read: Callable[[Series], T]
) -> list[Recorded[T]]:
    found = find_series(connection, job_id, plugin, tag, None)
    return [
        Recorded(series.log_file, series.file_time, read(replace(series, superseded_from=None)))
        for series in found
    ]
