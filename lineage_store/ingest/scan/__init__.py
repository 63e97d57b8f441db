"""What is on disk, and what has changed since the store last saw it."""
