"""Queries the OSV database of Python, Java and npm packages, for every component by name and
version, in a few requests.

If it is unreachable, the caller prints a line about it and relies on the list of known
vulnerabilities.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from kstorm.errors import LocalError
from tools.supply.advisories import Finding
from tools.supply.parts import Part

ADDRESS: Final = "https://api.osv.dev"
_AT_ONCE: Final = 500
_ECOSYSTEMS: Final = {"package": "PyPI", "jar": "Maven", "script": "npm"}


class UnreachableError(LocalError):
    """The database does not respond."""


def query_advisories(parts: Sequence[Part], address: str = "") -> list[Finding]:
    """Return the vulnerabilities that the database lists for these components, without jars of
    unknown group.

    Raises `UnreachableError` if it does not respond.
    """
    address = address or os.environ.get("KSTORM_OSV", ADDRESS)
    known = [part for part in parts if part.kind != "jar" or part.group]
    some = (known[first : first + _AT_ONCE] for first in range(0, len(known), _AT_ONCE))
    return [finding for each in some for finding in _query_batch(each, address)]


def _query_batch(parts: Sequence[Part], address: str) -> list[Finding]:
    queries = json.dumps({"queries": [_query(part) for part in parts]}).encode()
    answers = _get(f"{address}/v1/querybatch", queries).get("results", [])
    if len(answers) != len(parts):
        raise UnreachableError(f"{address} answered {len(answers)} of {len(parts)} questions")
    return [
        Finding(part, tuple(_known_as(hole["id"], address) for hole in answer["vulns"]))
        for part, answer in zip(parts, answers, strict=True)
        if answer.get("vulns")
    ]


def _query(part: Part) -> dict[str, Any]:
    name = f"{part.group}:{part.name}" if part.group else part.name
    return {"package": {"ecosystem": _ECOSYSTEMS[part.kind], "name": name}, "version": part.version}


def _known_as(number: str, address: str) -> str:
    """Return the CVE of a vulnerability if it has one, because our exceptions use CVEs."""
    aliases: list[str] = _get(f"{address}/v1/vulns/{number}").get("aliases", [])
    return next((alias for alias in aliases if alias.startswith("CVE-")), number)


def _get(url: str, content: bytes | None = None) -> dict[str, Any]:
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the address is the operator's
            found: dict[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UnreachableError(f"{url} cannot be asked: {reason}") from None
    return found
