"""Operations for whoever runs a store: check its health, explain what is missing, read again, remove, move, verify."""
