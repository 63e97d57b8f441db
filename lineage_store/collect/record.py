"""SummaryRecord: a replacement of MindSpore's recorder, for scripts with or without MindSpore.

In: values that a script adds, and in train mode what its network's summary operators emitted. Out: log files in
`log_dir`. Promises: wrong arguments raise a clear error; other failures reach the training only if it asked for that
with `raise_exception`; files are closed when the recorder is garbage-collected and at exit; in a forked child a
recorder records nothing.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import Any, ParamSpec, Self, SupportsIndex, TypeVar

from lineage_store.collect import arguments, from_mindspore, info_messages, user_values
from lineage_store.collect.arguments import NUM_PROCESS, Mode
from lineage_store.collect.entries import (
    ARRAY_PLUGINS,
    AddedValue,
    RecordedStep,
    added_value,
    plugin_of,
    tag_of,
)
from lineage_store.collect.lost_values import LostValues
from lineage_store.collect.writing import CLOSED_FILE_MODE, FILE_MODE, FileRules, JobFiles, WriterThread
from lineage_store.errors import LineageParamValueError, RecorderInUseError
from lineage_store.plugins import GRAPH

log = logging.getLogger(__name__)

_LIGHT_BYTES = 1024
"""Smaller batches are written in the caller's thread, because passing them to another thread would cost more."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class SummaryRecord:
    """Records values and lineage of a training into log files, as mindspore.SummaryRecord does.

    A summary file and a lineage file are created in `log_dir` with the first event for them. Added values are pending
    until `record` is called. `record` waits until the previous call's values are in the files, then writes numbers at
    once and leaves arrays to a thread. A training that is killed loses at most its last record.

    A process can have only one open SummaryRecord, because all summary operators of its networks emit to one place.
    """

    exclusive = True
    """Whether this class takes what summary operators emit, so that only one exclusive recorder may be open."""
    _open: weakref.ref[SummaryRecord] | None = None

    @arguments.in_mindspore_order
    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        file_prefix: str = "events",
        file_suffix: str = "_MS",
        network: Any = None,
        max_file_size: int | None = None,
        raise_exception: bool = False,
        export_options: Mapping[str, str | None] | None = None,
        *,
        num_process: int = NUM_PROCESS,
        file_mode: int = FILE_MODE,
        closed_file_mode: int = CLOSED_FILE_MODE,
    ) -> None:
        """Check all arguments and make `log_dir` (mode 0700) if it is missing; write nothing yet.

        Args:
            log_dir: The directory of the log files.
            file_prefix: Beginning of file names: ASCII letters, digits, `_` and, after the first character, `.`.
            file_suffix: End of the summary file's name: the same characters, and not `_lineage`.
            network: A MindSpore Cell; the first `record` after its compilation writes its graph.
            max_file_size: Bytes of each file; a full file is closed and a new one begun. Below 0: no limit.
            raise_exception: Whether the next `record`, `flush` or `close` raises the error of a failed write.
            export_options: `{"tensor_format": "npy"}` also saves each tensor in a `.npy` file.
            num_process: Ignored; MindSpore's maximum of encoding processes. Here, one thread encodes.
            file_mode, closed_file_mode: The mode of a log file while it is open, and when it is closed.

        Raises:
            LineageParamTypeError, LineageParamValueError: An argument is not usable; a TypeError, a ValueError.
            LogDirectoryError: Files cannot be written into `log_dir`; an OSError.
            RecorderInUseError: This process has an open SummaryRecord; a RuntimeError.
        """
        self._refuse_second()
        arguments.check_names(file_prefix, file_suffix)
        arguments.check_size(max_file_size)
        arguments.require_type("raise_exception", raise_exception, bool)
        arguments.require_positive("num_process", num_process)
        arguments.check_network("network", network)
        self._exports = arguments.exports_tensors(export_options)
        self.network = network
        directory = arguments.made_directory("log_dir", log_dir)
        limit = None if max_file_size is None or max_file_size < 0 else max_file_size
        self._lost = LostValues(raising=raise_exception)
        rules = FileRules(limit, file_mode, closed_file_mode)
        self._files = JobFiles(directory, file_prefix, file_suffix, rules, self._lost)
        self._writer: WriterThread[RecordedStep] = WriterThread(self._files.write, self._files.close)
        self._dropped = weakref.finalize(self, self._writer.stop)
        self._dropped.atexit = False  # the writer closes itself at exit
        self._operators = from_mindspore.Operators()
        self._mode: Mode = "train"
        self._graph_written = False
        self._added: deque[AddedValue] = deque()
        self._closed = False
        self._logs, self._last_step = False, 0
        self._said_unusable = False
        if self.exclusive:
            self._operators.forget()
            SummaryRecord._open = weakref.ref(self)

    def __enter__(self) -> Self:
        """Raises LineageParamValueError, a ValueError, if the recorder is closed."""
        if self._closed:
            raise LineageParamValueError("This SummaryRecord is closed.", hint="Make a new one.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._logs and not self._closed:
            self._try("its end", self.log_params, info_messages.ending(error, self._last_step))
        self.close()

    @property
    def log_dir(self) -> str:
        """The full path of the summary file, as in MindSpore."""
        return str(self._files.summary.path)

    @property
    def full_file_name(self) -> str:
        """The same as `log_dir`, under its name in old MindSpore versions."""
        return self.log_dir

    def set_mode(self, mode: Mode) -> None:
        """Set the mode: "train" (the default), or "eval", in which `record` does not take what operators emitted."""
        arguments.check_mode(mode)
        self._mode = mode

    def add_value(self, plugin: str, name: str, value: Any) -> None:
        """Keep a value until `record` is called; arrays are copied.

        Args:
            plugin: "scalar", "image", "tensor" or "histogram": `value` is a tensor of MindSpore, PyTorch or JAX, a
                numpy array or a number; a scalar has one element, an image is a batch of shape (batch, 1 or 3
                channels, height, width). "train_lineage", "eval_lineage", "dataset_graph", "custom_lineage_data"
                or "landscape": a protobuf message TrainLineage, EvaluationLineage, DatasetGraph, UserDefinedInfo
                or LossLandscape. "graph": a ModelProto's bytes, or a GraphProto.
            name: The tag; ignored for lineage and graphs.

        Raises:
            InvalidTagError: `name` is no non-empty text; a TypeError and a ValueError.
            LineageParamTypeError: The plugin does not take values of this type; a TypeError.
            LineageParamValueError: There is no such plugin, or the value has the wrong shape; a ValueError.
        """
        plugin = plugin_of(plugin)
        tag = tag_of(name) if plugin in ARRAY_PLUGINS else str(name)
        entry = added_value(plugin, tag, value)
        if self._is_usable():
            self._added.append(entry)

    def record(
        self,
        step: SupportsIndex,
        train_network: Any = None,
        plugin_filter: Callable[[str], bool] | None = None,
    ) -> bool:
        """Write the added values, and what summary operators emitted, as the values of `step`.

        Args:
            step: The training step.
            train_network: A MindSpore Cell whose graph is written if `network` has none.
            plugin_filter: Returns whether the values of a plugin, given by name, are written; others are dropped.

        Returns:
            Whether the values were taken: False if the recorder is closed, or belongs to the parent process.
        """
        number = arguments.checked_step(step)
        arguments.check_network("train_network", train_network)
        if not self._is_usable():
            return False
        self._lost.raise_untold()
        if self.exclusive and self._mode == "train":
            self._try("what summary operators emitted", self._take_emitted, number)
        added = self._take_added()
        taken = [entries for plugin, entries in added.items() if not plugin_filter or plugin_filter(plugin)]
        if self.network is not None and not self._graph_written:
            taken.append(self._try("the graph", self._compiled_graph, train_network) or [])
        if any(taken):
            self._try("values", self._hand_over, number, tuple(chain.from_iterable(taken)))
        return True

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Write parameters now, as user-defined lineage; nested dicts get keys like `a/b`, lists become JSON.

        A value that cannot be written is left out with a warning. After this or `log_metrics`, a with statement ends
        by writing how the training ended: `end/outcome`, `end/error_class` and `end/last_step`.
        """
        self._log(info_messages.parameter_entries(user_values.recordable("params", params)))

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: SupportsIndex | None = None,
        epoch: SupportsIndex | None = None,
    ) -> None:
        """Write the results of one evaluation now, with the step and epoch of the training.

        With a step, numbers are also written as scalars of that step.
        """
        at = None if step is None else arguments.checked_step(step)
        within = None if epoch is None else arguments.checked_step(epoch, "epoch")
        self._log(info_messages.metric_entries(metrics, step=at, epoch=within), at or 0)

    def flush(self) -> None:
        """Wait until everything recorded so far is in the files, where other processes can read it."""
        if self._is_usable():
            self._writer.drain()
            self._lost.raise_untold()

    def close(self) -> None:
        """Write everything recorded, and give the files their closed mode; a second call does nothing."""
        self._closed = True
        self._dropped.detach()
        if self._writer.is_ours:
            self._writer.close()
            self._lost.raise_untold()

    def _refuse_second(self) -> None:
        other = SummaryRecord._open() if SummaryRecord._open is not None else None
        if self.exclusive and other is not None and not other._closed and other._writer.is_ours:
            raise RecorderInUseError(
                f"This process already has an open SummaryRecord, which writes {other.log_dir}.",
                hint="Close it first, or use it in a with statement.",
            )

    def _is_usable(self) -> bool:
        if self._writer.is_ours and not self._closed:
            return True
        if not self._said_unusable:
            self._said_unusable = True
            forked = f"it belongs to the parent process {self._writer.process}"
            reason = "it is closed" if self._closed else forked
            log.warning("The SummaryRecord of %s records nothing more: %s.", self.log_dir, reason)
        return False

    def _try(
        self, what: str, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result | None:
        try:
            return work(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - MindSpore's internals or a lack of threads must not end the training
            self._lost.add(what, error)
            return None

    def _take_added(self) -> dict[str, list[AddedValue]]:
        """Take the pending values, by plugin; each value is taken once, even if several threads add and record."""
        added: defaultdict[str, list[AddedValue]] = defaultdict(list)
        with suppress(IndexError):
            while True:
                entry = self._added.popleft()
                added[entry.plugin].append(entry)
        return added

    def _log(self, entries: Iterable[AddedValue], step: int = 0) -> None:
        taken = tuple(entries)
        if taken and self._is_usable():
            self._lost.raise_untold()
            self._logs = True
            self._try("what was logged", self._hand_over, step, taken)

    def _hand_over(self, step: int, entries: tuple[AddedValue, ...]) -> None:
        self._last_step = max(step, self._last_step)
        batch = RecordedStep(step, time.time(), entries, self._exports)
        self._writer.put(batch, light=sum(entry.array_bytes for entry in entries) < _LIGHT_BYTES)

    def _compiled_graph(self, train_network: Any) -> list[AddedValue]:
        """Return the entry of the network's graph; an empty list before the network is compiled."""
        graph = from_mindspore.compiled_graph(self.network)
        if graph is None and train_network is not None:
            graph = from_mindspore.compiled_graph(train_network)
        if graph is None:
            return []
        self._graph_written = True
        return [added_value(GRAPH, "", graph)]

    def _take_emitted(self, step: int) -> None:
        for plugin, tag, value in self._operators.drain(step):
            try:
                self.add_value(plugin, tag, value)
            except (TypeError, ValueError) as error:
                self._lost.add(f"values of the operator {tag!r}", error)
