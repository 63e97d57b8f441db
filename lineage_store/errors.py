"""The exceptions of the whole package, in one tree.

Every error says what was wrong, where, and what to do. A class's first docstring line is its default message;
`error_code` is MindInsight's public code (Appendix of its REST API), `exit_code` the program's exit code, `hint` the
next step for the user. `except LineageStoreError` catches each of them. The names and codes of MindInsight's public
exceptions are kept, so that old `except` clauses still work.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit code of the program; after a signal it is 128 plus the signal's number."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PARTLY_DONE = 3
    SCHEMA = 4
    """There is no store in the database, or its schema is too old or too new."""
    DATABASE = 5
    """The database cannot be reached, is locked, or is not there."""
    LED = 6
    """Another ingester holds the lease."""
    STANDSTILL = 7
    """A daemon made no progress and exited. Nothing is lost: the next one continues at the bookmarks."""


class Cause(StrEnum):
    """Why a database failed."""

    DOWN = "down"
    LOCKED = "locked"
    FULL = "full"
    READ_ONLY = "read-only"
    REFUSED = "refused"
    """It refuses the user or the password."""
    DENIED = "denied"
    """The user or role may not do that."""
    GONE = "gone"
    REPLACED = "replaced"
    CLOSED = "closed"
    """A SQLite store that only its user can open."""
    BUSY = "busy"
    """All connections of this process are in use."""
    CONFLICT = "conflict"
    """The replay of a standby cancelled the question."""
    TIMEOUT = "timeout"
    DAMAGED = "damaged"
    """What SQLite reads is no sound SQLite file."""
    FAILED = "failed"


class LineageStoreError(Exception):
    """An operation of the lineage store failed."""

    error_code: ClassVar[str] = "50540000"
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").splitlines()[0]
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


MindInsightException = LineageStoreError
"""The root of MindInsight's exceptions."""


# --- MindInsight's lineage errors ---------------------------------------------------------------------------------


class LineageParamTypeError(LineageStoreError, TypeError):
    """A parameter has the wrong type."""

    error_code = "50542080"
    exit_code = ExitCode.USAGE


class LineageParamValueError(LineageStoreError, ValueError):
    """A parameter has a value that is not allowed."""

    error_code = "50542081"
    exit_code = ExitCode.USAGE


class LineageParamMissingError(LineageStoreError):
    """A required parameter is missing."""

    error_code = "50542082"
    exit_code = ExitCode.USAGE


class LineageParamSummaryRecordError(LineageParamTypeError):
    """The summary record is neither a SummaryRecord nor a directory."""

    error_code = "50542083"


class LineageParamRaiseExceptionError(LineageParamTypeError):
    """The parameter raise_exception is neither True nor False."""

    error_code = "50542084"


class LineageParamRunContextError(LineageStoreError):
    """The run context of a callback is not usable."""

    error_code = "50542180"


class LineageGetModelFileError(LineageStoreError):
    """The model file of a training cannot be read."""

    error_code = "50542190"


class LineageLogError(LineageStoreError):
    """A lineage event cannot be written."""

    error_code = "50542191"


class LineageQuerySummaryDataError(LineageStoreError):
    """The lineage store cannot answer: the database failed."""

    error_code = "50542215"


class LineageFileNotFoundError(LineageStoreError):
    """There is no log file, neither in the directory nor in the store."""

    error_code = "50542216"


class LineageParamSummaryPathError(LineageStoreError):
    """The path is neither a directory nor a train job that the store knows."""

    error_code = "50542217"
    exit_code = ExitCode.USAGE


class LineageSearchConditionParamError(LineageStoreError):
    """The search condition is refused."""

    error_code = "50542218"
    exit_code = ExitCode.USAGE


# --- our own ------------------------------------------------------------------------------------------------------


class TrainJobNotFoundError(LineageStoreError):
    """The store knows no such train job."""

    error_code = "50545005"


class SampleNotFoundError(LineageStoreError):
    """The train job has no such tag."""

    error_code = "5054500E"


class UnknownFormatError(LineageStoreError):
    """A log file is of a format that this version does not know."""


class PayloadUnavailableError(LineageStoreError):
    """The log file that holds this payload is gone or has changed."""


class PayloadTooCostlyError(PayloadUnavailableError):
    """Reading this payload takes more memory or time than is allowed."""

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, plugin: str = "", reason: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.plugin, self.reason = plugin, reason
        """What it is, and how reading it ended, in a sentence that names no file."""


class ConfigError(LineageStoreError):
    """A setting is not usable."""

    error_code = "5054000D"
    exit_code = ExitCode.USAGE


class UnsafeStoreLocationError(LineageStoreError):
    """SQLite cannot be used safely on this filesystem."""

    exit_code = ExitCode.USAGE


class NotAStoreError(LineageStoreError):
    """The database belongs to another application."""

    exit_code = ExitCode.SCHEMA


class UnfinishedCopyError(NotAStoreError):
    """The database holds an unfinished copy of a store."""


class AlteredStoreError(LineageStoreError):
    """The store holds objects that act on it and are not its own, or its own were changed."""

    exit_code = ExitCode.SCHEMA

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, altered: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.altered = altered
        """What is not as it should be: each object by its kind and name, in words."""


class SchemaTooOldError(LineageStoreError):
    """The database has an older schema than this version needs."""

    exit_code = ExitCode.SCHEMA


class SchemaTooNewError(LineageStoreError):
    """The database was written by a newer version of lineage_store."""

    exit_code = ExitCode.SCHEMA


class DatabaseUnavailableError(LineageQuerySummaryDataError):
    """The database is unreachable or locked."""

    exit_code = ExitCode.DATABASE

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, cause: Cause = Cause.FAILED
    ) -> None:
        super().__init__(message, hint=hint)
        self.cause = cause


class PermissionDeniedError(DatabaseUnavailableError):
    """This role or user may not do that in the database."""

    exit_code = ExitCode.FAILED


class ReadOnlyStoreError(LineageStoreError):
    """The store is open read-only."""


class ClockDisagreesError(LineageStoreError):
    """The clock disagrees with the last write of the store: nothing is removed by age."""


class LeaseHeldError(LineageStoreError):
    """Another ingester holds the lease of this base dir."""

    exit_code = ExitCode.LED

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, holder: str = "", ends_in_s: float = 0.0
    ) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder
        """The ingester that holds the lease; empty if only its transaction blocks this one."""
        self.ends_in_s = ends_in_s
        """Seconds until its lease expires unless renewed; 0 if only its transaction blocks this one."""


class LeaseLostError(LineageStoreError):
    """This ingester has lost the lease of the base dir; its write was refused."""

    exit_code = ExitCode.LED


class BookmarkMovedError(LineageStoreError):
    """Another write moved a bookmark first; nothing was written."""


class RequestRefusedError(LineageStoreError):
    """The server refuses this request."""

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, reason: str = "request_refused"
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        """Short name of what is wrong with the request: a row of `server/refusals.py`."""


class InvalidTagError(LineageParamTypeError, LineageParamValueError):
    """The name of a value is not usable; MindSpore documents a TypeError and raises a ValueError."""


class RecorderInUseError(LineageStoreError, RuntimeError):
    """A process has one open SummaryRecord at a time."""


class LogDirectoryError(LineageStoreError, OSError):
    """Log files cannot be written into this directory."""
