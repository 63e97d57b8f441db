"""Distribute a PostgreSQL store over the workers of Citus.

In: an engine for the coordinator, the part to be distributed. Out: a distributed store, or an error that says what is
missing. Promises: the distribution is one transaction, so that a killed run leaves the store as it was; writers wait
for it; running it again does what is left, such as freeing the room of moved rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Engine, text

from lineage_store.errors import LineageStoreError
from lineage_store.findings import THE_STORE, Finding, finding
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.session import Session
from lineage_store.store.schema import attestation, distribution, partitions, upgrade
from lineage_store.store.schema.distribution import Part

LEAST_CITUS = 11
_VERSION = text("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
_SETTINGS = text("""
SELECT current_setting('citus.local_table_join_policy', true) AS policy,
  CAST(current_setting('max_prepared_transactions') AS integer) AS prepared,
  CAST(current_setting('max_connections') AS integer) AS connections
""")
_PAGE = "docs/citus.md says what to install."
# A transaction that makes several tables must not use several connections to a worker.
_SEQUENTIALLY = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"


def distribute(engine: Engine, part: Part, shards: int = distribution.SHARDS) -> list[str]:
    """Distribute the store; return the statements that were run, none if it was distributed already.

    Raises LineageStoreError if the store cannot be distributed: no PostgreSQL, no Citus, no worker, or partitions.
    """
    found = planned(engine, part, shards)
    if found:
        with writing(engine) as session:
            upgrade.wait_for_turn(session)
            for statement in (_SEQUENTIALLY, *found):
                session.change(statement)
            attestation.mark(session, upgrade.VERSION_TABLE)
    for statement in distribution.clearing(part):
        with writing(engine) as session:
            upgrade.wait_for_turn(session)
            session.change(statement)
    return found


def planned(engine: Engine, part: Part, shards: int = distribution.SHARDS) -> list[str]:
    """Return the statements that `distribute` would run. Raises LineageStoreError as `distribute` does."""
    if engine.dialect.name != "postgresql":
        raise LineageStoreError("Only PostgreSQL with Citus distributes a store.", hint=_PAGE)
    with reading(engine) as session:
        version = session.value(_VERSION)
        if version is None:
            raise LineageStoreError("The database has no extension citus.", hint=_PAGE)
        if int(version.partition(".")[0]) < LEAST_CITUS:
            raise LineageStoreError(f"Citus is {version}; {LEAST_CITUS} or newer is needed.", hint=_PAGE)
        if not session.value(distribution.WORKERS):
            raise LineageStoreError(
                "Citus has no node that may hold shards.", hint=f"Add one: SELECT citus_add_node(…). {_PAGE}"
            )
        if partitions.is_partitioned(session):
            raise LineageStoreError(
                "The samples are partitioned by job on this server.",
                hint="`lineage-store db partition --undo` first: workers hold them in shards.",
            )
        return distribution.statements(part, shards, distribution.distributed(session))


def ill_settings(session: Session) -> Iterator[Finding]:
    """Yield a finding for each setting of the coordinator that does not suit a distributed store."""
    policy, prepared, connections = session.one(_SETTINGS)
    if policy in ("never", "prefer-distributed"):
        yield finding("citus_setting", THE_STORE, name="citus.local_table_join_policy", found=policy)
    if prepared < connections:
        name, least = "max_prepared_transactions", f"max_connections ({connections})"
        yield finding("citus_setting", THE_STORE, case=name, name=name, found=prepared, least=least)
