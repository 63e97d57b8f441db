"""What people who run a store ask for: is it well, why is it missing, read it again, remove, forget, move, verify."""
