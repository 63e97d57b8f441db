"""Findings about log files: the problems that ingest stores, and those that `verify` reports."""

from __future__ import annotations

from lineage_store.finding_kinds.kind import NOTE, SOME_FILES, STANDSTILL, Kind

_DENIED = (
    "This process runs as {me}. Run the daemon as the training user, or make the file readable (MindSpore writes mode "
    "0600 and 0400)."
)
_UNREADABLE = {
    "denied": _DENIED,
    "link": "Links that stay inside the base dir are followed with follow_symlinks = true; no setting follows others.",
}
_TRIED_AGAIN = (
    "It is tried again, at the latest every finished_interval_s; look at the filesystem if it stays."
)
_READ_ON = "Nothing to do: the rest of the file was read. Compare it with a copy if one exists."
_NOT_LISTED = (
    "See those that are listed. The view v_log_file has every log file of the job: `state`, `last_problem`, "
    "`quarantined_bytes`."
)
_RAISE = "The log file keeps it. Raise that setting and run `lineage-store reingest`, if it is meant."

LOG_FILES = (
    Kind(
        "unreadable_file",
        SOME_FILES,
        "{reason}",
        _TRIED_AGAIN,
        heading="Unreadable files",
        remedies=_UNREADABLE,
    ),
    Kind(
        "unreadable_path",
        SOME_FILES,
        "{reason}",
        _TRIED_AGAIN,
        heading="Unreadable directories or entries",
        remedies=_UNREADABLE,
    ),
    Kind(
        "poisonous_file",
        SOME_FILES,
        "{reason} Times in a row: {times}.",
        "It is left alone from now on; the other files go on. `lineage-store inspect` shows what is in it, "
        "`lineage-store retry` has it tried again, with reading_deadline_s or reading_memory_bytes raised if those "
        "were too little.",
        heading="Files whose reading failed the reader",
        remedies={"again": "It is tried again, {left} more times; the other files go on."},
    ),
    Kind(
        "riddled_file",
        SOME_FILES,
        "More than {most:,} places between the bytes {start:,} and {end:,} hold no frame or no event.",
        "What is before them is in the store; the rest is left alone. `lineage-store inspect` shows what is in it, "
        "`lineage-store retry` reads on, with most_damages raised if that was too little.",
        heading="Files with damage everywhere",
    ),
    Kind(
        "torn_file",
        SOME_FILES,
        "Its writer has finished in the middle of a frame: the last {pending} bytes are lost.",
        "Nothing to do: its complete frames are in the store.",
        heading="Files that end in the middle of a frame",
    ),
    Kind(
        "suspect_bytes",
        SOME_FILES,
        "At byte {position}: {reason}.",
        "Wait: it is read again until it makes sense, and passed over, with a note, after suspect_grace_s. "
        "`lineage-store inspect` shows what is there.",
        heading="Files with bytes that make no frame",
    ),
    Kind(
        "missing_file",
        NOTE,
        "It is no longer on disk; what was read of it is kept.",
        "If it was moved or the share is unmounted, bring it back; otherwise nothing to do.",
    ),
    Kind(
        "copied_file",
        NOTE,
        "Every byte of it is in {other} too, so it is a copy: that file counts, and this one does not.",
        "Nothing to do. It counts as soon as the other one is gone, or it has more than the other one.",
        heading="Copies of log files in their jobs' directories",
    ),
    Kind(
        "link_in_place",
        NOTE,
        "{link} is a symbolic link now, which is not followed; what was read before it was put there is kept.",
        "If somebody moved the original, have it put back, or make a base dir of the place where it is now.",
    ),
    Kind(
        "damaged_bytes", NOTE, "No frame: {reason}.", _READ_ON, gives_up_bytes=True, ranged=True, joins=True
    ),
    Kind(
        "undecodable_event",
        NOTE,
        "The frame holds no readable event: {reason}",
        _READ_ON,
        gives_up_bytes=True,
        ranged=True,
    ),
    Kind(
        "oversized_event",
        NOTE,
        "An event is left out: {reason}.",
        _RAISE,
        heading="Events beyond a bound of the settings",
        gives_up_bytes=True,
        ranged=True,
    ),
    Kind(
        "beyond_bounds",
        NOTE,
        "Not all that these bytes hold is in the store: {reason}.",
        _RAISE,
        heading="Jobs beyond a bound of the settings",
        ranged=True,
    ),
    Kind(
        "unreadable_metric",
        NOTE,
        "The metrics of an evaluation cannot be read: {reason}",
        "The evaluation counts without metrics. Record metrics that are a JSON object.",
        ranged=True,
    ),
    Kind(
        "more_problems",
        SOME_FILES,
        "{more:,} more problems of its log files are not listed.",
        _NOT_LISTED,
        heading="Problems of jobs with too many to list",
    ),
    Kind(
        "more_notes",
        NOTE,
        "{more:,} more notes about its log files are not listed.",
        _NOT_LISTED,
        heading="Notes about jobs with too many to list",
    ),
    Kind(
        "more_paths",
        SOME_FILES,
        "{more:,} directories or entries, such as this one, could not be looked at and are not listed.",
        "See the problems that are listed; what they have in common may be true of these.",
        heading="Directories or entries too many to list",
    ),
)
"""Problems that ingest stores about log files and the directories that lead to them."""

PROOFS = (
    Kind(
        "difference", STANDSTILL, "{difference}", "`lineage-store reingest {directory}` reads the job anew."
    ),
    Kind(
        "unread_rewrite",
        STANDSTILL,
        "The file is not the one that was read: it was rewritten.",
        "`lineage-store ingest` reads it anew.",
    ),
    Kind(
        "unverified_file",
        SOME_FILES,
        "It could not be verified: {reason}",
        "Verify it again; it is no worse for that.",
    ),
)
"""What `verify` reports about a log file, beside the problems that make it unreadable."""
