"""What people who run a store ask for: is it well, why is something missing, read it again, remove, forget, verify."""
