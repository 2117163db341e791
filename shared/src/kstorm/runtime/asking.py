"""Asks services for their `/status` or their `/topology`."""

import json
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

_PATIENCE_SECS: Final = 1.5
_MOST_BYTES: Final = 4_000_000
_AT_ONCE: Final = 16

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, page: str = "status") -> dict[str, Any] | None:
    """What the service at `http://host:port` says on a page of its own; None if it does not answer, or not in JSON."""
    try:
        with _direct.open(f"{url}/{page}", timeout=_PATIENCE_SECS) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def ask_all(urls: Sequence[str]) -> Sequence[dict[str, Any] | None]:
    """The same of many, some side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(ask, urls))
