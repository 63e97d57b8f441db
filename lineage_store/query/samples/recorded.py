"""The samples of a tag in each log file, including samples that a newer file wrote again.

In: a job, a plugin, a tag. Out: one `Recorded` per log file, oldest first; of payloads, those that a caller chooses by
their steps. MindInsight's sampling needs the samples in the order in which they were recorded. For the curve of a tag,
use `scalars` or `payloads`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from lineage_store.plugins import SCALAR
from lineage_store.query.samples.payloads import PayloadSample, payloads_at
from lineage_store.query.samples.scalars import ROWS_AT_A_TIME, Scalars, read_series
from lineage_store.query.samples.series import Series, find_series
from lineage_store.store.schema.tables import payload_sample

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recorded(Generic[T]):
    """The samples of a tag in one log file, ascending by step."""

    log_file: str
    file_time: int
    """The timestamp in its name, unix s."""
    samples: T


Choose = Callable[[Sequence[Recorded[NDArray[np.int64]]]], Sequence[tuple[int, int]]]
"""Names samples by the number of their part and their index in it; the parts have the steps, oldest file first."""


def recorded_scalars(connection: Connection, job_id: int, tag: str) -> list[Recorded[Scalars]]:
    """Return the samples of a scalar by log file. Raises SampleNotFoundError."""
    found = find_series(connection, job_id, SCALAR, tag, None)
    return [
        Recorded(of.log_file, of.file_time, Scalars(*read_series(connection, whole), of.thinned_count))
        for of in found
        for whole in [replace(of, superseded_from=None)]
    ]


def recorded_payloads(
    connection: Connection,
    job: tuple[str, str],
    job_id: int,
    wanted: tuple[str, str],
    choose: Choose,
    most_long: int | None = None,
) -> list[PayloadSample]:
    """Return those payloads of a tag that `choose` names; `job` is (base dir, train id), `wanted` (plugin, tag).

    Of all others only the step is read. `most_long`: payloads whose first dimension is greater are not among them.

    Raises SampleNotFoundError.
    """
    found = find_series(connection, job_id, *wanted, None)
    parts = [Recorded(of.log_file, of.file_time, _steps(connection, of, most_long)) for of in found]
    chosen = choose(parts)
    of_part = {number: [index for part, index in chosen if part == number] for number, _ in chosen}
    samples = {
        (number, sample.step): sample
        for number, indices in of_part.items()
        for sample in payloads_at(
            connection, job, found[number], wanted, parts[number].samples[indices].tolist()
        )
    }
    return [samples[part, int(parts[part].samples[index])] for part, index in chosen]


def _steps(connection: Connection, of_file: Series, most_long: int | None) -> NDArray[np.int64]:
    columns = (
        [payload_sample.c.step] if most_long is None else [payload_sample.c.step, payload_sample.c.shape]
    )
    statement = select(*columns).where(of_file.of(payload_sample)).order_by(payload_sample.c.step)
    with connection.execute(statement, execution_options={"yield_per": ROWS_AT_A_TIME}) as rows:
        parts = [
            np.array([step for step, *shape in some if _is_short(shape, most_long)], np.int64)
            for some in rows.partitions()
        ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _is_short(shape: Sequence[str | None], most: int | None) -> bool:
    if most is None or not shape or shape[0] is None:
        return True
    first = (json.loads(shape[0]) or [0])[0]
    return bool(first <= most)
