"""Findings about the database, and about the standby that answers questions."""

from __future__ import annotations

from lineage_store.finding_kinds.kind import NOTE, OK, SOME_FILES, STANDSTILL, Kind

STORE = (
    Kind("database_down", STANDSTILL, "It is down.", "Is the server up and the URL right?"),
    Kind("database_locked", STANDSTILL, "It is locked.", "Wait for who holds the lock, or end it."),
    Kind(
        "database_denied",
        STANDSTILL,
        "It denies permission.",
        "Its administrator or owner grants what is missing.",
    ),
    Kind("database_closed", STANDSTILL, "Its user alone may open it.", "Its owner lets others read it."),
    Kind(
        "database_busy", STANDSTILL, "All connections are in use.", "Allow more with the setting pool_size."
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
        "Free some space; nothing was lost, and ingest goes on where it stood.",
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
        "remark FROM annotation JOIN base_dir ON id = base_dir_id'. Is the disk well? The system's log may tell.",
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
        "Is it well? The log of the system or the server may tell.",
    ),
    Kind(
        "standby_down",
        SOME_FILES,
        "{reason}",
        "Until it answers, questions fail; with read_database_url set to nothing the primary answers them.",
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
        "It is no standby any more: it shows nothing that is written to {primary}.",
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
        "`lineage-store db partition` is at work, or was interrupted: samples are stored twice and written slowly.",
        "Let it end. If it was interrupted, run it again, and it goes on; the opposite (`--undo`, or the size before) "
        "takes back what it has done.",
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
        "Set it to auto or prefer-local: every view joins jobs to their base dir, which is on the coordinator.",
        remedies={
            "max_prepared_transactions": "Set it to {least} or more, on the workers too: what has written on several "
            "of them is committed in two phases."
        },
    ),
    Kind(
        "large_write_ahead_log",
        NOTE,
        "The write-ahead log has {size_bytes:,} bytes; reads get slower, and the disk may fill.",
        "Nobody reads now: the next write takes it in and cuts it back.",
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
