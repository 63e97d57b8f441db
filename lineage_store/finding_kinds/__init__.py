"""THE table of what can be found: for each kind how bad it is, what is said of it, and what to do.

One row per kind, in the module that its subject names. Ingest stores problems by these names (`ingest_problem.kind`),
every report takes its words from here, `status --check` its exit code, and docs/faults.md its list.
`findings.finding` fills in what stands in braces.
"""

from __future__ import annotations

from collections.abc import Mapping

from lineage_store.finding_kinds.base_dirs import BASE_DIRS, DAEMONS
from lineage_store.finding_kinds.kind import Kind, Severity
from lineage_store.finding_kinds.log_files import LOG_FILES, PROOFS
from lineage_store.finding_kinds.paths import PATHS
from lineage_store.finding_kinds.store import STORE

SECTIONS: Mapping[str, tuple[Kind, ...]] = {
    "Log files": LOG_FILES,
    "Base dirs": BASE_DIRS,
    "The store": STORE,
    "Daemons": DAEMONS,
    "Paths, as `why` tells": PATHS,
    "Proofs, as `verify` tells": PROOFS,
}

KINDS: dict[str, Kind] = {kind.name: kind for kinds in SECTIONS.values() for kind in kinds}
"""Every kind by its name."""

__all__ = ["KINDS", "SECTIONS", "Kind", "Severity"]
