"""The command line `lineage-store`: thin verbs over the API.

Data goes to stdout, everything else to stderr. `main` is the entry point; a verb's module is imported only when used.
"""

from lineage_store.cli.app import main

__all__ = ["main"]
