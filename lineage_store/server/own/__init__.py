"""Our own API, `/api/v1/…`: a module a family of endpoints, each with a router."""
