"""Check the arguments of recorders and callbacks.

In: what a script passes. Out: the checked values. Promises: an unusable argument is refused with its name, its value
and what would fit, by an error that is a subclass of the one that MindSpore raises.
"""

from __future__ import annotations

import logging
import operator
import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, get_args

from lineage_store.collect import from_mindspore
from lineage_store.errors import LineageParamTypeError, LineageParamValueError, LogDirectoryError
from lineage_store.eventlog.mindspore import filenames
from lineage_store.plain_values import LARGEST_INTEGER, LEAST_INTEGER

log = logging.getLogger(__name__)

NUM_PROCESS = 32
Mode = Literal["train", "eval"]
Arguments = ParamSpec("Arguments")

_NAME_PART = re.compile(r"\w[0-9a-zA-Z_.]*", re.ASCII)
_EXPORT_FORMATS = ("npy", None)


def in_mindspore_order(construct: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Decorate a constructor to accept also MindSpore 2.10's order, whose fourth argument is num_process, an int."""

    @wraps(construct)
    def constructor(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        before, after = args[:4], args[4:]  # the recorder is the first of args
        if after and isinstance(after[0], int) and not isinstance(after[0], bool):
            construct(*before, *after[1:], **kwargs, num_process=after[0])  # type: ignore[arg-type]
        else:
            construct(*args, **kwargs)

    return constructor


def require_type(name: str, value: object, *types: type) -> None:
    """Raise LineageParamTypeError unless the value has one of the types; a bool does not count as an int."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        expected = " or ".join("None" if type_ is type(None) else type_.__name__ for type_ in types)
        raise LineageParamTypeError(f"{name} must be {expected}, not {value!r} ({type_name(value)}).")


def type_name(value: object) -> str:
    """Return the name of a value's type, with its module if it is no builtin: values of two types may print alike."""
    type_ = type(value)
    return type_.__name__ if type_.__module__ == "builtins" else f"{type_.__module__}.{type_.__name__}"


def require_positive(name: str, value: object, *, optional: bool = False) -> None:
    """Raise unless the value is an int above 0, or None if it is optional."""
    require_type(name, value, int, *([type(None)] if optional else []))
    if isinstance(value, int) and value <= 0:
        raise LineageParamValueError(f"{name} must be greater than 0, not {value}.")


def check_names(file_prefix: object, file_suffix: object) -> None:
    """Check the beginning and end of log file names: readers must recognise the files as summary files."""
    for argument, text in (("file_prefix", file_prefix), ("file_suffix", file_suffix)):
        if not isinstance(text, str):
            raise LineageParamTypeError(f"{argument} must be a str, but is {text!r}.")
        if not _NAME_PART.fullmatch(text):
            raise LineageParamValueError(
                f"{argument} must be of ASCII letters, digits, '_' and, after the first character, '.', "
                f"but is {text!r}."
            )
    if ending := filenames.companion_ending(str(file_suffix)):
        raise LineageParamValueError(
            f"file_suffix must not end in {ending!r}, but is {file_suffix!r}: readers take such files for backups, "
            "checksums or packed copies that lie beside a log file, and leave them out. Choose an ending such as '_a'."
        )
    name = filenames.compose(str(file_prefix), 0, 0, "host", str(file_suffix))
    read_as = filenames.parse_name(name)
    if read_as is None or read_as.kind != "summary" or read_as.timestamp != 0:
        raise LineageParamValueError(
            f"The prefix {file_prefix!r} and the suffix {file_suffix!r} make names like {name}, "
            "which readers do not recognise as a summary file."
        )


def check_size(max_file_size: object) -> None:
    """Check a size in bytes, or None. A size below 0 means no limit and is logged as a warning."""
    if max_file_size is None:
        return
    if not isinstance(max_file_size, int) or isinstance(max_file_size, bool):
        raise LineageParamTypeError(f"max_file_size must be an int or None, but is {max_file_size!r}.")
    if max_file_size < 0:
        log.warning("max_file_size is %d, which is below 0: files have no limit.", max_file_size)


def check_network(argument: str, network: object) -> None:
    """Check that `network` is a MindSpore Cell or None."""
    if network is not None and not from_mindspore.is_cell(network):
        raise LineageParamTypeError(
            f"{argument} must be a MindSpore Cell or None, but is a {type(network).__name__}."
        )


def exports_tensors(export_options: object) -> bool:
    """Check `export_options`; return whether tensors are also saved in files of their own."""
    if export_options is None:
        return False
    if not isinstance(export_options, Mapping):
        raise LineageParamTypeError(f"export_options must be a dict or None, but is {export_options!r}.")
    for option, value in export_options.items():
        if not isinstance(option, str) or not isinstance(value, str | None):
            raise LineageParamTypeError(
                f"export_options must map a str to a str or None, but has {option!r}: {value!r}."
            )
        if option != "tensor_format" or value not in _EXPORT_FORMATS:
            raise LineageParamValueError(
                f"export_options can be {{'tensor_format': 'npy'}} (or None), but has {option!r}: {value!r}."
            )
    return export_options.get("tensor_format") == "npy"


def check_mode(mode: object) -> None:
    """Check that `mode` is "train" or "eval"."""
    if mode not in get_args(Mode):
        raise LineageParamValueError(f"The mode must be 'train' or 'eval', but is {mode!r}.")


def checked_step(step: Any, argument: str = "step") -> int:
    """Return a step or epoch as an int of at most 64 bits; numpy's integers are accepted, booleans are not."""
    if isinstance(step, bool) or not hasattr(step, "__index__"):
        raise LineageParamTypeError(f"{argument} must be an int, but is {step!r}.")
    number = operator.index(step)
    if not LEAST_INTEGER <= number <= LARGEST_INTEGER:
        raise LineageParamValueError(f"{argument} must fit into 64 bits, but is {number}.")
    return number


def made_directory(argument: str, path: object) -> Path:
    """Return the real path of a directory; make it if it is missing, for its owner only, as MindSpore does."""
    if not isinstance(path, str | os.PathLike) or not isinstance(text := os.fspath(path), str):
        raise LineageParamTypeError(f"{argument} must be a str or a path, but is {path!r}.")
    if not text.strip() or "\0" in text or not _can_be_encoded(text):
        raise LineageParamValueError(f"{argument} must name a directory, but is {text!r}.")
    directory = Path(os.path.realpath(text))
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LogDirectoryError(f"{argument} {str(directory)!r} cannot be made: {error.strerror}.") from error
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        raise LogDirectoryError(f"{argument} {str(directory)!r} cannot be written to.")
    return directory


def _can_be_encoded(path: str) -> bool:
    """Whether a file can have this path: a surrogate that stands for no byte names nothing."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True
