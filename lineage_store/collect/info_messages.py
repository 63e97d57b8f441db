"""Create the lineage messages for a script's parameters and metrics, and for how a training ended.

In: checked values, a script's metrics, the error that ended a training. Out: lineage messages, and entries that a
record writes. Promises: needs no MindSpore; protobuf is imported when the first message is created; only the class of
an error is recorded, never its message, which may quote secrets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lineage_store.collect import entries, user_values
from lineage_store.collect.arguments import type_name
from lineage_store.collect.entries import AddedValue
from lineage_store.collect.user_values import UserValue, UserValues
from lineage_store.fields import OUTCOME
from lineage_store.plugins import SCALAR
from lineage_store.states import Outcome


def user_defined_info(given: Mapping[str, UserValue]) -> Any:
    """Create a message with one entry per user-defined value."""
    from lineage_store.eventlog.mindspore.wire import lineage_pb2

    message = lineage_pb2.UserDefinedInfo()
    for key, value in given.items():
        entry = message.user_info.add()
        if isinstance(value, int):
            entry.map_int32[key] = value
        elif isinstance(value, float):
            entry.map_double[key] = value
        else:
            entry.map_str[key] = value
    return message


def ending(error: BaseException | None, last_step: int) -> UserValues:
    """Return the user-defined values that say how a training ended.

    `error` None: completed. An Exception: failed. Anything else, such as Ctrl-C or SystemExit: interrupted.
    """
    if error is None:
        return {OUTCOME: Outcome.COMPLETED.value, "end/last_step": last_step}
    outcome = Outcome.FAILED if isinstance(error, Exception) else Outcome.INTERRUPTED
    return {OUTCOME: outcome.value, "end/error_class": type_name(error), "end/last_step": last_step}


def parameter_entries(given: UserValues) -> Iterator[AddedValue]:
    """Yield the entry that a record writes for user-defined values; none if there are no values."""
    if given:
        yield entries.added_value("custom_lineage_data", "", user_defined_info(given))


def metric_entries(metrics: object, *, step: int | None, epoch: int | None) -> Iterator[AddedValue]:
    """Yield what a record writes for one evaluation: its results as lineage and, with a `step`, numbers as scalars.

    Raises LineageParamTypeError for anything but a dict.
    """
    from lineage_store.eventlog.mindspore.wire import lineage_pb2

    results = user_values.recordable("metrics", metrics, bits=64)
    if results:
        message = lineage_pb2.EvaluationLineage(metric=json.dumps(results), step=step, epoch=epoch)
        yield entries.added_value("eval_lineage", "", message)
    for name, value in results.items():
        if step is not None and not isinstance(value, str):
            yield entries.added_value(SCALAR, entries.tag_of(name), value)
