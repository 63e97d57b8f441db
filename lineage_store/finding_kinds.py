"""THE table of what can be found: for each kind how bad it is, what is said of it, and what to do.

One row per kind. Ingest stores problems by these names (`ingest_problem.kind`), every report takes its words from
here, `status --check` its exit code, and docs/faults.md its list. `findings.finding` fills in what stands in braces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; everything that can be read is read."""
    SOME_FILES = "some files"
    """Some log files cannot be read, the others are; or one of several daemons cannot go on, or the standby."""
    STANDSTILL = "standstill"
    """Nothing is read or written there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding."""

    name: str
    severity: Severity
    what: str
    remedy: str = ""
    """What to do; empty: nothing."""
    heading: str = ""
    """In few words, for a line that counts several or has little room."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """Other remedies, by the case in which they apply."""
    gives_up_bytes: bool = False
    """Whether its byte range was given up: those bytes are quarantined."""
    joins: bool = False
    """Whether ranges that meet are one, though words differ: the words of the first stand for all."""

    @property
    def title(self) -> str:
        """Its heading, or its name in plain words."""
        return self.heading or self.name.replace("_", " ")

    @property
    def anchor(self) -> str:
        """Where the documentation tells of it, below docs/."""
        return f"faults.md#{self.name}"

    def remedy_in(self, case: str) -> str:
        """The remedy in a case; where there is no other, the one of the kind."""
        return self.remedies[case] if case else self.remedy


_OK, _NOTE, _SOME, _STANDSTILL = Severity.OK, Severity.NOTE, Severity.SOME_FILES, Severity.STANDSTILL

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
_INGEST = "Run `lineage-store ingest`, or leave it to the daemon."
_RECURSIVE = "Use --recursive, or set recursive = true."
_IS_IT_RUNNING = "Is the daemon running? Its log tells what it waits for; `lineage-store ingest` reads once."
_READ_ON = "Nothing to do: the rest of the file was read. Compare it with a copy if one exists."
_RAISE = "The log file keeps it. Raise that setting and run `lineage-store reingest`, if it is meant."

_LOG_FILES = (
    Kind(
        "unreadable_file",
        _SOME,
        "{reason}",
        _TRIED_AGAIN,
        heading="Unreadable files",
        remedies=_UNREADABLE,
    ),
    Kind(
        "unreadable_path",
        _SOME,
        "{reason}",
        _TRIED_AGAIN,
        heading="Unreadable directories or entries",
        remedies=_UNREADABLE,
    ),
    Kind(
        "poisonous_file",
        _SOME,
        "{reason} Times in a row: {times}.",
        "It is left alone from now on; the other files go on. `lineage-store inspect` shows what is in it, "
        "`lineage-store retry` has it tried again, with reading_deadline_s or reading_memory_bytes raised if those "
        "were too little.",
        heading="Files whose reading failed the reader",
        remedies={"again": "It is tried again, {left} more times; the other files go on."},
    ),
    Kind(
        "riddled_file",
        _SOME,
        "More than {most:,} places between the bytes {start:,} and {end:,} hold no frame or no event.",
        "What is before them is in the store; the rest is left alone. `lineage-store inspect` shows what is in it, "
        "`lineage-store retry` reads on, with most_damages raised if that was too little.",
        heading="Files with damage everywhere",
    ),
    Kind(
        "torn_file",
        _SOME,
        "Its writer has finished in the middle of a frame: the last {pending} bytes are lost.",
        "Nothing to do: its complete frames are in the store.",
        heading="Files that end in the middle of a frame",
    ),
    Kind(
        "suspect_bytes",
        _SOME,
        "At byte {position}: {reason}.",
        "Wait: it is read again until it makes sense, and passed over, with a note, after suspect_grace_s. "
        "`lineage-store inspect` shows what is there.",
        heading="Files with bytes that make no frame",
    ),
    Kind(
        "missing_file",
        _NOTE,
        "It is no longer on disk; what was read of it is kept.",
        "If it was moved or the share is unmounted, bring it back; otherwise nothing to do.",
    ),
    Kind(
        "link_in_place",
        _NOTE,
        "{link} is a symbolic link now, which is not followed; what was read before it was put there is kept.",
        "If somebody moved the original, have it put back, or make a base dir of the place where it is now.",
    ),
    Kind("damaged_bytes", _NOTE, "No frame: {reason}.", _READ_ON, gives_up_bytes=True, joins=True),
    Kind(
        "undecodable_event",
        _NOTE,
        "The frame holds no readable event: {reason}",
        _READ_ON,
        gives_up_bytes=True,
    ),
    Kind(
        "oversized_event",
        _NOTE,
        "An event is left out: {reason}.",
        _RAISE,
        heading="Events beyond a bound of the settings",
        gives_up_bytes=True,
        joins=True,
    ),
    Kind(
        "beyond_bounds",
        _NOTE,
        "Not all that these bytes hold is in the store: {reason}.",
        _RAISE,
        heading="Jobs beyond a bound of the settings",
        joins=True,
    ),
    Kind(
        "unreadable_metric",
        _NOTE,
        "The metrics of an evaluation cannot be read: {reason}",
        "The evaluation counts without metrics. Record metrics that are a JSON object.",
    ),
)
"""What ingest stores of log files, and of the ways to them."""

_BASE_DIRS = (
    Kind(
        "unlistable_base_dir",
        _STANDSTILL,
        "It cannot be listed: {reason}",
        "Is the share mounted, and may {me} read it? What the store holds is kept, and ingest goes on when the "
        "directory is back.",
    ),
    Kind(
        "unattended_base_dir",
        _STANDSTILL,
        "No ingester leads {which}, and it was {searched}.",
        _IS_IT_RUNNING,
    ),
    Kind(
        "unsearched_base_dir",
        _STANDSTILL,
        "{leader} leads it, but it was last searched {age_s:,.0f} s ago.",
        "The log of that ingester tells what it does; does the disk answer?",
    ),
    Kind(
        "unknown_base_dir",
        _STANDSTILL,
        "It is not in the store.",
        "Is the daemon running? Its log tells why it does not read this base dir, which the settings name.",
    ),
    Kind("no_base_dir", _STANDSTILL, "It holds no base dir.", _IS_IT_RUNNING),
    Kind(
        "one_job",
        _NOTE,
        "It looks like one job's directory, not like a base dir: all log files lie in the directory itself.",
        "Ingest {parent}; if {path} is in the store already, `lineage-store forget` it first.",
    ),
    Kind(
        "known_twice",
        _NOTE,
        "{jobs:,} of its jobs are known in the base dir {other} too.",
        "If one was renamed to the other, `lineage-store forget` the new one, then `lineage-store move OLD NEW`.",
    ),
    Kind(
        "other_best",
        _NOTE,
        "{jobs:,} jobs have a better {metric} than their best, by what `less_is_better` says now.",
        "They were read when it said otherwise: `lineage-store db choose-best` chooses anew.",
    ),
    Kind(
        "deeper_log_files",
        _NOTE,
        "Log files lie deeper than ingest looks, such as in {where}.",
        _RECURSIVE,
    ),
    Kind("no_log_file", _NOTE, "It holds no log file.", "A log file's name has {naming} in it."),
    Kind(
        "open_to_everybody",
        _NOTE,
        "Every user may write to it, so anybody can put log files there.",
        "chmod o-w, unless that is meant.",
    ),
)

_STORE = (
    Kind("database_down", _STANDSTILL, "It is down.", "Is the server up and the URL right?"),
    Kind("database_locked", _STANDSTILL, "It is locked.", "Wait for who holds the lock, or end it."),
    Kind(
        "database_denied",
        _STANDSTILL,
        "It denies permission.",
        "Its administrator or owner grants what is missing.",
    ),
    Kind("database_closed", _STANDSTILL, "Its user alone may open it.", "Its owner lets others read it."),
    Kind(
        "database_busy", _STANDSTILL, "All connections are in use.", "Allow more with the setting pool_size."
    ),
    Kind(
        "database_timeout",
        _STANDSTILL,
        "It took too long.",
        "Allow more with the setting statement_timeout_s.",
    ),
    Kind(
        "database_conflict",
        _NOTE,
        "It is a standby that had to replay what the question was reading.",
        "Ask again. hot_standby_feedback = on there, or a longer max_standby_streaming_delay, makes it rare.",
    ),
    Kind(
        "database_full",
        _STANDSTILL,
        "It is full.",
        "Free some space; nothing was lost, and ingest goes on where it stood.",
    ),
    Kind(
        "database_read-only",
        _STANDSTILL,
        "It is read-only.",
        "Ingest where it may be written.",
    ),
    Kind("database_refused", _STANDSTILL, "It refuses.", "Check user, password and what the role may do."),
    Kind(
        "database_gone", _STANDSTILL, "It was removed.", "Put it back, or make a new one: lineage-store init."
    ),
    Kind(
        "database_replaced",
        _STANDSTILL,
        "It was replaced by another file.",
        "Try again: the new one is used.",
    ),
    Kind(
        "database_failed",
        _STANDSTILL,
        "It failed.",
        "Is it well? The log of the system or the server may tell.",
    ),
    Kind(
        "standby_down",
        _SOME,
        "{reason}",
        "Until it answers, questions fail; with read_database_url set to nothing the primary answers them.",
    ),
    Kind(
        "standby_behind",
        _SOME,
        "It shows the store as it was {lag_s:,.0f} s ago.",
        "Does it receive the log (pg_stat_wal_receiver), and is its disk quick enough? A long question holds replay up "
        "for max_standby_streaming_delay.",
        remedies={"paused": "Its replay is paused: SELECT pg_wal_replay_resume()."},
    ),
    Kind(
        "standby_is_primary",
        _NOTE,
        "It is the primary itself, which libpq took of the servers in read_database_url: it answers all questions.",
        "Does a standby among them answer? With target_session_attrs=standby in place of prefer-standby, questions "
        "fail until one does.",
    ),
    Kind(
        "standby_promoted",
        _SOME,
        "It is no standby any more: it shows nothing that is written to {primary}.",
        "If it has taken over, name it in database_url; else make a standby of it anew.",
    ),
    Kind(
        "unusable_store",
        _STANDSTILL,
        "It cannot be used: {reason}",
        "Use another database, or mend this one.",
    ),
    Kind(
        "network_filesystem",
        _STANDSTILL,
        "{path} is on a network filesystem ({filesystem}), where SQLite can lose or damage it.",
        "Put it on a local disk, or use PostgreSQL.",
    ),
    Kind(
        "unwritable_store",
        _NOTE,
        "{path} can be read but not written ({access}).",
        "Ingest needs a store of its own user; reading works.",
    ),
    Kind(
        "old_server",
        _STANDSTILL,
        "PostgreSQL is {found}; {needed} or newer is needed.",
        "Upgrade the server.",
    ),
    Kind(
        "unfinished_layout",
        _NOTE,
        "`lineage-store db partition` is at work, or was interrupted: samples are stored twice and written slowly.",
        "Let it end. If it was interrupted, run it again, and it goes on; the opposite (`--undo`, or the size before) "
        "takes back what it has done.",
    ),
    Kind(
        "citus_setting",
        _NOTE,
        "Its tables are distributed, and {name} is {found} on the coordinator.",
        "Set it to auto or prefer-local: every view joins jobs to their base dir, which is on the coordinator.",
        remedies={
            "max_prepared_transactions": "Set it to {least} or more, on the workers too: what has written on several "
            "of them is committed in two phases."
        },
    ),
    Kind(
        "large_write_ahead_log",
        _NOTE,
        "The write-ahead log has {size_bytes:,} bytes; reads get slower, and the disk may fill.",
        "Nobody reads now: the next write takes it in and cuts it back.",
    ),
    Kind(
        "held_write_ahead_log",
        _NOTE,
        "The write-ahead log has {size_bytes:,} bytes; reads get slower, and the disk may fill. It grows while "
        "somebody reads an old state: process {readers}.",
        "End the long reader.",
    ),
    Kind(
        "half_of_ids_used",
        _NOTE,
        "More than half of the 31-bit numbers of {numbered} are used: {used:,} of {most:,}.",
        "Nothing to do yet. Before the rest is used, ingest into a new store, which begins at 1 again.",
    ),
    Kind("in_order", _OK, "{words}"),
)

_DAEMONS = (
    Kind(
        "daemon_fails",
        _STANDSTILL,
        "{reason}",
        "It is tried again; the daemon's log tells more.",
        heading="fails",
    ),
    Kind(
        "no_progress",
        _STANDSTILL,
        "Listing, reading or writing does not come to an end.",
        "Does its disk answer? Without progress for {deadline_s:g} s the daemon ends, to be started anew.",
    ),
    Kind(
        "daemon_ended",
        _STANDSTILL,
        "The daemon that followed it, process {pid}, has ended: {how}.",
        "Start it again; its log tells more.",
        heading="ended",
    ),
    Kind(
        "daemon_stopped",
        _STANDSTILL,
        "The daemon that follows it, process {pid}, is stopped.",
        "Let it go on (kill -CONT {pid}), or end it (kill -KILL {pid}).",
        heading="stopped",
    ),
)

_PATHS = (
    Kind(
        "outside_base_dirs",
        _NOTE,
        "No base dir of the store holds it; the store has {known}.",
        "Run `lineage-store ingest {base_dir}`.",
    ),
    Kind("ignored_name", _NOTE, "Its name does not count: {reason}."),
    Kind("ignored_entries", _NOTE, "{count} of its entries do not count: {reason}."),
    Kind(
        "too_deep",
        _NOTE,
        "It lies {levels} levels below the base dir {base_dir}, and only one is looked into.",
        _RECURSIVE,
    ),
    Kind(
        "jobs_below",
        _NOTE,
        "It holds no log file itself; directories below it do, such as {where}.",
        "Ask for those.",
    ),
    Kind("no_regular_file", _NOTE, "It is no regular file."),
    Kind("not_on_disk", _NOTE, "It is not on disk now, or may not be looked at."),
    Kind(
        "link_out",
        _NOTE,
        "{step} is a symbolic link that leads out of the base dir, to {target}; no setting follows such links.",
        "Move what it leads to into the base dir, or make a base dir of the place where that lies.",
    ),
    Kind(
        "unfollowed_link",
        _NOTE,
        "{step} is a symbolic link, and those are not followed.",
        "Set follow_symlinks = true, which follows links that stay inside the base dir.",
    ),
    Kind("unread", _NOTE, "{files:,} log files are not read yet, such as {example}.", _INGEST),
    Kind("grown", _NOTE, "It has grown by {more} bytes since it was last looked at.", _INGEST),
    Kind("old_generation", _NOTE, "It was rewritten; this older generation no longer counts."),
    Kind(
        "new_generation",
        _NOTE,
        "It was rewritten; the new generation counts when it has been read in full.",
        _INGEST,
    ),
    Kind("incomplete_frame", _NOTE, "{pending} bytes at its end are not a complete frame yet."),
    Kind("given_up", _NOTE, "{count} bytes of it were given up as damaged; the rest was read."),
    Kind("stored", _OK, "Events stored: {events}, from {position} of {size} bytes."),
    Kind(
        "removed_job",
        _NOTE,
        "The job was removed on {removed_at:%Y-%m-%d %H:%M:%S} UTC ({reason}).",
        "Run `lineage-store gc --restore {directory}` to have it read again.",
    ),
    Kind(
        "removed_jobs",
        _NOTE,
        "{count:,} jobs of it were removed, and are left alone.",
        "`lineage-store gc --removed` lists them.",
    ),
    Kind(
        "no_lineage",
        _NOTE,
        "It has no lineage, so `filter` does not show it; its samples are there all the same.",
        "Train with SummaryCollector, which writes a lineage file.",
    ),
    Kind(
        "base_dir_totals",
        _OK,
        "It is a base dir of the store: {jobs:,} jobs, {pending:,} bytes pending, {problems:,} open problems.",
        remedies={"problems": "See `lineage-store status`."},
    ),
)
"""What `why` tells of a path, beside the above."""

_PROOFS = (
    Kind(
        "difference", _STANDSTILL, "{difference}", "`lineage-store reingest {directory}` reads the job anew."
    ),
    Kind(
        "unread_rewrite",
        _STANDSTILL,
        "The file is not the one that was read: it was rewritten.",
        "`lineage-store ingest` reads it anew.",
    ),
    Kind(
        "unverified_file",
        _SOME,
        "It could not be verified: {reason}",
        "Verify it again; it is no worse for that.",
    ),
)
"""What `verify` tells of a log file, beside what makes it unreadable."""

SECTIONS: Mapping[str, tuple[Kind, ...]] = {
    "Log files": _LOG_FILES,
    "Base dirs": _BASE_DIRS,
    "The store": _STORE,
    "Daemons": _DAEMONS,
    "Paths, as `why` tells": _PATHS,
    "Proofs, as `verify` tells": _PROOFS,
}

KINDS: dict[str, Kind] = {kind.name: kind for kinds in SECTIONS.values() for kind in kinds}
"""Every kind by its name."""
