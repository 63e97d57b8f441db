"""THE table of the kinds of findings: for each its severity, its text and what to do.

One row per kind, in the module named after its subject. Ingest stores problems under these names
(`ingest_problem.kind`); every report takes its texts from here, `status --check` its exit code, docs/faults.md its
list. `findings.finding` fills in the placeholders in braces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lineage_store.errors import Cause

# ---- The row type of the tables of finding kinds: severity, text and remedies. Pure. Does not know any kind


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; everything readable is read."""
    SOME_FILES = "some files"
    """Some log files cannot be read, the others are; or one of several daemons, or the standby, cannot work; or
    something waits for a person."""
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
    """A short text for a line that counts several findings or has little room."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """Alternative remedies, by the case in which they apply."""
    gives_up_bytes: bool = False
    """Whether the bytes of its range are given up, that is, quarantined."""
    ranged: bool = False
    """Whether it is about byte ranges of a log file: it is counted, and stays; others are states, which end."""
    joins: bool = False
    """Whether adjacent ranges are one place, with the text of the first: a chunk may end anywhere in it."""

    @property
    def title(self) -> str:
        """Its heading, or its name in plain words."""
        return self.heading or self.name.replace("_", " ")

    @property
    def anchor(self) -> str:
        """Its section of the documentation, relative to docs/."""
        return f"faults.md#{self.name}"


OK, NOTE, SOME_FILES, STANDSTILL = Severity


# ---- Findings about a base dir or the daemon that follows it: what stops it, and what is unusual


RECURSIVE = "Use --recursive, or set recursive = true."
_IS_IT_RUNNING = "Is the daemon running? Its log shows what it waits for; `lineage-store ingest` reads once."

BASE_DIRS = (
    Kind(
        "unlistable_base_dir",
        STANDSTILL,
        "It cannot be listed: {reason}",
        "Is the share mounted, and may {me} read it? What the store holds is kept, and ingest resumes when the "
        "directory is back.",
    ),
    Kind(
        "unattended_base_dir",
        STANDSTILL,
        "No ingester holds the lease of {which}, and it was {searched}.",
        _IS_IT_RUNNING,
    ),
    Kind(
        "unsearched_base_dir",
        STANDSTILL,
        "{leader} holds its lease, but it was last searched {age_s:,.0f} s ago.",
        "The log of that ingester shows what it does; does the disk answer?",
    ),
    Kind(
        "backlog",
        NOTE,
        "{files:,} log files wait to be read, {size:,} bytes: {pace}.",
        "The store does not have them all yet: their jobs are `reading`.",
        heading="reading",
    ),
    Kind(
        "backlog_grows",
        SOME_FILES,
        "{files:,} log files wait to be read, {size:,} bytes, which is more than {before_s:,.0f} s ago: {pace}.",
        "More is written than is read. Is the machine or its disk busy? The setting `shards` divides a base dir among "
        "several daemons.",
    ),
    Kind(
        "backlog_stands",
        STANDSTILL,
        "{files:,} log files wait to be read, {size:,} bytes, and {why}.",
        _IS_IT_RUNNING,
    ),
    Kind(
        "unknown_base_dir",
        STANDSTILL,
        "It is not in the store.",
        "Is the daemon running? Its log says why it does not read this base dir, which the settings name.",
    ),
    Kind("no_base_dir", STANDSTILL, "It holds no base dir.", _IS_IT_RUNNING),
    Kind(
        "one_job",
        NOTE,
        "It is probably one job's directory, not a base dir: all log files are in the directory itself.",
        "Ingest {parent}; if {path} is in the store already, `lineage-store forget` it first.",
    ),
    Kind(
        "known_twice",
        NOTE,
        "{jobs:,} of its jobs are known in the base dir {other} too.",
        "If one was renamed to the other, `lineage-store forget` the new one, then `lineage-store move OLD NEW`.",
    ),
    Kind(
        "other_best",
        NOTE,
        "{jobs:,} jobs have a better {metric} than their stored best, by the present `less_is_better`.",
        "They were read with another value of it: `lineage-store db choose-best` chooses anew.",
    ),
    Kind(
        "jobs_wait",
        SOME_FILES,
        "{jobs:,} jobs need confirmation: retention removes at most 10 jobs of it in a day, or a tenth of all.",
        "Check them: `lineage-store gc --policies --dry-run {path}`. If they may be removed: `lineage-store gc "
        "--policies --confirm {path}`; else change the settings keep_….",
    ),
    Kind(
        "clock_disagrees",
        SOME_FILES,
        "The clock is {off} the last write of the store, {agreed_at:%Y-%m-%d %H:%M} UTC: retention is delayed, for "
        "jobs would seem older or younger than they are.",
        "Set the clock right, of this host or of the PostgreSQL server. If it is right, and the store was only "
        "idle for that long: `lineage-store gc --policies --confirm {path}`.",
    ),
    Kind(
        "deeper_log_files", NOTE, "Log files are deeper than ingest searches, such as in {where}.", RECURSIVE
    ),
    Kind("no_log_file", NOTE, "It holds no log file.", "A log file's name has {naming} in it."),
    Kind(
        "open_to_everybody",
        NOTE,
        "Every user may write to it, so anybody can put log files there.",
        "chmod o-w, unless that is meant.",
    ),
)

DAEMONS = (
    Kind(
        "daemon_fails",
        STANDSTILL,
        "{reason}",
        "It will be retried; see the daemon's log.",
        heading="fails",
    ),
    Kind(
        "no_progress",
        STANDSTILL,
        "Listing, reading or writing does not end.",
        "Does its disk answer? Without progress for {deadline_s:g} s the daemon exits, to be restarted.",
    ),
    Kind(
        "daemon_ended",
        STANDSTILL,
        "The daemon that followed it, process {pid}, has ended: {how}.",
        "Restart it; see its log.",
        heading="ended",
    ),
    Kind(
        "daemon_stopped",
        STANDSTILL,
        "The daemon that follows it, process {pid}, is stopped.",
        "Resume it (kill -CONT {pid}), or end it (kill -KILL {pid}).",
        heading="stopped",
    ),
)


# ---- Findings about log files: the problems that ingest stores, and those that `verify` reports


_DENIED = (
    "This process runs as {me}. Run the daemon as the training user, or make the file readable (MindSpore writes mode "
    "0600 and 0400)."
)
_UNREADABLE = {
    "denied": _DENIED,
    "link": "Links that stay inside the base dir are followed with follow_symlinks = true; no setting follows others.",
}
_TRIED_AGAIN = "It is retried, at the latest every finished_interval_s; check the filesystem if it stays."
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
        "quarantined_file",
        SOME_FILES,
        "{reason} Times in a row: {times}.",
        "It is not read any more; the other files are. `lineage-store inspect` shows what is in it, "
        "`lineage-store retry` retries it, with the limits reading_deadline_s or reading_memory_bytes raised "
        "if those were too little.",
        heading="Files whose reading failed the reader",
        remedies={"again": "It is retried {left} more times; the other files are read meanwhile."},
    ),
    Kind(
        "heavily_damaged_file",
        SOME_FILES,
        "More than {most:,} places between the bytes {start:,} and {end:,} hold no frame or no event.",
        "What is before them is in the store; the rest is not read. `lineage-store inspect` shows what is in it, "
        "`lineage-store retry` reads on, with the limit most_damages raised if that was too little.",
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
        "{more:,} directories or entries, such as this one, could not be read and are not listed.",
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


# ---- Findings of `why` about a path, beside the problems that ingest stores


_INGEST = "Run `lineage-store ingest`, or leave it to the daemon."

PATHS = (
    Kind(
        "outside_base_dirs",
        NOTE,
        "No base dir of the store holds it; the store has {known}.",
        "Run `lineage-store ingest {base_dir}`.",
    ),
    Kind(
        "above_base_dirs",
        NOTE,
        "It is no base dir of the store, but base dirs lie beneath it: {known}.",
        "Name one of these, or what is in one.",
    ),
    Kind("ignored_name", NOTE, "Its name does not count: {reason}."),
    Kind("ignored_entries", NOTE, "{count} of its entries do not count: {reason}."),
    Kind(
        "too_deep",
        NOTE,
        "It lies {levels} levels below the base dir {base_dir}, and only one is searched.",
        RECURSIVE,
    ),
    Kind(
        "in_snapshots",
        NOTE,
        "It is, or lies in, a directory of snapshots or of deleted files, into which no search of a base dir goes.",
        "If its jobs are wanted, make a base dir of the directory that holds them: `lineage-store ingest DIRECTORY`.",
        heading="Directories of snapshots or of deleted files",
    ),
    Kind(
        "jobs_below",
        NOTE,
        "It holds no log file itself; directories below it do, such as {where}.",
        "Name those.",
    ),
    Kind("no_regular_file", NOTE, "It is no regular file."),
    Kind("not_on_disk", NOTE, "It is not on disk now, or may not be read."),
    Kind(
        "link_out",
        NOTE,
        "{step} is a symbolic link that points out of the base dir, to {target}; no setting follows such links.",
        "Move its target into the base dir, or make a base dir of the directory that holds it.",
    ),
    Kind(
        "unfollowed_link",
        NOTE,
        "{step} is a symbolic link, and those are not followed.",
        "Set follow_symlinks = true, which follows links that stay inside the base dir.",
    ),
    Kind("unread", NOTE, "{files:,} log files are not read yet, such as {example}.", _INGEST),
    Kind("grown", NOTE, "It has grown by {more} bytes since the last check.", _INGEST),
    Kind("old_generation", NOTE, "It was rewritten; this older generation no longer counts."),
    Kind(
        "new_generation",
        NOTE,
        "It was rewritten; the new generation counts when it has been read in full.",
        _INGEST,
    ),
    Kind(
        "kept_back",
        NOTE,
        "It was rewritten or read again; the new generation has less than the old one, and bytes that make no frame.",
        "Readers see the old one until those bytes are read or given up, after suspect_grace_s.",
    ),
    Kind("waits", NOTE, "{pending:,} bytes of it were found and wait to be read.", _INGEST),
    Kind("incomplete_frame", NOTE, "{pending} bytes at its end are not a complete frame yet."),
    Kind("given_up", NOTE, "{count} bytes of it were given up as damaged; the rest was read."),
    Kind(
        "copy_of_another",
        NOTE,
        "It is a copy, or begins as one: {position} of its {size} bytes are in another log file of its job, which "
        "counts.",
    ),
    Kind("stored", OK, "Events stored: {events}, from {position} of {size} bytes."),
    Kind(
        "removed_job",
        NOTE,
        "The job was removed on {removed_at:%Y-%m-%d %H:%M:%S} UTC ({reason}).",
        "Run `lineage-store gc --restore {directory}` to have it read again.",
    ),
    Kind(
        "removed_jobs",
        NOTE,
        "{count:,} jobs of it were removed, and are left alone.",
        "`lineage-store gc --removed` lists them.",
    ),
    Kind(
        "no_lineage",
        NOTE,
        "It has no lineage, so `filter` does not show it; its samples are there all the same.",
        "Train with SummaryCollector, which writes a lineage file.",
    ),
    Kind(
        "base_dir_totals",
        OK,
        "It is a base dir of the store: {jobs:,} jobs, {pending:,} bytes pending, {problems:,} open problems.",
        remedies={"problems": "See `lineage-store status`."},
    ),
)


# ---- Findings about the database, and about the standby that answers questions


STORE = (
    Kind("database_down", STANDSTILL, "It is down.", "Is the server up and the URL right?"),
    Kind("database_locked", STANDSTILL, "It is locked.", "Wait for the holder of the lock, or end it."),
    Kind(
        "database_denied",
        STANDSTILL,
        "It denies permission.",
        "Its administrator or owner grants what is missing.",
    ),
    Kind("database_closed", STANDSTILL, "Its user alone may open it.", "Its owner lets others read it."),
    Kind(
        "database_busy",
        STANDSTILL,
        "All connections are in use.",
        "Allow more with the limit pool_size, or ask with fewer threads at once.",
    ),
    Kind(
        "database_timeout",
        STANDSTILL,
        "It took too long.",
        "Allow more with the setting statement_timeout_s.",
    ),
    Kind(
        "database_conflict",
        NOTE,
        "It is a standby that had to replay what the question was reading.",
        "Ask again. hot_standby_feedback = on there, or a longer max_standby_streaming_delay, makes it rare.",
    ),
    Kind(
        "database_full",
        STANDSTILL,
        "It is full.",
        "Free some space; nothing was lost, and ingest resumes where it stopped.",
    ),
    Kind("database_read-only", STANDSTILL, "It is read-only.", "Ingest where it may be written."),
    Kind("database_refused", STANDSTILL, "It refuses.", "Check user, password and what the role may do."),
    Kind(
        "database_gone", STANDSTILL, "It was removed.", "Put it back, or make a new one: lineage-store init."
    ),
    Kind(
        "database_replaced", STANDSTILL, "It was replaced by another file.", "Try again: the new one is used."
    ),
    Kind(
        "database_damaged",
        STANDSTILL,
        "Its SQLite file is damaged.",
        "Stop the daemon, and move the file away with the -wal and -shm beside it. Then restore the newest backup "
        "(`lineage-store restore FILE`), or without one just ingest: the log files are read again. Labels and remarks "
        "are in the store only; what can still be read of them: lineage-store sql --csv 'SELECT path, train_id, tag, "
        "remark FROM annotation JOIN base_dir ON id = base_dir_id'. Is the disk healthy? See the system's log.",
    ),
    Kind(
        "unchecked_store",
        NOTE,
        "The SQLite file was not checked for damage to its end within {within_s:g} s: {size_bytes:,} bytes.",
        "To check all of it: `lineage-store backup FILE`, which reads every page and checks what it wrote.",
    ),
    Kind(
        "empty_store",
        NOTE,
        "{path} is empty: no store was made there yet, or it was cut off.",
        "If there was a store, restore a backup (`lineage-store restore FILE`); else the next ingest makes one there.",
    ),
    Kind(
        "database_failed",
        STANDSTILL,
        "It failed.",
        "Is it healthy? See the log of the system or the server.",
    ),
    Kind(
        "standby_down",
        SOME_FILES,
        "{reason}",
        "Until it answers, questions fail; without read_database_url the primary answers them.",
    ),
    Kind(
        "standby_behind",
        SOME_FILES,
        "It shows the store as it was {lag_s:,.0f} s ago.",
        "Does it receive the log (pg_stat_wal_receiver), and is its disk quick enough? A long question holds replay up "
        "for max_standby_streaming_delay.",
        remedies={"paused": "Its replay is paused: SELECT pg_wal_replay_resume()."},
    ),
    Kind(
        "standby_is_primary",
        NOTE,
        "It is the primary itself, which libpq took of the servers in read_database_url: it answers all questions.",
        "Does a standby among them answer? With target_session_attrs=standby in place of prefer-standby, questions "
        "fail until one does.",
    ),
    Kind(
        "standby_promoted",
        SOME_FILES,
        "It is no standby any more: it does not show what is written to {primary}.",
        "If it has taken over, name it in database_url; else make a standby of it anew.",
    ),
    Kind(
        "unusable_store", STANDSTILL, "It cannot be used: {reason}", "Use another database, or mend this one."
    ),
    Kind(
        "altered_store",
        STANDSTILL,
        "It is not as lineage_store made it: {altered}.",
        "Restore a backup of before, or make a new store and read the log files again.",
    ),
    Kind(
        "own_objects",
        NOTE,
        "It holds objects of an administrator: {objects}. They stay in use; no backup brings them along.",
        "Keep the statements that make them: run these again after a restore.",
    ),
    Kind(
        "unattested_words",
        NOTE,
        "This role may not make temporary tables, without which the definitions of tables and views are compared by a "
        "digest that is stored beside them, not word by word.",
        "Run doctor once as the owner of the tables, or let an administrator grant: GRANT TEMPORARY ON DATABASE.",
    ),
    Kind(
        "network_filesystem",
        STANDSTILL,
        "{path} is on a network filesystem ({filesystem}), where SQLite can lose or damage it.",
        "Put it on a local disk, or use PostgreSQL.",
    ),
    Kind(
        "unwritable_store",
        NOTE,
        "{path} can be read but not written ({access}).",
        "Ingest needs a store of its own user; reading works.",
    ),
    Kind(
        "old_server", STANDSTILL, "PostgreSQL is {found}; {needed} or newer is needed.", "Upgrade the server."
    ),
    Kind(
        "unfinished_layout",
        NOTE,
        "`lineage-store db partition` is running, or was interrupted: samples are stored twice and written slowly.",
        "Let it end. If it was interrupted, run it again to resume; the opposite (`--undo`, or the size before) "
        "reverts what it has done.",
    ),
    Kind(
        "writing_reader",
        NOTE,
        "The role {role}, which only reads, can call functions that write or lock also in a READ ONLY transaction: "
        "{functions}.",
        "`lineage-store db grant --reader ROLE` (or --analyst) as a superuser revokes them from everybody; any other "
        "user gets the statement to let a superuser run.",
        heading="a reader can write",
    ),
    Kind(
        "citus_setting",
        NOTE,
        "Its tables are distributed, and {name} is {found} on the coordinator.",
        "Set it to auto or prefer-local: views join samples to their jobs and series, which are on the coordinator.",
        remedies={
            "max_prepared_transactions": "Set it to {least} or more, on the workers too: what has written on several "
            "of them is committed in two phases."
        },
    ),
    Kind(
        "large_write_ahead_log",
        NOTE,
        "The write-ahead log has {size_bytes:,} bytes; reads get slower, and the disk may fill.",
        "Nobody reads now: the next write truncates it.",
    ),
    Kind(
        "held_write_ahead_log",
        NOTE,
        "The write-ahead log has {size_bytes:,} bytes; reads get slower, and the disk may fill. It grows while "
        "somebody reads an old state: process {readers}.",
        "End the long reader.",
    ),
    Kind(
        "half_of_ids_used",
        NOTE,
        "More than half of the 31-bit numbers of {numbered} are used: {used:,} of {most:,}.",
        "Nothing to do yet. Before the rest is used, ingest into a new store, which begins at 1 again.",
    ),
    Kind("in_order", OK, "{words}"),
)


SECTIONS: Mapping[str, tuple[Kind, ...]] = {
    "Log files": LOG_FILES,
    "Base dirs": BASE_DIRS,
    "The store": STORE,
    "Daemons": DAEMONS,
    "Paths, as `why` reports": PATHS,
    "Proofs, as `verify` reports": PROOFS,
}

KINDS: dict[str, Kind] = {kind.name: kind for kinds in SECTIONS.values() for kind in kinds}
"""Every kind by its name."""

__all__ = ["KINDS", "SECTIONS", "Kind", "Severity"]


def of_cause(cause: Cause) -> Kind:
    """Return the kind of finding about a database that failed for this cause."""
    return KINDS[f"database_{cause}"]
