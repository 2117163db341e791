"""Licences of the components, and whether they are allowed. `licences.toml` lists each licence as
its authors state it.

A component without an entry is unknown and fails, so that someone checks it before it is used. A
component under a licence that is not allowed fails too, unless it has an exception with a date.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tools.supply.parts import Part, PartKind

LICENCES: Final = Path(__file__).with_name("licences.toml")


@dataclass(frozen=True, slots=True)
class Licences:
    """Contents of the file: licences by name pattern, where the first match wins, and the allowed
    ones."""

    allowed: frozenset[str]
    packages: tuple[tuple[str, str], ...]
    jars: tuple[tuple[str, str], ...]
    scripts: tuple[tuple[str, str], ...]
    exceptions: tuple[tuple[str, date], ...]

    def of(self, kind: PartKind, name: str) -> str:
        """Return the licence of a component as an SPDX expression, or "" if it has no entry."""
        lines = {"package": self.packages, "jar": self.jars, "script": self.scripts}[kind]
        return next((licence for pattern, licence in lines if fnmatchcase(name, pattern)), "")

    def allows(self, expression: str) -> bool:
        """Return True if one of the choices consists of allowed licences only."""
        choices = (choice.split(" AND ") for choice in expression.split(" OR "))
        return any(self.allowed.issuperset(choice) for choice in choices)


def read(file: Path = LICENCES) -> Licences:
    found = tomllib.loads(file.read_text())
    lines = {
        kind: tuple(
            (pattern, licence) for licence, patterns in found[kind].items() for pattern in patterns
        )
        for kind in ("packages", "jars", "scripts")
    }
    exceptions = tuple((each["part"], each["until"]) for each in found.get("exception", ()))
    return Licences(
        frozenset(found["allowed"]), lines["packages"], lines["jars"], lines["scripts"], exceptions
    )


def complaints(parts: Iterable[Part], today: date, licences: Licences | None = None) -> list[str]:
    """Return a line for each component whose licence is unknown or not allowed, and for each
    expired exception."""
    licences = licences or read()
    excepted = {part for part, _ in licences.exceptions}
    wrong = [_complaint(part, licences) for part in parts if part.name not in excepted]
    late = [
        f"the exception for the licence of {part} ended on {until}: look at it anew, in {LICENCES.name}"
        for part, until in licences.exceptions
        if until < today
    ]
    return [*filter(None, wrong), *late]


def _complaint(part: Part, licences: Licences) -> str:
    licence = licences.of(part.kind, part.name)
    if not licence:
        return f"the licence of {part} is not known: look at it, and write it into {LICENCES.name}"
    if not licences.allows(licence):
        return (
            f"{part} is under {licence}, which is not among the allowed licences of {LICENCES.name}"
        )
    return ""
