"""Findings of `why` about a path, beside the problems that ingest stores."""

from __future__ import annotations

from lineage_store.finding_kinds.base_dirs import RECURSIVE
from lineage_store.finding_kinds.kind import NOTE, OK, Kind

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
        "Ask for one of these, or for what is in one.",
    ),
    Kind("ignored_name", NOTE, "Its name does not count: {reason}."),
    Kind("ignored_entries", NOTE, "{count} of its entries do not count: {reason}."),
    Kind(
        "too_deep",
        NOTE,
        "It lies {levels} levels below the base dir {base_dir}, and only one is looked into.",
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
        "Ask for those.",
    ),
    Kind("no_regular_file", NOTE, "It is no regular file."),
    Kind("not_on_disk", NOTE, "It is not on disk now, or may not be looked at."),
    Kind(
        "link_out",
        NOTE,
        "{step} is a symbolic link that leads out of the base dir, to {target}; no setting follows such links.",
        "Move what it leads to into the base dir, or make a base dir of the place where that lies.",
    ),
    Kind(
        "unfollowed_link",
        NOTE,
        "{step} is a symbolic link, and those are not followed.",
        "Set follow_symlinks = true, which follows links that stay inside the base dir.",
    ),
    Kind("unread", NOTE, "{files:,} log files are not read yet, such as {example}.", _INGEST),
    Kind("grown", NOTE, "It has grown by {more} bytes since it was last looked at.", _INGEST),
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
