"""Parameters that no endpoint of our own API has.

In: a request, and the endpoint that it has reached. Out: nothing, or a refusal that names the parameter and the one
that was most likely meant. Promises: nobody is given an answer to another question because he misspelt a parameter.
MindInsight's API passes over what it does not know, as its clients expect.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from lineage_store.errors import LineageParamValueError
from lineage_store.texts import meant


async def only_known(request: Request) -> None:
    """Refuse a request with a parameter that its endpoint does not have. Raises LineageParamValueError."""
    route: APIRoute = request.scope["route"]
    known = [field.alias for field in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise LineageParamValueError(
                f"There is no parameter {name!r} here.",
                hint=meant(name, known) or f"Known parameters: {', '.join(known) or 'none'}.",
            )
