"""Questions to the store: a condition becomes SQL, and its rows become the answer. Only reads."""
