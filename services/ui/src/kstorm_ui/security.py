"""Access control of the web UI, and browser security headers.

- Only the web UI's own files run as scripts.
- Other sites cannot embed the web UI, and do not learn the addresses of its pages.
- Without a login, only this machine can see it, under this machine's own host names.
"""

import hashlib
import hmac
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kstorm.errors import ConfigError
from kstorm.operations.events.operator_identity import operator
from kstorm.runtime.base.loopback import is_loopback
from kstorm_ui.forms import fields_of

COOKIE: Final = "kstorm_ui"
_MOST_NAME: Final = 200
_OPEN: Final = ("/livez", "/login", "/static/style.css", "/static/icon.svg")
"""Paths that need no login: a health check, and what the login page needs."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Middleware in front of everything. It requires the login and adds the headers to each
    response."""

    def __init__(self, app: ASGIApp, token: str, user_header: str) -> None:
        self._app, self._token, self._user_header = app, token, user_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        path = scope["path"]
        if self._user_header:
            if path != "/livez" and not headers.get(self._user_header):
                return PlainTextResponse(
                    "no user: open the web UI through the proxy that logs you in\n", 401
                )
        elif self._token:
            if path not in _OPEN and not self._knows(scope, headers):
                looks = scope["method"] == "GET" and not path.startswith("/api/")
                return (
                    RedirectResponse("/login", 303)
                    if looks
                    else PlainTextResponse("log in, or send Authorization: Bearer TOKEN\n", 401)
                )
        elif not is_loopback(_host(headers)):
            # Otherwise any website could read this one, by its own host name that resolves to this
            # machine.
            return PlainTextResponse(
                "without a login, the web UI is available only as localhost or 127.0.0.1\n", 421
            )
        if scope["method"] not in ("GET", "HEAD") and not _same_origin(headers):
            return PlainTextResponse("refused: the request came from another site\n", 403)
        return None

    def _knows(self, scope: Scope, headers: Headers) -> bool:
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if given and hmac.compare_digest(given.encode(), self._token.encode()):
            return True
        cookie = Request(scope).cookies.get(COOKIE, "")
        return hmac.compare_digest(cookie.encode(), ticket(self._token).encode())


def ticket(token: str) -> str:
    """Return the cookie for a token, so that the browser does not store the token itself."""
    return hmac.new(token.encode(), b"kstorm ui, ticket 1", hashlib.sha256).hexdigest()


async def given_token(request: Request) -> str:
    """Return the token in the login form, or "" if the body is not a form."""
    try:
        return (await fields_of(request)).get("token", "").strip()
    except ConfigError:
        return ""


def who_asks(request: Request, user_header: str, token: str) -> str:
    """Return the operator to record for an action.

    This is the user named by the proxy, or the address from which the token was sent. Without a
    login it is the user who runs the web UI, because only this machine can reach it.
    """
    if user_header:
        name = request.headers.get(user_header, "").encode("latin-1").decode(errors="replace")
        return f"{name[:_MOST_NAME]}, by the web UI"
    if token:
        return f"the web UI, from {request.client.host if request.client else '?'}"
    return f"{operator()}, by the web UI"


def _host(headers: Headers) -> str:
    return urlsplit(f"//{headers.get('host', '')}").hostname or ""


def _same_origin(headers: Headers) -> bool:
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")
