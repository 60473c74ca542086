"""Who may ask: every request passes here before it reaches a route.

The name in ``Host`` has to be one of the server's: a page of another name that was made to point here
(DNS rebinding) is refused. What changes something must not come from another origin. Where there are tokens,
every request but ``/healthz`` carries one, or the cookie that a first visit with ``?token=`` leaves; whose it
is stands in the request's scope.
"""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response

from lakestream.server.shown.documents import ErrorDocument, Problem
from lakestream.storage.records.tokens import Principal, Scope, pass_of_token

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Send
    from starlette.types import Scope as Asked

    from lakestream.storage.records.tokens import Tokens

BODY_LIMIT = 1024**2
"""Most bytes of a request's body."""
BODY_SECONDS = 30.0
"""How long a request's body may take to come."""

COOKIE = "lakestream"
OWNER = Principal("server_token", Scope.ADMIN)
"""Whoever has the token of the settings."""

_OPEN = "/healthz"
_SAFE = {"GET", "HEAD", "OPTIONS"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Keys:
    """What lets somebody in: the token of the settings, which lets do everything, and those of the lake."""

    token: str | None = None
    tokens: Tokens | None = None

    def are_asked_for(self) -> bool:
        """Return whether whoever asks must have a token."""
        return self.token is not None or bool(self.tokens and self.tokens.every())

    def holder(self, text: str) -> Principal | None:
        """Return whose token a text is, None for nobody's."""
        if self.token is not None and _same(text, self.token):
            return OWNER
        return self.tokens.holder(text) if self.tokens and text else None

    def holder_of_pass(self, text: str) -> Principal | None:
        """Return from whose token a pass was made, None for nobody's."""
        if self.token is not None and _same(text, pass_of_token(self.token)):
            return OWNER
        return self.tokens.holder_of_pass(text) if self.tokens and text else None


class RequestRefused(HTTPException):
    """A request that is answered by an error, whatever its route would have made of it."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(status, message)
        self.problem = Problem(code=code, message=message, hint=hint)


@dataclass
class Guard:
    """The outermost layer of the application; ``names`` are further host names of the server."""

    app: ASGIApp
    names: frozenset[str]
    keys: Keys

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            _check_origin(scope, headers)
            visit = self._check_token(scope, headers)
            if visit is not None:
                await visit(scope, receive, send)
                return
            _check_length(headers)
            await self.app(
                scope, _limited(receive) if scope["type"] == "http" else receive, _with_headers(send)
            )
        except RequestRefused as refusal:
            await _refuse(refusal, scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        host = _host_of(f"//{headers.get('host', '')}")
        if not (_is_address(host) or host in self.names):
            raise RequestRefused(
                400,
                "BAD_HOST",
                f"this is not the server {host!r}",
                "the setting server_names lists further names that it is reached by",
            )

    def _check_token(self, scope: Asked, headers: Headers) -> Response | None:
        """Let a request with the token pass; return the answer to a first visit of the page with it."""
        if scope["path"] == _OPEN or not self.keys.are_asked_for():
            return None
        given = QueryParams(scope["query_string"]).get("token", "")
        if scope["type"] == "http" and scope["path"] == "/" and self.keys.holder(given) is not None:
            answer = RedirectResponse("/", status_code=303)
            is_encrypted = scope["scheme"] == "https"
            kept = pass_of_token(given)
            answer.set_cookie(COOKIE, kept, httponly=True, samesite="strict", secure=is_encrypted)
            return answer
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        principal = self.keys.holder(bearer) or self.keys.holder_of_pass(cookie)
        if principal is None:
            raise RequestRefused(
                401,
                "TOKEN_NEEDED",
                "the request carries no valid token",
                "Authorization: Bearer …, or /?token=…",
            )
        scope["principal"] = principal
        return None


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


def _host_of(url: str) -> str:
    """Return the host that a URL names, nothing for one that is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    """Return whether a host is an address: no other name can be made to point to it."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _check_origin(scope: Asked, headers: Headers) -> None:
    changes = scope["type"] == "websocket" or scope["method"] not in _SAFE
    origin = headers.get("origin")
    if changes and origin is not None and origin.partition("://")[2] != headers.get("host"):
        raise RequestRefused(403, "BAD_ORIGIN", f"a page of {origin} may not do this")


def _check_length(headers: Headers) -> None:
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > BODY_LIMIT:
        raise _too_large()


def _too_large() -> RequestRefused:
    return RequestRefused(413, "TOO_LARGE", f"the request has more than {BODY_LIMIT:,} bytes")


def _limited(receive: Receive) -> Receive:
    """Count the bytes of a body whose length was not told, and let it take no longer than it may."""
    taken, loop = 0, asyncio.get_running_loop()
    until = loop.time() + BODY_SECONDS
    whole = False

    async def counting() -> Message:
        nonlocal taken, whole
        try:
            # Behind the body comes that the client has gone, whenever it does.
            async with asyncio.timeout_at(None if whole else until):
                message = await receive()
        except TimeoutError:
            raise RequestRefused(408, "TOO_SLOW", "the request's body did not come in time") from None
        whole = message["type"] == "http.request" and not message.get("more_body", False)
        taken += len(message.get("body", b"")) if message["type"] == "http.request" else 0
        if taken > BODY_LIMIT:
            raise _too_large()
        return message

    return counting


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            named = {name.lower() for name, _ in message["headers"]}
            message["headers"] += [
                (name.lower().encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.lower().encode() not in named
            ]
        await send(message)

    return sending


async def _refuse(refusal: RequestRefused, scope: Asked, receive: Receive, send: Send) -> None:
    """Answer a request that was refused; a websocket is refused before it is opened."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.problem.code})
        return
    await error_answer(refusal.status_code, refusal.problem)(scope, receive, _with_headers(send))


def error_answer(status: int, problem: Problem) -> JSONResponse:
    """Return an error as the API tells it; what a client sent that has no encoding is escaped in it."""
    told = {name: getattr(problem, name).encode(errors="backslashreplace") for name in ("message", "hint")}
    problem = problem.model_copy(update={name: text.decode() for name, text in told.items()})
    return JSONResponse(ErrorDocument(error=problem).model_dump(mode="json"), status)
