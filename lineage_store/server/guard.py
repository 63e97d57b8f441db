"""What surrounds all endpoints: who may ask what, and what every answer carries.

In: settings; requests. Out: the application's answer, or a problem. Promises: a request is refused when its Host is not
a name of this server (DNS rebinding), when it comes from another host without the token, or when a page of another site
tries to change something. Labels and remarks are taken from those with the token, or from all if the settings say so.
Tokens are compared in constant time, and a wrong one is answered with a delay. A body is read completely before the
endpoint runs, with a limit on length and time; what is left of a refused one is thrown away, so that its client gets to
read the answer. A misspelt parameter is refused, so that it never gets the answer to another question. Every answer,
also to an unforeseen exception, carries headers that limit what a browser may do with it.
Does not know: any endpoint.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_store.config import Settings, read_secret
from lineage_store.errors import ConfigError, LineageParamValueError, RequestRefusedError
from lineage_store.server import refusals
from lineage_store.texts import meant

COOKIE = "lineage_store"
ADMIT = "admit"
"""The name in a request's state of what the server wants to be called when the request may be answered."""
LEAST_TOKEN = 16
WRONG_TOKEN_WAITS_S = 0.5
BODY_WITHIN_S = 10.0
DISCARDED_BYTES = 64 << 20
"""How much of a refused body is read and thrown away at most."""
_LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}
_HOST = re.compile(r"(?:\[([\da-fA-F:.]+)\]|([^:\[\]]+))(?::\d*)?")
_CHANGES_NOTHING = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every answer, unless the answer sets them itself."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that decide which requests are let through."""

    names: frozenset[str]
    """Allowed names in the header Host."""
    token: str | None
    body_bytes: int
    """The largest allowed body."""
    takes_remarks: bool
    """Whether those who are let through may put labels and remarks on jobs: with the token they always may."""

    @property
    def cookie(self) -> str:
        """The value that a browser stores instead of the token."""
        return hmac.digest((self.token or "").encode(), b"lineage-store cookie", "sha256").hex()


def policy_of(settings: Settings) -> Policy:
    """Return the policy of the settings. Raises ConfigError if they would let other hosts in without a token."""
    token = _read_token(settings.serve_token_file)
    names = {name.strip().lower() for name in settings.serve_names.split(",") if name.strip()}
    if token is None and (names or not is_loopback(settings.serve_host)):
        raise ConfigError(
            f"The server would answer others (serve_host = {settings.serve_host!r}, serve_names = "
            f"{settings.serve_names!r}) without requiring a token.",
            hint="Write a secret into a file that only you can read, and name it: --token-file FILE.",
        )
    names |= _LOOPBACK_NAMES
    if not is_loopback(settings.serve_host):
        names |= {settings.serve_host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    takes_remarks = settings.serve_allow_remarks or token is not None
    return Policy(frozenset(names), token, settings.serve_body_bytes, takes_remarks)


def refuse_remarks(request: Request) -> None:
    """Raise RequestRefusedError when this server takes no labels and remarks from whoever sent a request."""
    if not request.state.takes_remarks:
        raise RequestRefusedError(
            "This server does not accept labels and remarks.",
            hint="Start it with --allow-remarks, or with --token-file FILE.",
            reason="remarks_off",
        )


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise LineageParamValueError for a parameter that the endpoint of a request does not have."""
    route: APIRoute = request.scope["route"]
    known = [field.alias for field in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise LineageParamValueError(
                f"There is no parameter {name!r} here.",
                hint=meant(name, known) or f"Known parameters: {', '.join(known) or 'none'}.",
            )


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be reached from this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES


def _read_token(file: str) -> str | None:
    if not file:
        return None
    token = read_secret(file, "token file").strip()
    if len(token) < LEAST_TOKEN or not token.isascii():
        raise ConfigError(
            f"The token in {file} must have at least {LEAST_TOKEN} ASCII characters.",
            hint="Make one: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return token


class Guard:
    """ASGI middleware that refuses what the policy does not allow."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app, self._policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with a problem or a redirection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            _check_length(headers)
            _check_host(headers, self._policy)
            if (redirection := await self._check_token(scope, headers)) is not None:
                await redirection(scope, receive, send)
                return
            if (admit := scope["state"].get(ADMIT)) is not None:
                admit()
            if scope["method"] not in _CHANGES_NOTHING:
                _check_site(headers, scope["state"]["by_token"])
            receive = await _with_body(receive, headers, self._policy.body_bytes)
        except RequestRefusedError as error:
            await _refuse(error, headers, scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _check_token(self, scope: Scope, headers: Headers) -> RedirectResponse | None:
        """Refuse a request without the right token or cookie.

        Returns a redirection that turns a token in the URL into a cookie, so that the token stays in no history.
        """
        scope.setdefault("state", {}).update(by_token=True, takes_remarks=self._policy.takes_remarks)
        if self._policy.token is None:
            if scope["client"] is not None and not is_loopback(scope["client"][0]):
                raise RequestRefusedError(
                    "This server answers only its own host.",
                    hint="Start it with --token-file FILE.",
                    reason="not_this_host",
                )
            scope["state"]["by_token"] = False
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        in_url = dict(query).get("token")
        given = in_url or _bearer(headers)
        if _same(given, self._policy.token):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            return self._to_cookie(scope, rest) if in_url else None
        cookie = HTTPConnection(scope).cookies.get(COOKIE, "")
        if _same(cookie, self._policy.cookie):
            scope["state"]["by_token"] = False  # a page of another site can make a browser send the cookie
            return None
        if given or cookie:
            await asyncio.sleep(WRONG_TOKEN_WAITS_S)
        raise RequestRefusedError(
            "This server requires a token.",
            hint="Open it with ?token=…, or send the header Authorization: Bearer …; the file that the server was "
            "started with (--token-file) holds it.",
            reason="no_token",
        )

    def _to_cookie(self, scope: Scope, rest: str) -> RedirectResponse:
        path = "/" + quote(scope["path"].lstrip("/"))  # //other.example would be another site
        response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        secure = scope["scheme"] == "https"
        response.set_cookie(COOKIE, self._policy.cookie, httponly=True, samesite="strict", secure=secure)
        return response


def _same(given: str, wanted: str) -> bool:
    """Compare in a time that does not depend on where the two differ."""
    texts = (text.encode("utf-8", "surrogateescape") for text in (given, wanted))
    return hmac.compare_digest(*(hashlib.sha256(text).digest() for text in texts))


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _refuse(
    error: RequestRefusedError, headers: Headers, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer with a problem, and throw away what is left of the body.

    A connection that is closed while its client still sends is reset, and the answer is lost with it. A client that
    waits to be asked for its body (`Expect`) sends none.
    """
    answer = refusals.response_of(error)
    if not _has_body(headers) or "expect" in headers:
        await answer(scope, receive, send)
        return
    answer.headers["Connection"] = "close"

    async def before_its_end(message: Message) -> None:
        if message["type"] != "http.response.body":
            await send(message)
            return
        await send({**message, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(BODY_WITHIN_S):
                await _discard(receive)
        await send({"type": "http.response.body"})

    await answer(scope, receive, before_its_end)


async def _discard(receive: Receive) -> None:
    left, more = DISCARDED_BYTES, True
    while more and left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _check_length(headers: Headers) -> None:
    """Refuse a body with two lengths: what a proxy takes for its end may be the middle for us, or the reverse."""
    if "transfer-encoding" in headers and "content-length" in headers:
        raise RequestRefusedError(
            "The request has both Content-Length and Transfer-Encoding.",
            hint="Send one of them: a body has one length.",
            reason="two_lengths",
        )


def _check_host(headers: Headers, policy: Policy) -> None:
    hosts = headers.getlist("host")
    if len(hosts) == 1 and _name_in(hosts[0]) in policy.names:
        return
    raise RequestRefusedError(
        f"This server is not called {', '.join(hosts)!r}.",
        hint="Name it with the setting serve_names, if browsers are to use that name.",
        reason="wrong_host",
    )


def _name_in(host: str) -> str:
    """Return a Host header's name or address in lower case, without port and brackets; "" if it is malformed."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower().rstrip(".") if match else ""


def _check_site(headers: Headers, by_token: bool) -> None:
    """Refuse a change by a page of another site; browsers send headers that say which site a request comes from."""
    if by_token:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    of_this = site in (None, "same-origin", "none") and (
        origin is None or origin.partition("://")[2] == headers.get("host")
    )
    if not of_this:
        raise RequestRefusedError(
            f"A page of another site ({origin or site}) must not change anything here.", reason="other_site"
        )


async def _with_body(receive: Receive, headers: Headers, most: int) -> Receive:
    """Read the body; return a `receive` that replays it. Raises RequestRefusedError."""
    if not _has_body(headers):
        return receive
    if (length := headers.get("content-length", "")).isdigit() and int(length) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            first = await _read(receive, most)
    except TimeoutError:
        raise RequestRefusedError(
            f"The body of the request did not come within {BODY_WITHIN_S:g} s.", reason="body_too_slow"
        ) from None

    async def replay() -> Message:
        nonlocal first
        message, first = first, None
        return message or await receive()

    return replay


async def _read(receive: Receive, most: int) -> Message | None:
    parts, length = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        parts.append(message.get("body", b""))
        length += len(parts[-1])
        if length > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _too_large(most: int) -> RequestRefusedError:
    return RequestRefusedError(
        f"The body of the request has more than {most} bytes.",
        hint="Ask for less, or allow more with the limit serve_body_bytes.",
        reason="body_too_large",
    )


def heads(app: ASGIApp, beside: str) -> ASGIApp:
    """Answer HEAD like GET, but without the body (RFC 9110), except at paths that begin with `beside`."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") != "HEAD" or scope["path"].startswith(beside):
            await app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope.update(as_get, method="HEAD")  # the routing result, by which metrics count
                await send(message)
                await send({"type": "http.response.body"})

        try:
            await app(as_get, receive, without_body)
        finally:
            scope.update(as_get, method="HEAD")  # also for the answer to an exception

    return answer


def caught(app: ASGIApp) -> ASGIApp:
    """Answer a request that ended in an unforeseen exception; amid an answer it is raised, which cuts the connection.

    Starlette runs a handler of `Exception` outside of all middleware, where answers are not counted and get no headers.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await app(scope, receive, noting)
        except Exception as error:
            if has_begun or scope["type"] != "http":
                raise
            await refusals.response_of_anything(error)(scope, receive, send)

    return answer


def safe_headers(app: ASGIApp) -> ASGIApp:
    """Give answers, refusals included, the headers that limit what a browser may do, where they set none themselves."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: Any = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, sending)

    return answer
