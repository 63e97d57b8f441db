"""Tables and views, what each column means, and the way from one version to the next."""
