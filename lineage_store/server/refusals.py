"""Turns errors into HTTP responses: a status, and a document of the type application/problem+json (RFC 9457).

In: an error of errors.py, or any other exception. Out: a response with the kind, remedy and link to the documentation
that other places show for the same error. Promises: an unforeseen exception is logged, and the client learns only that
the server failed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from lineage_store import errors
from lineage_store.errors import DatabaseUnavailableError, MindInsightException, RequestRefusedError
from lineage_store.finding_kinds import KINDS
from lineage_store.findings import of_database
from lineage_store.server.decoding import to_json
from lineage_store.texts import without_passwords

log = logging.getLogger(__name__)

STATUS: Mapping[type[MindInsightException], HTTPStatus] = {
    errors.LineageParamTypeError: HTTPStatus.BAD_REQUEST,
    errors.LineageParamValueError: HTTPStatus.BAD_REQUEST,
    errors.LineageParamMissingError: HTTPStatus.BAD_REQUEST,
    errors.LineageSearchConditionParamError: HTTPStatus.BAD_REQUEST,
    errors.ReadOnlyStoreError: HTTPStatus.FORBIDDEN,
    errors.LineageParamSummaryPathError: HTTPStatus.NOT_FOUND,
    errors.LineageFileNotFoundError: HTTPStatus.NOT_FOUND,
    errors.TrainJobNotFoundError: HTTPStatus.NOT_FOUND,
    errors.SampleNotFoundError: HTTPStatus.NOT_FOUND,
    errors.LeaseHeldError: HTTPStatus.CONFLICT,
    errors.PayloadUnavailableError: HTTPStatus.GONE,
    errors.PayloadTooCostlyError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.LineageQuerySummaryDataError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotAStoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.AlteredStoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.SchemaTooOldError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.SchemaTooNewError: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""The status of each class of errors and its subclasses; all other errors are 500."""
REFUSED: Mapping[str, HTTPStatus] = {
    "wrong_host": HTTPStatus.MISDIRECTED_REQUEST,
    "no_token": HTTPStatus.UNAUTHORIZED,
    "not_this_host": HTTPStatus.FORBIDDEN,
    "other_site": HTTPStatus.FORBIDDEN,
    "remarks_off": HTTPStatus.FORBIDDEN,
    "two_lengths": HTTPStatus.BAD_REQUEST,
    "body_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "body_too_slow": HTTPStatus.REQUEST_TIMEOUT,
    "answer_too_large": HTTPStatus.BAD_REQUEST,
    "too_many_reads": HTTPStatus.TOO_MANY_REQUESTS,
    "readers_busy": HTTPStatus.SERVICE_UNAVAILABLE,
    "too_many_streams": HTTPStatus.TOO_MANY_REQUESTS,
}
"""The status of a `RequestRefusedError`, by its reason."""
DOCS = "docs/server.md#errors"
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
_DOCUMENT = "The document at /api/v1/openapi.json says what is allowed."


def answer_errors(app: FastAPI) -> None:
    """Make an application answer errors with problems; `guard.caught` does so for unforeseen exceptions."""
    app.add_exception_handler(MindInsightException, _of_error)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_http)


def response_of(error: MindInsightException) -> Response:
    """Return the problem that answers a request which raised this error."""
    kind, status = problem_kind(error), status_of(error)
    return _problem(status, kind, error.message, error.hint or "", docs_of(kind))


def status_of(error: MindInsightException) -> HTTPStatus:
    """Return the HTTP status of an error."""
    if isinstance(error, RequestRefusedError):
        return REFUSED[error.reason]
    near = (STATUS[base] for base in type(error).__mro__ if base in STATUS)
    return next(near, HTTPStatus.INTERNAL_SERVER_ERROR)


def retry_headers(status: int) -> dict[str, str]:
    """Return the header for a client that may be answered if it asks again a little later; else none."""
    waits = status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
    return {"Retry-After": str(RETRY_AFTER_S)} if waits else {}


def problem_kind(error: MindInsightException) -> str:
    """Return the kind of the finding that fits, else a name made of the class, such as `train_job_not_found`."""
    if isinstance(error, DatabaseUnavailableError):
        return of_database(error.cause).kind
    if isinstance(error, RequestRefusedError):
        return error.reason
    words = re.findall(r"[A-Z][a-z]*", type(error).__name__.removesuffix("Error"))
    return "_".join(words).lower()


def docs_of(kind: str) -> str:
    """Return the place in the documentation that describes a kind."""
    return f"docs/{KINDS[kind].anchor}" if kind in KINDS else DOCS


def _problem(status: HTTPStatus, kind: str, detail: str, remedy: str, docs: str = DOCS) -> Response:
    document = {
        "type": f"urn:lineage-store:{kind}",
        "title": kind.replace("_", " "),
        "status": status.value,
        "kind": kind,
        "detail": without_passwords(detail),
        "remedy": remedy,
        "docs": docs,
    }
    headers = retry_headers(status)
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(to_json(document), status.value, headers, MEDIA_TYPE)


async def _of_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, MindInsightException)
    if status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("A request failed.", exc_info=error)
    return response_of(error)


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    is_form = "body" in (each["loc"][0] for each in error.errors()) and not _is_json(request)
    wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return _problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "invalid_request",
        wrong,
        "Send it with `Content-Type: application/json`." if is_form else _DOCUMENT,
    )


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


async def _of_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    kind = status.phrase.lower().replace(" ", "_").replace("-", "_")
    response = _problem(status, kind, str(error.detail), _DOCUMENT)
    response.headers.update(error.headers or {})
    if response.headers.get("allow") == "GET":
        response.headers["allow"] = "GET, HEAD"
    return response


def response_of_anything(error: Exception) -> Response:
    """Return the problem that answers a request which ended in an unforeseen exception, and log the exception."""
    log.error("A request failed.", exc_info=error)
    return _problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        "The server failed to answer.",
        "This should not happen: please report it, with the server's log.",
    )
