"""Asks services for their pages in JSON."""

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
"""A value of a state in Base64 has 22 million."""
_AT_ONCE: Final = 16

Answer = tuple[int, dict[str, Any]]
"""The status and what it says."""

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, page: str = "status") -> dict[str, Any] | None:
    """What the service at `http://host:port` says on a page of its own; None if it does not answer, or not in JSON."""
    found = question(url, page)
    return found[1] if found is not None and found[0] == HTTPStatus.OK else None


def question(
    url: str,
    page: str,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer | None:
    """The same with a query, and whatever the status is."""
    whole = f"{url}/{page}?{urlencode(query or {})}".removesuffix("?")
    asked = urllib.request.Request(whole, headers=dict(headers or {}))  # noqa: S310 - it is a service's
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


def ask_all(urls: Sequence[str]) -> Sequence[dict[str, Any] | None]:
    """The same of many, some side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(ask, urls))
