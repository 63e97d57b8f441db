"""Tables and views, the meaning of each column, and upgrades from one version to the next."""
