"""Findings about a base dir or the daemon that follows it: what stops it, and what is unusual."""

from __future__ import annotations

from lineage_store.finding_kinds.kind import NOTE, SOME_FILES, STANDSTILL, Kind

RECURSIVE = "Use --recursive, or set recursive = true."
_IS_IT_RUNNING = "Is the daemon running? Its log tells what it waits for; `lineage-store ingest` reads once."

BASE_DIRS = (
    Kind(
        "unlistable_base_dir",
        STANDSTILL,
        "It cannot be listed: {reason}",
        "Is the share mounted, and may {me} read it? What the store holds is kept, and ingest goes on when the "
        "directory is back.",
    ),
    Kind(
        "unattended_base_dir", STANDSTILL, "No ingester leads {which}, and it was {searched}.", _IS_IT_RUNNING
    ),
    Kind(
        "unsearched_base_dir",
        STANDSTILL,
        "{leader} leads it, but it was last searched {age_s:,.0f} s ago.",
        "The log of that ingester tells what it does; does the disk answer?",
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
        "Is the daemon running? Its log tells why it does not read this base dir, which the settings name.",
    ),
    Kind("no_base_dir", STANDSTILL, "It holds no base dir.", _IS_IT_RUNNING),
    Kind(
        "one_job",
        NOTE,
        "It looks like one job's directory, not like a base dir: all log files lie in the directory itself.",
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
        "{jobs:,} jobs have a better {metric} than their best, by what `less_is_better` says now.",
        "They were read when it said otherwise: `lineage-store db choose-best` chooses anew.",
    ),
    Kind(
        "jobs_wait",
        SOME_FILES,
        "{jobs:,} jobs wait to be removed: in a day policies remove 10 jobs of it by themselves, or a tenth of all.",
        "Look at them: `lineage-store gc --policies --dry-run {path}`. If they may go: `lineage-store gc --policies "
        "--confirm {path}`; else change the settings keep_….",
    ),
    Kind(
        "clock_disagrees",
        SOME_FILES,
        "The clock is {off} what the store last wrote down, {agreed_at:%Y-%m-%d %H:%M} UTC: policies remove and thin "
        "nothing, for jobs would seem older or younger than they are.",
        "Set the clock right, of this host or of the PostgreSQL server. If it is right, and only nobody wrote to the "
        "store for so long: `lineage-store gc --policies --confirm {path}`.",
    ),
    Kind("deeper_log_files", NOTE, "Log files lie deeper than ingest looks, such as in {where}.", RECURSIVE),
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
        "It is tried again; the daemon's log tells more.",
        heading="fails",
    ),
    Kind(
        "no_progress",
        STANDSTILL,
        "Listing, reading or writing does not come to an end.",
        "Does its disk answer? Without progress for {deadline_s:g} s the daemon ends, to be started anew.",
    ),
    Kind(
        "daemon_ended",
        STANDSTILL,
        "The daemon that followed it, process {pid}, has ended: {how}.",
        "Start it again; its log tells more.",
        heading="ended",
    ),
    Kind(
        "daemon_stopped",
        STANDSTILL,
        "The daemon that follows it, process {pid}, is stopped.",
        "Let it go on (kill -CONT {pid}), or end it (kill -KILL {pid}).",
        heading="stopped",
    ),
)
