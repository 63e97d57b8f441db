"""The verbs, a few per module; `lineage_store.cli.app.VERBS` names the module of each verb."""
