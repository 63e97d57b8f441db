"""The verbs, a few to a module; `lineage_store.cli.app.VERBS` says which is where."""
