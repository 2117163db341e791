"""Client for the JSON pages of services."""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode

_PATIENCE_SECS: Final = 1.5
_MOST_BYTES: Final = 32_000_000
"""A state's value takes up to 22 million bytes in Base64."""
_AT_ONCE: Final = 16

PageAnswer = tuple[int, dict[str, Any]]
"""The HTTP status and the JSON object."""

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch_page(url: str, page: str = "status") -> dict[str, Any] | None:
    """Return a page of the service at `http://host:port`. Return None unless it responds with 200
    and a JSON object."""
    found = query_page(url, page)
    return found[1] if found is not None and found[0] == HTTPStatus.OK else None


def query_page(
    url: str,
    page: str,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> PageAnswer | None:
    """Return the status and the JSON object of a page, for any status."""
    whole = f"{url}/{page}?{urlencode(query or {})}".removesuffix("?")
    asked = urllib.request.Request(whole, headers=dict(headers or {}))  # noqa: S310 - the URL is that of a service
    try:
        try:
            answer = _direct.open(asked, timeout=_PATIENCE_SECS)
        except HTTPError as error:
            answer = error
        with answer:
            found = json.loads(answer.read(_MOST_BYTES))
    except (OSError, HTTPException, ValueError):
        return None
    return (answer.status, found) if isinstance(found, dict) else None


def fetch_status_of_all(urls: Sequence[str]) -> Sequence[dict[str, Any] | None]:
    """Fetch the status page of several services concurrently."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(fetch_page, urls))
