"""The login page, and the response for unknown paths."""

from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from kstorm_ui.security import COOKIE, given_token, ticket
from kstorm_ui.site import API, Site, json


def routes(site: Site, token: str) -> list[Route]:
    """Return the routes. Without `token` no login is required."""
    return [
        Route("/login", partial(_login, site, token), methods=["GET", "POST"]),
        Route("/livez", _livez),
    ]


async def not_found(site: Site, request: Request, error: HTTPException) -> Response:
    if request.url.path.startswith(f"{API}/"):
        return json({"error": "this path, or a topology or component in it, does not exist"}, 404)
    return site.page("not_found.html", 404)


async def _livez(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _login(site: Site, token: str, request: Request) -> Response:
    if not token:
        return RedirectResponse("/", 303)
    if request.method == "GET":
        return site.page("login.html", wrong=False)
    if ticket(await given_token(request)) != ticket(token):
        return site.page("login.html", 401, wrong=True)
    answer = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, ticket(token), httponly=True, samesite="strict", secure=secure)
    return answer
