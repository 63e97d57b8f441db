"""THE table of the kinds of findings: for each its severity, its text and what to do.

One row per kind, in the module named after its subject. Ingest stores problems under these names
(`ingest_problem.kind`); every report takes its texts from here, `status --check` its exit code, docs/faults.md its
list. `findings.finding` fills in the placeholders in braces.
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
