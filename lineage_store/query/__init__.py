"""Questions to the store: a condition becomes SQL, and its rows become the answer. Nothing here writes."""
