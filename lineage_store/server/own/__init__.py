"""Our own API, `/api/v1/…`: one module with a router for each family of endpoints."""
